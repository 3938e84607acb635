import * as v from 'valibot'
import {
  checkRules,
  declares,
  delayMs,
  limitMs,
  optionsOf,
  positiveNumber,
  properties,
  share,
  wholeNumber,
} from './options-schema.ts'
import type { TensorLike } from '../tensor/tensor.ts'

/** Limits of one priority level's queue; Triton's `ModelQueuePolicy`. */
export interface QueuePolicy {
  /**
   * What happens at the timeout. `'REJECT'`: the request rejects with `ERR_TIMEOUT`. `'DELAY'`: it keeps waiting,
   * without a timeout, behind the others of its level. Default `'REJECT'`.
   */
  timeoutAction?: TimeoutAction
  /** Milliseconds a request may wait in the queue. Default 0: no limit. */
  defaultTimeoutMs?: number
  /**
   * Whether a request's `timeoutMs` may shorten `defaultTimeoutMs`; as in Triton it cannot lengthen it. Without a
   * default, a request's own timeout always applies. Default `false`.
   */
  allowTimeoutOverride?: boolean
  /** Most requests of the level in the queue; further ones are refused with `ERR_QUEUE_FULL`. Default 0: no limit. */
  maxQueueSize?: number
}

/** How requests are batched; Triton's `dynamic_batching`. */
export interface DynamicBatchingConfig {
  /**
   * Batch sizes, in rows, at which a batch may close early. Default: `maxBatchSize` alone.
   *
   * By default the engine may also split a load that would fit one batch: among the instances or, with one instance and
   * at least 24 rows, in two. Runs then overlap with each other and with the delivery of answers. It does so where short
   * runs have turned out to be faster on the worker than inline, or if it measures a higher throughput, and measures
   * again from time to time; each measurement holds requests back once, for at most the duration of the whole batch. The
   * engine never splits a load if this option is set (`[maxBatchSize]` has no other effect), or with a delay, priority
   * levels, costs, a latency target or `autoTune`.
   */
  preferredBatchSize?: number | readonly number[]
  /**
   * Milliseconds an idle instance waits for a batch to grow, from the arrival of the oldest request. Default 0: an idle
   * instance runs at once what is queued.
   */
  maxQueueDelayMs?: number
  /**
   * The cost of a request: `{ input: 'input_ids', dim: 1 }` for its length times its rows, or a function; see {@link
   * RequestCost}.
   *
   * With `padding` to `'longest'`, batches then hold requests of similar length. The oldest request of a bucket and
   * level is always in its next batch, with the requests nearest to it in length. A request that arrives more than 8
   * times `maxBatchSize` requests later (at most 512, at least `maxBatchSize`) never overtakes. Not with `sequence`.
   * Default: none; batches form in the order of arrival.
   */
  cost?: RequestCost
  /**
   * Most a batch may cost, besides `maxBatchSize`. The cost of a batch is its longest row times its rows with `padding`
   * to `'longest'`, else the sum of its requests' costs. Needs `cost`. Default: no limit.
   */
  maxBatchCost?: number
  /**
   * Share of a padded batch's cost that may be padding, 0 to 1. A higher share pays off where each run has a high fixed
   * cost. Needs `cost`. Default 0.1.
   */
  maxPaddingShare?: number
  /**
   * What happens to a request that alone costs more than `maxBatchCost`. `'ALONE'`: it runs in a batch of its own.
   * `'REJECT'`: it is refused with `ERR_INVALID_ARG`, so that no run exceeds the budget. Default `'ALONE'`.
   */
  overCostAction?: OverCostAction
  /**
   * Whether responses keep the order of requests across several instances. Refusals, timeouts and aborts are delivered
   * at once. An answer that waits for earlier ones counts against `maxQueueSize`, and is delivered even if its deadline
   * passes meanwhile. Default `false`.
   */
  preserveOrdering?: boolean
  /** Number of priority levels, 1 the highest. Default 0: all requests are equal. */
  priorityLevels?: number
  /** Level of requests without `priority`. Default: `priorityLevels`, the lowest. */
  defaultPriorityLevel?: number
  /** Queue limits of levels that `priorityQueuePolicy` does not list. Default `{}`: no limits. */
  defaultQueuePolicy?: QueuePolicy
  /** Queue limits by level. Default `{}`. */
  priorityQueuePolicy?: Readonly<Record<number, QueuePolicy>>
  /**
   * For tests: nothing runs until this many requests have been queued at once, so that batches do not depend on timing.
   * Requests that share another's row are not counted. Default 0: no hold.
   */
  holdUntilQueued?: number
}

