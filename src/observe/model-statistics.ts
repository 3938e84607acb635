import type { BatchReason } from '../options/batching.ts'
import type { RefusalReason, RejectionReason } from './rejections.ts'

// What `stats()` returns. It is counted in model-counts.ts.

/** What batches of one size took; compute times are per execution. */
export interface BatchStatistics {
  /** Rows. Sizes above 4096 are counted in ranges, each at most 1.6 % wide, and this is the largest size of the range. */
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
   * Times are summed over requests. Each request of a batch is charged the whole of the batch's compute times. A request that was
   * split has waited until its first part began; it is charged the compute times of all its parts, shortened in proportion where
   * parts ran at the same time. `success` is the sum of `overhead`, `queue`, `computeInput`, `computeInfer` and `computeOutput`, to the nanosecond.
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
    /** Waiting, from arrival to the start of the run: for the image decoder, in the queue, and prefetched behind another batch. Counts the last run of a request that ran again. */
    readonly queue: StatisticDuration
    /** Gathering rows into staging memory. */
    readonly computeInput: StatisticDuration
    /** ONNX Runtime's run. */
    readonly computeInfer: StatisticDuration
    /** Copying outputs to their requests. */
    readonly computeOutput: StatisticDuration
    /** Answers found in the response cache: finding and copying them. They count in `success`, and in `queue` with no waiting; their time is in `overhead`. */
    readonly cacheHit: StatisticDuration
    /** Requests looked up in vain that led a run: looking, and keeping the answer. */
    readonly cacheMiss: StatisticDuration
    /** Requests whose encoded images were decoded, from `infer()` on, waiting for a decoder included. It is a part of `queue`. */
    readonly imageDecode: StatisticDuration
  }
  /** One entry for each batch size that ran, ascending: a histogram of the sizes. Its counts add up to {@link executionCount}. */
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
  /**
   * Requests accepted and not yet started, and answers that wait for earlier ones (`preserveOrdering`); of a request that was
   * split, each part that waits.
   */
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

/** A count and the nanoseconds it took in all; Triton's `StatisticDuration`. */
export interface StatisticDuration {
  /** How many there were. */
  readonly count: number
  /** What they took in all, in nanoseconds. */
  readonly ns: number
}

/** The same of milliseconds. */
export function durationOf(count: number, ms: number): StatisticDuration {
  return { count, ns: Math.round(ms * 1e6) }
}

/** What one instance has done since it began to serve. */
export interface InstanceStatistics {
  /** The model's name and a number, as in Triton and in reports. */
  readonly name: string
  /** The worker that it is on, as in {@link WorkerEvent}; others may be there, too. */
  readonly worker: string
  /** Runs that have ended, those that failed or were made again included. */
  readonly runs: number
  /** Rows of those that gave results. */
  readonly rows: number
  /** What its runs took that have ended, in milliseconds. */
  readonly busyMs: number
  /** For how long it has served, in milliseconds. */
  readonly servingMs: number
  /** The first of these to the second: 1 for one that always ran something. Of a window, the differences of two snapshots tell. */
  readonly busyShare: number
}

/** What the arena of a session holds, from which it takes the intermediate values of runs. */
export interface Arena {
  /** The same for sessions that share one. */
  readonly id: number
  /** Taken from the system, in bytes. */
  readonly totalBytes: number
  readonly inUseBytes: number
  /** The most there ever was in use. */
  readonly mostInUseBytes: number
}

/** One worker of an engine: a place for a thread, which outlives the threads that are there. */
export interface WorkerStatistics {
  /** As in {@link WorkerEvent}. */
  readonly worker: string
  /** Instances that are there, those included that are being opened. */
  readonly instances: number
  /** The part of the last seconds in which it ran something. */
  readonly busyShare: number
  /** Threads that took the place of one that had died. */
  readonly restarts: number
}

/** What statistics of a worker are read from. */
interface Place {
  readonly name: string
  readonly sessions: number
  readonly busyShare: number
  readonly restarts: number
}

