import type { OverCostAction, RequestCost } from './batch-cost.ts'
import type { TimeoutAction } from './batching.ts'

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
