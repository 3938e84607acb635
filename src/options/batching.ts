import * as v from 'valibot'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { declares, optionsOf, properties, wholeNumber, delayMs } from './options-schema.ts'
import type { TensorLike } from '../tensor/tensor.ts'

/** Limits of one priority level's queue; Triton's `ModelQueuePolicy`. */
export interface QueuePolicy {
  /**
   * `'REJECT'`: it rejects with `ERR_TIMEOUT`. `'DELAY'`: it waits on without a timeout, behind the others of its level.
   * Default `'REJECT'`.
   */
  timeoutAction?: TimeoutAction
  /** Longest time in the queue, in milliseconds. Default 0: no limit. */
  defaultTimeoutMs?: number
  /**
   * Whether a request's `timeoutMs` may shorten `defaultTimeoutMs`; as in Triton it can't lengthen it. Without a default
   * a request's own timeout always counts. Default `false`.
   */
  allowTimeoutOverride?: boolean
  /** Most requests of the level that may wait; one more is refused with `ERR_QUEUE_FULL`. Default 0: no limit. */
  maxQueueSize?: number
}

/** How requests are gathered into batches; Triton's `dynamic_batching`. */
export interface DynamicBatchingConfig {
  /**
   * Batch sizes in rows worth closing early for. Default: `maxBatchSize` alone. Left out, and without a delay, priority levels, costs, a target and `autoTune`: where
   * all that is under way would fit one batch, it is divided among the instances, or from 24 rows on in two for the only one, if that is found to give
   * more: runs overlap then, and answers with runs. From time to time both are compared anew; for that what comes is held back once, no longer
   * than the whole takes. `[maxBatchSize]` keeps batches as they are.
   */
  preferredBatchSize?: number | readonly number[]
  /**
   * How long an idle instance waits for a batch to grow, in milliseconds from the arrival of its oldest request.
   * Default 0: an idle instance takes at once what there is.
   */
  maxQueueDelayMs?: number
  /**
   * What a request costs: `{ input: 'input_ids', dim: 1 }` for its length times its rows, or a function; see {@link RequestCost}.
   * With `padding` to the `'longest'`, batches are then made of requests of about the same length: the one that has waited
   * longest always goes with the next batch of its bucket and level, with those nearest to it. A request is overtaken by none
   * that came 8 times `maxBatchSize` requests after it (512 at most, `maxBatchSize` at least). Not beside `sequence`. Default:
   * none; batches are made in the order of arrival.
   */
  cost?: RequestCost
  /**
   * Most that a batch may cost, besides `maxBatchSize`: with `padding` to the `'longest'` its longest row times its rows, else the
   * sum of what its requests cost. Needs `cost`. Default: no limit.
   */
  maxBatchCost?: number
  /** Of what a padded batch costs, how much may be padding: 0 to 1. Worth more where a run takes long whatever it holds. Needs `cost`. Default 0.1. */
  maxPaddingShare?: number
  /**
   * What becomes of a request that costs more than `maxBatchCost` by itself. `'ALONE'`: it is a batch of its own. `'REJECT'`: it
   * is refused with `ERR_INVALID_ARG`, so that no run is larger than the budget. Default `'ALONE'`.
   */
  overCostAction?: OverCostAction
  /**
   * Whether responses come in the order of their requests also over several instances. Refusals, timeouts and aborts
   * are not held back. Default `false`.
   */
  preserveOrdering?: boolean
  /** Number of priority levels, 1 the highest. Default 0: all requests are equal. */
  priorityLevels?: number
  /** Level of requests that name none. Default: `priorityLevels`, the lowest. */
  defaultPriorityLevel?: number
  /** Limits of every level that `priorityQueuePolicy` does not name. */
  defaultQueuePolicy?: QueuePolicy
  /** Limits by level. */
  priorityQueuePolicy?: Readonly<Record<number, QueuePolicy>>
  /**
   * For tests: nothing is run until so many requests have waited at once, so that what is batched together does not
   * depend on time; those that share a row of another are not counted. Default 0: no hold.
   */
  holdUntilQueued?: number
}

/** The words of scheduling, which configuration, batching and statistics share. */

/**
 * Why a batch was closed:
 *
 * | reason | |
 * |---|---|
 * | `full` | no further request fits, or it holds the maximum |
 * | `preferred` | it has a preferred size, or one that the engine tries, or has found to give more |
 * | `idle` | an instance was idle and there is no delay to wait for |
 * | `bucket` | as `idle`, while requests waited that cannot share the run: of other shapes, or with `cost` of lengths too far from theirs |
 * | `delay` | its oldest request had waited for `maxQueueDelayMs`, or, once its parts were tried, for the rest of a load |
 * | `cost` | with one more request it would cost more than `maxBatchCost` |
 * | `deadline` | with one more row, or later, one of its requests would have missed its deadline |
 * | `drain` | the model is closing |
 */
export type BatchReason = 'full' | 'preferred' | 'idle' | 'bucket' | 'delay' | 'cost' | 'deadline' | 'drain'

/** All of them. */
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

