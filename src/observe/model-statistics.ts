import type { BatchReason } from '../options/batching.ts'
import type { AutoTuneStatistics } from './auto-tune-stats.ts'
import type { InstanceStatistics } from './instance-statistics.ts'
import type { LatencyDistribution } from './latency-histogram.ts'
import type { LeaseStatistics } from './lease-stats.ts'
import type { RefusalReason, RejectionReason } from './rejections.ts'
import type { ResponseCacheStatistics } from './response-stats.ts'
import type { StatisticDuration } from './statistic-duration.ts'
import type { StepStatistics } from './step-statistics.ts'

/** What batches of one size took; compute times are per execution. */
export interface BatchStatistics {
  /** Rows; above 4096 those of a range, of which this is the largest: 1.6 % wide at most. */
  readonly batchSize: number
  /** Gathering the rows. */
  readonly computeInput: StatisticDuration
  /** ONNX Runtime's run, or the function's. */
  readonly computeInfer: StatisticDuration
  /** Handing the rows back. */
  readonly computeOutput: StatisticDuration
}

/** Statistics of a model since it was loaded, in the shape of Triton's statistics extension. */
export interface ModelStatistics {
  /** When the last request was answered, in milliseconds since the epoch; 0 for never. */
  readonly lastInferenceMs: number
  /** Rows inferred. */
  readonly inferenceCount: number
  /** Runs; `inferenceCount / executionCount` is the mean batch size. */
  readonly executionCount: number
  /** Of these runs, those of the application's thread. */
  readonly inlineCount: number
  /**
   * Times are summed over requests: each request of a batch is charged the whole of the batch's compute times, and one
   * that was split those of all its parts, shortened alike where parts ran at the same time; it has waited until the first of them
   * began. `success` is the sum of `overhead`, `queue`, `computeInput`, `computeInfer` and `computeOutput`, to the nanosecond.
   */
  readonly inferenceStats: {
    /** Answered requests, from `infer()` to their results. */
    readonly success: StatisticDuration
    /** Requests that were accepted and rejected later, and those refused with `ERR_QUEUE_FULL` or `ERR_DEADLINE`. */
    readonly fail: StatisticDuration
    /**
     * Of answered requests, what is in none of the sums below: the way back from the worker, waiting for parts or for an earlier
     * answer (`preserveOrdering`), finding an answer in the response cache.
     */
    readonly overhead: StatisticDuration
    /** Waiting: for the decoder where images were encoded, and until the run began, handed ahead behind another or not; the last run of a request that was run again. */
    readonly queue: StatisticDuration
    /** Gathering rows into staging memory. */
    readonly computeInput: StatisticDuration
    /** ONNX Runtime's run. */
    readonly computeInfer: StatisticDuration
    /** Copying outputs to their requests. */
    readonly computeOutput: StatisticDuration
    /** Answers found in the response cache: finding and copying them. They are among `success` and `queue`, in no other sum. */
    readonly cacheHit: StatisticDuration
    /** Requests looked up in vain that led a run: looking, and keeping the answer. */
    readonly cacheMiss: StatisticDuration
    /** Requests whose encoded images were decoded, from `infer()` on, waiting for a decoder included. It is a part of `queue`. */
    readonly imageDecode: StatisticDuration
  }
  /** Ascending by batch size: a histogram of it, too, as their counts add up to {@link executionCount}. */
  readonly batchStats: readonly BatchStatistics[]
  /** Latencies of answered requests, by the parts that the sums in {@link inferenceStats} have. */
  readonly latency: {
    /** Waiting. */
    readonly queue: LatencyDistribution
    /** Gathering, run and copying of the batch that a request was in; of all of them where it was split. */
    readonly compute: LatencyDistribution
    /** From `infer()` to the result. */
    readonly total: LatencyDistribution
  }
  /** Instances that serve now, as in `model.capacity()`. */
  readonly instanceCount: number
  /** These, each with its share of the time; none of a pipeline. */
  readonly instances: readonly InstanceStatistics[]
  /** From the call of `load` to when it served, in milliseconds. */
  readonly loadMs: number
  /** Requests accepted and not yet started; of one that was split, each part that waits. */
  readonly pendingRequestCount: number
  /**
   * Requests rejected, by reason; their sum is `inferenceStats.fail.count`. `cancelled` were aborted by their caller,
   * `changed` had their data changed or detached while they waited; the others are named like the error's code. `invalid` and
   * `notReady` are of pipelines: a step was given what its model does not take, or its model was not there.
   */
  readonly rejections: Readonly<Record<RejectionReason, number>>
  /**
   * Requests refused before they were accepted, by reason: they are in no other count. Every `infer()` that has ended is in one of
   * `inferenceStats.success`, `rejections` and this. `cancelled` had been aborted before their call.
   */
  readonly refusals: Readonly<Record<RefusalReason, number>>
  /** Runs by the reason for which their batch was closed, those that failed included and those run again not. */
  readonly batchReasons: Readonly<Record<BatchReason, number>>
  /** Runs made again to find out which request of a batch had failed, or after a worker died. */
  readonly rerunCount: number
  /** Elements of padded inputs: those of the requests, and those that were run. Their difference is waste: `wasteShare` of what was run. */
  readonly padding: {
    readonly ownElements: number
    readonly paddedElements: number
    readonly wasteShare: number
  }
  /**
   * What ONNX Runtime's arenas of host memory hold for the model now, in bytes: taken from the system, in use, and the most
   * there ever was in use. Models of the same file and options share one. `null` with the binding, and without an arena.
   */
  readonly arena: {
    readonly totalBytes: number
    readonly inUseBytes: number
    readonly mostInUseBytes: number
  } | null
  /** `null` without `responseCache` and `coalesce`. */
  readonly responseCache: ResponseCacheStatistics | null
  /** Of rows written in place. */
  readonly leases: LeaseStatistics
  /** `null` without `autoTune`. */
  readonly autoTune: AutoTuneStatistics | null
  /** What became of each step; of a pipeline only. */
  readonly steps?: readonly StepStatistics[]
}