/** The statistics of workers, in their order. Places of one name are one thread: the application's, which runs any number of functions. */
export function workerStatistics(places: readonly Place[]): WorkerStatistics[] {
  const workers = new Map<string, WorkerStatistics>()
  for (const { name, sessions, busyShare, restarts } of places) {
    const same = workers.get(name) ?? { worker: name, instances: 0, busyShare: 0, restarts: 0 }
    workers.set(name, {
      ...same,
      instances: same.instances + sessions,
      busyShare: Math.min(1, same.busyShare + busyShare),
      restarts: same.restarts + restarts,
    })
  }
  return [...workers.values()]
}

/**
 * What became of one step of a pipeline. Each request that came to the step is counted once; to the models themselves it is a request
 * like any other, in statistics of their own.
 */
export interface StepStatistics {
  /** Its name in the pipeline. */
  readonly step: string
  /** The name of its model. */
  readonly model: string
  /** Requests that it has answered: from when it could begin to its answer, waiting included. */
  readonly success: StatisticDuration
  /** Those that it has failed, in the same way. */
  readonly fail: StatisticDuration
  /** Requests that had ended otherwise before it answered. */
  readonly cancelledCount: number
  /** Requests for which it was left out: by its `when`, or for want of a tensor. */
  readonly skippedCount: number
  /** Rows that this step sent to its model as requests of their own. 0 without `fanOut`. */
  readonly rowCount: number
}

/**
 * Leases of a model's rows since it was loaded: `taken` is the sum of those that are `held` and of those that have ended, by how
 * they did. Encoded images that requests give are written to leases, too.
 */
export interface LeaseStatistics {
  /** All that there ever were. */
  readonly taken: number
  /** Not ended yet. */
  readonly held: number
  /** Ended by `infer()`, whatever became of that. */
  readonly inferred: number
  /** Given back by `release()`, unused. */
  readonly released: number
  /** Held for longer than `maxHoldMs`. */
  readonly expired: number
  /** Garbage-collected without an end. */
  readonly dropped: number
  /** Ended with their model. */
  readonly closed: number
  /** Rows that ran where they were written, by a caller or by the step of a pipeline before; one that was run again counts again. */
  readonly rowsInPlace: number
  /** Rows that were copied to their batch, as those of any request are. */
  readonly rowsCopied: number
}

/** The statistics of a model without leases. */
export const noLeases: LeaseStatistics = {
  taken: 0, held: 0, inferred: 0, released: 0, expired: 0, dropped: 0, closed: 0, rowsInPlace: 0, rowsCopied: 0,
} // prettier-ignore

/** What requests were answered with besides runs of their own. The first three are all requests that came to be looked up. */
export interface ResponseCacheStatistics {
  /** Requests that were answered from the cache. */
  readonly hits: number
  /** Requests for which a run was begun. */
  readonly misses: number
  /** Requests that joined the run of an equal one in flight. */
  readonly coalesced: number
  /** Answers that were dropped to make room for others. */
  readonly evictions: number
  /** Answers that are kept now. */
  readonly entries: number
  /** What these take, in bytes: their data, and what JavaScript takes to hold them, roughly. */
  readonly bytes: number
}

/** The same with what looking up took, in milliseconds. */
export interface ResponseTotals {
  readonly counts: ResponseCacheStatistics
  /** Of hits: to find and copy the answers. */
  readonly hitMs: number
  /** Of misses: to find that there is none, and to keep the answers of their runs. */
  readonly missMs: number
}

/**
 * What came of a search of `autoTune`:
 *
 * - `'changed'`: another setting was better, and is in use since.
 * - `'no-gain'`: in the final turns the other setting gave no more than the one in use.
 * - `'gain-too-small'`: it gave more, but by less than 3 %.
 * - `'gain-within-noise'`: it gave more by 3 %, but not by more than the turns differ among each other.
 * - `'unavailable'`: it could not be had any more: no instance of it could be opened, two would share a worker, or memory did not suffice.
 * - `'no-other'`: no other setting could be had at all.
 */