/** What becomes of a request that has waited for longer than its timeout; Triton's `timeout_action`. */
export type TimeoutAction = 'REJECT' | 'DELAY'

/** Triton's levels have 64 bits. */
export const maxPriorityLevel = 2 ** 64

/** Limits of one priority level's queue; Triton's `ModelQueuePolicy`, all fields resolved. */
export interface LevelPolicy {
  readonly timeoutAction: TimeoutAction
  /** Milliseconds, 0 for none. */
  readonly defaultTimeoutMs: number
  /** Whether a request may shorten a default timeout. */
  readonly allowTimeoutOverride: boolean
  /** Most requests that may wait, 0 for no limit. */
  readonly maxQueueSize: number
}

/** How a model's requests are divided into levels. */
export interface LevelOptions {
  /** 0 for one level without a number. */
  readonly priorityLevels: number
  readonly defaultPriorityLevel: number
  readonly defaultPolicy: LevelPolicy
  readonly policies: ReadonlyMap<number, LevelPolicy>
}

/** How the bucket of a request begins that shares a run with no other, whatever its model does. */
export const aloneKey = 'alone:'

/** What limits a batch. All sizes in rows. */
export interface BatchLimits {
  readonly maxBatchSize: number
  /** Ascending, each 1..maxBatchSize; empty means `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  /** How long the oldest request may wait for a larger batch while an instance is idle. */
  readonly maxQueueDelayMs: number
  /**
   * From when on none waits for that any more. Left out where the delay is the user's; else it is the engine's own, for which
   * nobody waits longer than half of a timeout.
   */
  readonly delayEndsAtMs?: number
  /** False: every request is a batch of its own. */
  readonly joinRequests: boolean
  /** Left out where nothing is said of what requests cost. */
  readonly cost?: CostLimits
}

/** What limits batches whose requests cost something. */
export interface CostLimits {
  /** `Infinity` for no limit. */
  readonly maxBatchCost: number
  /** Whether all rows are filled up to the dearest: a batch costs that times its rows, else what its requests do together. */
  readonly isPadded: boolean
  /** Of what a batch costs, how much may be padding. */
  readonly maxPaddingShare: number
}

/** So many arrivals are looked at for what goes well together: nobody is overtaken by a request that came later than that. */
export function costWindow(maxBatchSize: number): number {
  return Math.max(maxBatchSize, Math.min(8 * maxBatchSize, 512))
}

/** Rows at which a batch is worth handing over, whoever is idle: the largest preferred size. */
export function fullBatchRows({
  maxBatchSize,
  preferredBatchSizes,
}: Pick<BatchLimits, 'maxBatchSize' | 'preferredBatchSizes'>): number {
  return preferredBatchSizes.at(-1) ?? maxBatchSize
}

/** A request as a function is given it that says what it costs. */
export interface CostedRequest {
  /** Of its batch dimension. */
  readonly rows: number
  /** Its tensors by the model's names; an optional one that was left out is not there. To be read only, and during the call. */
  readonly inputs: Readonly<Record<string, Pick<TensorLike, 'type' | 'dims' | 'data'>>>
}

/**
 * What a request costs: the length of a row along a dimension of an input (an index into the input's dims, batch dimension
 * included) times its rows, or what a function says: a finite number of 0 or more, for all of its rows. The function is
 * called once for each request, by the application's thread.
 */
export type RequestCost =
  | { readonly input: string; readonly dim: number }
  | ((request: CostedRequest) => number)

/** What becomes of a request that costs more than a batch may: it is run by itself, or refused with `ERR_INVALID_ARG`. */
export type OverCostAction = 'ALONE' | 'REJECT'

/** How batches are limited by what they cost. */
export interface ResolvedCost {
  readonly of: RequestCost
  /** `Infinity` for no limit. */
  readonly maxBatchCost: number
  readonly maxPaddingShare: number
  readonly overCostAction: OverCostAction
}

/** Of what a batch may cost, what padding may be where nothing is said of it. */
export const defaultPaddingShare = 0.1

const costFunction = {
  ...v.custom<(request: CostedRequest) => number>((value) => typeof value === 'function'),
  expects: 'a function, or { input, dim }',
}

/** Options of `dynamicBatching` that are about costs. */
export const costEntries = {
  cost: v.optional(
    v.union([optionsOf({ input: v.pipe(v.string(), v.minLength(1)), dim: wholeNumber(1) }), costFunction]),
  ),
  maxBatchCost: v.optional(
    v.pipe(
      v.number(),
      v.check((cost) => cost > 0 && cost < Infinity, 'a finite number above 0'),
    ),
  ),
  maxPaddingShare: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  overCostAction: v.optional(v.picklist(['ALONE', 'REJECT'])),
}

interface CostOptions {
  readonly cost?: RequestCost | undefined
  readonly maxBatchCost?: number | undefined
  readonly maxPaddingShare?: number | undefined
  readonly overCostAction?: OverCostAction | undefined
}

/**
 * What is said of costs; `null` for nothing.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for what means nothing without another option, or beside it.
 */