/**
 * Why a batch was closed:
 *
 * | reason | |
 * |---|---|
 * | `full` | no further request fits, or it holds the maximum |
 * | `preferred` | it has a preferred size, or a size that the engine measures or has chosen for throughput |
 * | `idle` | an instance was idle and there is no delay to wait for |
 * | `bucket` | as `idle`, but queued requests could not share the run: other shapes or, with `cost`, lengths too different |
 * | `delay` | its oldest request had waited for `maxQueueDelayMs` or, after a load was split to measure it, for the rest of the load |
 * | `cost` | with one more request it would cost more than `maxBatchCost` |
 * | `deadline` | with one more row, or later, one of its requests would have missed its deadline |
 * | `drain` | the model is closing |
 */
export type BatchReason = 'full' | 'preferred' | 'idle' | 'bucket' | 'delay' | 'cost' | 'deadline' | 'drain'

/** All batch reasons. */
export const batchReasons: readonly BatchReason[] = [
  'full',
  'preferred',
  'idle',
  'bucket',
  'delay',
  'cost',
  'deadline',
  'drain',
]

/** What happens to a request after its timeout; Triton's `timeout_action`. */
export type TimeoutAction = 'REJECT' | 'DELAY'

/** Triton's levels are 64-bit numbers. */
export const maxPriorityLevel = 2 ** 64

/** A {@link QueuePolicy} with defaults in place. */
export type LevelPolicy = Readonly<Required<QueuePolicy>>

/** The priority levels of a model. */
export interface LevelOptions {
  /** 0 for one level without a number. */
  readonly priorityLevels: number
  readonly defaultPriorityLevel: number
  readonly defaultPolicy: LevelPolicy
  readonly policies: ReadonlyMap<number, LevelPolicy>
}

/** Prefix of the bucket of a request that shares no run, whatever its model allows. */
export const aloneKey = 'alone:'

/** Limits of a batch. All sizes in rows. */
export interface BatchLimits {
  readonly maxBatchSize: number
  /** Ascending, each 1..maxBatchSize; empty means `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  /** Milliseconds the oldest request may wait for a larger batch while an instance is idle. */
  readonly maxQueueDelayMs: number
  /**
   * Time at which the delay ends. Undefined if the user set the delay. Otherwise the delay is the engine's own, and no
   * request waits longer than half of its timeout for it.
   */
  readonly delayEndsAtMs?: number | undefined
  /** False: every request is a batch of its own. */
  readonly joinRequests: boolean
  /** Undefined without `cost`. */
  readonly cost?: CostLimits | undefined
}

/** Limits of batches whose requests have a cost. */
export interface CostLimits {
  /** `Infinity` for no limit. */
  readonly maxBatchCost: number
  /**
   * Whether rows are padded to the most expensive one: a batch then costs that times its rows, else the sum of its
   * requests' costs.
   */
  readonly isPadded: boolean
  /** Share of a batch's cost that may be padding. */
  readonly maxPaddingShare: number
}

/** A request as the `cost` function receives it. */
export interface CostedRequest {
  /** Size of its batch dimension. */
  readonly rows: number
  /**
   * Its tensors by the model's names, without optional ones that were left out. Read-only, and valid only during the
   * call.
   */
  readonly inputs: Readonly<Record<string, Pick<TensorLike, 'type' | 'dims' | 'data'>>>
}

/**
 * The cost of a request. Either the length of a row along a dimension of an input (an index into the input's dims,
 * batch dimension included) times its rows, or the result of a function: a finite number of at least 0, for all its
 * rows. The function is called once per request, on the application's thread.
 */
export type RequestCost =
  | { readonly input: string; readonly dim: number }
  | ((request: CostedRequest) => number)

/** What happens to a request over the cost limit of a batch: it runs alone, or is refused with `ERR_INVALID_ARG`. */
export type OverCostAction = 'ALONE' | 'REJECT'

/** Cost options with defaults in place. */
export type ResolvedCost = NonNullable<ReturnType<typeof resolveCost>>

/** Default of `maxPaddingShare`. */
export const defaultPaddingShare = 0.1

const costFunction = {
  ...v.custom<(request: CostedRequest) => number>((value) => typeof value === 'function'),
  expects: 'a function, or { input, dim }',
}

/**
 * The cost options with defaults; `null` without `cost`.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an option that needs another one, or excludes it.
 */
export function resolveCost(model: string, options: Scheduling | null, hasSequence: boolean) {
  if (options === null) return null
  const { cost, maxBatchCost, maxPaddingShare, overCostAction } = options
  const beside = 'dynamicBatching.cost beside it'
  const hint = "Say what a request costs, as cost: { input: 'input_ids', dim: 1 }"
  if (cost === undefined) {
    checkRules(model, [
      [maxBatchCost !== undefined, 'dynamicBatching.maxBatchCost', beside, maxBatchCost, hint],
      [maxPaddingShare !== undefined, 'dynamicBatching.maxPaddingShare', beside, maxPaddingShare, hint],
      [overCostAction !== undefined, 'dynamicBatching.overCostAction', beside, overCostAction, hint],
    ])
    return null
  }
  const isUseless = maxBatchCost === undefined && overCostAction !== undefined
  checkRules(model, [
    [hasSequence, 'dynamicBatching.cost', 'to be omitted for a model with sequences', cost, 'Remove it, or sequence'],
    [isUseless, 'dynamicBatching.overCostAction', 'dynamicBatching.maxBatchCost beside it', overCostAction, 'Without it nothing costs too much'],
  ]) // prettier-ignore
  return {
    of: cost,
    /** `Infinity` for no limit. */
    maxBatchCost: maxBatchCost ?? Infinity,
    maxPaddingShare: maxPaddingShare ?? defaultPaddingShare,
    overCostAction: overCostAction ?? 'ALONE',
  }
}

