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