export function resolveCost(
  model: string,
  options: CostOptions | null,
  hasSequence: boolean,
): ResolvedCost | null {
  if (options === null) return null
  const { cost, maxBatchCost, maxPaddingShare = defaultPaddingShare, overCostAction = 'ALONE' } = options
  const wrong = (option: keyof CostOptions, expected: string, hint: string): InferenceError =>
    invalidArgument(`dynamicBatching.${option}`, expected, options[option], {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint,
    })
  if (cost === undefined) {
    const stray = (['maxBatchCost', 'maxPaddingShare', 'overCostAction'] as const).find(
      (option) => options[option] !== undefined,
    )
    if (stray !== undefined)
      throw wrong(
        stray,
        'dynamicBatching.cost beside it',
        "Say what a request costs, as cost: { input: 'input_ids', dim: 1 }",
      )
    return null
  }
  if (hasSequence) throw wrong('cost', 'to be left out for a model with sequences', 'Remove it, or sequence')
  if (maxBatchCost === undefined && options.overCostAction !== undefined)
    throw wrong(
      'overCostAction',
      'dynamicBatching.maxBatchCost beside it',
      'Without it nothing costs too much',
    )
  return { of: cost, maxBatchCost: maxBatchCost ?? Infinity, maxPaddingShare, overCostAction }
}

/** The part of a batch's limits that is about costs, where its rows are filled up to a common length or not. */
export function costLimits(cost: ResolvedCost | null, isPadded: boolean): Pick<BatchLimits, 'cost'> {
  if (cost === null) return {}
  const { maxBatchCost, maxPaddingShare } = cost
  return { cost: { maxBatchCost, maxPaddingShare, isPadded } satisfies CostLimits }
}

const queuePolicySchema = optionsOf({
  timeoutAction: v.optional(v.picklist(['REJECT', 'DELAY']), 'REJECT'),
  defaultTimeoutMs: v.optional(delayMs, 0),
  allowTimeoutOverride: v.optional(v.boolean(), false),
  maxQueueSize: v.optional(wholeNumber(0), 0),
})

/** Schema of `dynamicBatching`. */
export const schedulingSchema = declares<DynamicBatchingConfig>()(
  optionsOf({
    preferredBatchSize: v.optional(
      v.union([wholeNumber(1), v.pipe(v.array(wholeNumber(1)), v.minLength(1))]),
    ),
    maxQueueDelayMs: v.optional(delayMs, 0),
    ...costEntries,
    preserveOrdering: v.optional(v.boolean(), false),
    priorityLevels: v.optional(wholeNumber(0, maxPriorityLevel), 0),
    defaultPriorityLevel: v.optional(wholeNumber(0, maxPriorityLevel)),
    defaultQueuePolicy: v.optional(queuePolicySchema, {}),
    priorityQueuePolicy: v.optional(v.pipe(properties, v.record(v.string(), queuePolicySchema)), {}),
    holdUntilQueued: v.optional(wholeNumber(0), 0),
  }),
)

/** `dynamicBatching` as its schema gives it. */
export type Scheduling = v.InferOutput<typeof schedulingSchema>

const noPolicy: LevelPolicy = {
  timeoutAction: 'REJECT',
  defaultTimeoutMs: 0,
  allowTimeoutOverride: false,
  maxQueueSize: 0,
}

/** Priority levels and their policies; `null` for a model whose requests are not joined. */
export function resolveLevels(batching: Scheduling | null): LevelOptions {
  if (batching === null)
    return { priorityLevels: 0, defaultPriorityLevel: 0, defaultPolicy: noPolicy, policies: new Map() }
  const {
    priorityLevels,
    defaultPriorityLevel = priorityLevels,
    defaultQueuePolicy,
    priorityQueuePolicy,
  } = batching
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
  const wrong = (option: string, expected: string, received: unknown) =>
    invalidArgument(`dynamicBatching.${option}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })

  const inRange = (level: number) => Number.isInteger(level) && level >= 1 && level <= priorityLevels
  const range =
    priorityLevels === 0
      ? 'nothing without priorityLevels'
      : `a level from 1 to ${priorityLevels} (priorityLevels)`
  if (
    defaultPriorityLevel !== undefined &&
    !inRange(defaultPriorityLevel) &&
    (priorityLevels > 0 || defaultPriorityLevel > 0)
  ) {
    throw wrong('defaultPriorityLevel', range, defaultPriorityLevel)
  }
  const strange = Object.keys(priorityQueuePolicy).find((level) => !inRange(Number(level)))
  if (strange !== undefined) throw wrong('priorityQueuePolicy', range, strange)
  if (!preserveOrdering) return
  if (priorityLevels > 1)
    throw wrong('preserveOrdering', 'at most one priority level with it', priorityLevels)
  const policies = [defaultQueuePolicy, ...Object.values(priorityQueuePolicy)]
  if (
    policies.some(({ timeoutAction, defaultTimeoutMs }) => timeoutAction === 'DELAY' && defaultTimeoutMs > 0)
  ) {
    throw wrong('preserveOrdering', "no timeout with timeoutAction 'DELAY'", 'DELAY')
  }
}