/** The options of a {@link QueuePolicy}. */
export const queuePolicyEntries = {
  timeoutAction: v.optional(v.picklist(['REJECT', 'DELAY']), 'REJECT'),
  defaultTimeoutMs: v.optional(limitMs, 0),
  allowTimeoutOverride: v.optional(v.boolean(), false),
  maxQueueSize: v.optional(wholeNumber(0, undefined, 'a whole number, 0 for no limit'), 0),
}
const queuePolicySchema = declares<QueuePolicy>()(queuePolicyEntries)

/** Schema of `dynamicBatching`. */
export const schedulingSchema = declares<DynamicBatchingConfig>()({
  preferredBatchSize: v.optional(v.union([wholeNumber(1), v.pipe(v.array(wholeNumber(1)), v.minLength(1))])),
  maxQueueDelayMs: v.optional(delayMs, 0),
  cost: v.optional(
    v.union([optionsOf({ input: v.pipe(v.string(), v.minLength(1)), dim: wholeNumber(1) }), costFunction]),
  ),
  maxBatchCost: v.optional(positiveNumber),
  maxPaddingShare: v.optional(share),
  overCostAction: v.optional(v.picklist(['ALONE', 'REJECT'])),
  preserveOrdering: v.optional(v.boolean(), false),
  priorityLevels: v.optional(wholeNumber(0, maxPriorityLevel), 0),
  defaultPriorityLevel: v.optional(wholeNumber(0, maxPriorityLevel)),
  defaultQueuePolicy: v.optional(queuePolicySchema, {}),
  priorityQueuePolicy: v.optional(v.pipe(properties, v.record(v.string(), queuePolicySchema)), {}),
  holdUntilQueued: v.optional(wholeNumber(0), 0),
})

/** The output of the `dynamicBatching` schema. */
export type Scheduling = v.InferOutput<typeof schedulingSchema>

/** Priority levels and their policies; one level without limits for `null`, a model without batching. */
export function resolveLevels(batching: Scheduling | null): LevelOptions {
  const {
    priorityLevels,
    defaultPriorityLevel = priorityLevels,
    defaultQueuePolicy,
    priorityQueuePolicy,
  } = batching ?? v.parse(schedulingSchema, {})
  const policies = new Map(
    Object.entries(priorityQueuePolicy).map(([level, policy]) => [Number(level), policy]),
  )
  return { priorityLevels, defaultPriorityLevel, defaultPolicy: defaultQueuePolicy, policies }
}

/**
 * Checks the scheduling options against each other, by Triton's rules.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkScheduling(model: string, batching: Scheduling | null): void {
  if (batching === null) return
  const { priorityLevels, defaultPriorityLevel, preserveOrdering, defaultQueuePolicy, priorityQueuePolicy } =
    batching
  const inRange = (level: number) => Number.isInteger(level) && level >= 1 && level <= priorityLevels
  const range =
    priorityLevels === 0
      ? 'nothing without priorityLevels'
      : `a level from 1 to ${priorityLevels} (priorityLevels)`
  const isStrange =
    defaultPriorityLevel !== undefined &&
    !inRange(defaultPriorityLevel) &&
    (priorityLevels > 0 || defaultPriorityLevel > 0)
  const strange = Object.keys(priorityQueuePolicy).find((level) => !inRange(Number(level)))
  const delays = [defaultQueuePolicy, ...Object.values(priorityQueuePolicy)].some(
    ({ timeoutAction, defaultTimeoutMs }) => timeoutAction === 'DELAY' && defaultTimeoutMs > 0,
  )
  checkRules(model, [
    [isStrange, 'dynamicBatching.defaultPriorityLevel', range, defaultPriorityLevel],
    [strange !== undefined, 'dynamicBatching.priorityQueuePolicy', range, strange],
    [preserveOrdering && priorityLevels > 1, 'dynamicBatching.preserveOrdering', 'at most one priority level with it', priorityLevels],
    [preserveOrdering && delays, 'dynamicBatching.preserveOrdering', "no timeout with timeoutAction 'DELAY'", 'DELAY'],
  ]) // prettier-ignore
}