export type AutoTuneDecision =
  | 'changed'
  | 'no-gain'
  | 'gain-too-small'
  | 'gain-within-noise'
  | 'unavailable'
  | 'no-other'

/** The end of a search: the best of the others, measured in turns with the setting that was in use. They alone decide. */
export interface AutoTuneFinalTurns {
  readonly instances: number
  readonly batchRows: number
  /** Turn by turn, how many times the rows a second of the setting that was in use it gave. Their median is what counts. */
  readonly gains: readonly number[]
}

/** What `autoTune` has found out; see {@link ModelOptions.autoTune}. */
export interface AutoTuneStatistics {
  /** `'watching'`: the settings below are kept. `'searching'`: several are being tried, each for a moment. */
  readonly state: 'watching' | 'searching'
  /** Instances that are in use now; while it searches, those of the setting that is tried. */
  readonly instances: number
  /** Rows that a batch may have now, likewise; 1 where requests are not joined. */
  readonly batchRows: number
  /** Searches that came to their end. */
  readonly searchCount: number
  /** What the last search has tried, or the one that goes on has tried so far, best first, and the rows a second that each gave: the median of its measurements. */
  readonly tried: readonly {
    readonly instances: number
    readonly batchRows: number
    readonly rowsPerSecond: number
  }[]
  /** Why the last search that came to its end changed the settings, or kept them; `null` before one did. */
  readonly decision: AutoTuneDecision | null
  /** What it was decided by; `null` where it came to none. */
  readonly finalTurns: AutoTuneFinalTurns | null
}

/** How much more a model can take; see `Model.capacity`. */
export interface ModelCapacity {
  /** Instances that serve. */
  readonly instances: number
  /** Most rows in one run; 0 for a model whose requests are not joined. Short runs may have more, see `defaultMaxBatchSize`. */
  readonly maxBatchSize: number
  /** Requests accepted and not started, and answers that wait for earlier ones (`preserveOrdering`). */
  readonly waiting: number
  /** Batches that run. */
  readonly running: number
  /** Requests of the default level that would be accepted now; `Infinity` without a `maxQueueSize`. */
  readonly free: number
  /** Requests worked off per second while there was work, from the last batches; 0 before the first. */
  readonly requestsPerSecond: number
  /**
   * In how many milliseconds one more request would be answered, by the times of earlier runs, and of a model that takes encoded images
   * those of the decoder and what waits for it; 0 when it is unknown:
   * before the first, and when no instance is left, so that {@link ModelCapacity.instances} is 0 too.
   */
  readonly estimatedMs: number
}

/** Latencies of requests since the model was loaded, in milliseconds; each within 1 % of what was measured. */
export interface LatencyPercentiles {
  /** How many there were. */
  readonly count: number
  /** Half of them took no longer. */
  readonly p50Ms: number
  /** 90 % of them took no longer. */
  readonly p90Ms: number
  /** 99 % of them took no longer. */
  readonly p99Ms: number
  /** The longest, exactly. */
  readonly maxMs: number
}

/** How often a latency was seen that is less than `upToMs`, and not less than the bound of the bucket before. */
export interface LatencyBucket {
  /** The bound, which is not in it. */
  readonly upToMs: number
  readonly count: number
}

/** The same with all that was counted: {@link LatencyBucket.count} of two snapshots differ by what came between them. */
export interface LatencyDistribution extends LatencyPercentiles {
  /** 95 % of them took no longer. */
  readonly p95Ms: number
  /** 99.9 % of them took no longer. */
  readonly p999Ms: number
  /** Ascending, without empty ones; each is as wide as 1.6 % of its bound, at most. */
  readonly buckets: readonly LatencyBucket[]
}

/** Delays of the application's thread, in milliseconds. */
export interface EventLoopDelayStatistics extends LatencyDistribution {
  /** Of all that were looked at. */
  readonly sumMs: number
}
