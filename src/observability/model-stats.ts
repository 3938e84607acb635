import { batchReasons, type BatchReason } from '../config/batching.ts'
import type { AutoTuneStatistics } from './auto-tune-stats.ts'
import { durationOf, type StatisticDuration } from './statistic-duration.ts'
import type { StepStatistics } from './step-statistics.ts'
import { LatencyHistogram, type LatencyPercentiles } from './latency-histogram.ts'
import { noLeases, type LeaseStatistics } from './lease-stats.ts'
import type { ResponseCacheStatistics, ResponseTotals } from './response-stats.ts'

/** Why requests were not answered. */
export type RejectionReason = 'queueFull' | 'timeout' | 'deadline' | 'cancelled' | 'closed' | 'crashed' | 'execution' | 'changed'

/** What batches of one size took; compute times are per execution. */
export interface BatchStatistics {
  /** Rows. */
  readonly batchSize: number
  readonly computeInput: StatisticDuration
  readonly computeInfer: StatisticDuration
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
   * that was split those of all its parts; it has waited until the first of them began.
   */
  readonly inferenceStats: {
    /** Answered requests, from `infer()` to their results. */
    readonly success: StatisticDuration
    /** Requests that were accepted and rejected later, and those refused with `ERR_QUEUE_FULL` or `ERR_DEADLINE`. */
    readonly fail: StatisticDuration
    /** Waiting: until the run began, handed ahead behind another or not. */
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
  }
  /** Ascending by batch size. */
  readonly batchStats: readonly BatchStatistics[]
  /** Latencies of answered requests, by the parts that the sums in {@link inferenceStats} have. */
  readonly latency: {
    /** Waiting. */
    readonly queue: LatencyPercentiles
    /** Gathering, run and copying of the batch that a request was in; of all of them where it was split. */
    readonly compute: LatencyPercentiles
    /** From `infer()` to the result. */
    readonly total: LatencyPercentiles
  }
  /** Instances that serve now, as in `model.capacity()`. */
  readonly instanceCount: number
  /** Requests accepted and not yet started; of one that was split, each part that waits. */
  readonly pendingRequestCount: number
  /**
   * Requests rejected, by reason; their sum is `inferenceStats.fail.count`. `cancelled` were aborted by their caller,
   * `changed` had their data changed or detached while they waited; the others are named like the error's code.
   */
  readonly rejections: Readonly<Record<RejectionReason, number>>
  /** Runs by the reason for which their batch was closed, those that failed included and those run again not. */
  readonly batchReasons: Readonly<Record<BatchReason, number>>
  /** Runs made again to find out which request of a batch had failed, or after a worker died. */
  readonly rerunCount: number
  /** Elements of padded inputs: those of the requests, and those that were run. Their difference is waste. */
  readonly padding: { readonly ownElements: number; readonly paddedElements: number }
  /**
   * What ONNX Runtime's arenas of host memory hold for the model now, in bytes: taken from the system, in use, and the most
   * there ever was in use. Models of the same file and options share one. `null` with the binding, and without an arena.
   */
  readonly arena: { readonly totalBytes: number; readonly inUseBytes: number; readonly mostInUseBytes: number } | null
  /** `null` without `responseCache` and `coalesce`. */
  readonly responseCache: ResponseCacheStatistics | null
  readonly leases: LeaseStatistics
  /** `null` without `autoTune`. */
  readonly autoTune: AutoTuneStatistics | null
  /** What became of each step; of a pipeline only. */
  readonly steps?: readonly StepStatistics[]
}

/** Times of one finished batch, in milliseconds. */
export interface BatchTimes {
  inputMs: number
  inferMs: number
  outputMs: number
}

interface BatchTotals extends BatchTimes {
  count: number
}

/** Keeps a model's statistics: a few additions per batch and per request, cheap enough to be always on. */
export class ModelStats {
  readonly #batches: BatchTotals[] = [] // by rows
  #lastInferenceMs = 0
  #rows = 0
  #executions = 0
  #inline = 0
  #successes = 0
  #successMs = 0
  #failures = 0
  #failMs = 0
  #queueMs = 0
  #inputMs = 0
  #inferMs = 0
  #outputMs = 0
  readonly #queueLatency = new LatencyHistogram()
  readonly #computeLatency = new LatencyHistogram()
  readonly #totalLatency = new LatencyHistogram()
  #withoutRun = 0
  #reruns = 0
  #ownElements = 0
  #paddedElements = 0
  readonly #errors: Record<RejectionReason, number> = {
    queueFull: 0,
    timeout: 0,
    deadline: 0,
    cancelled: 0,
    closed: 0,
    crashed: 0,
    execution: 0,
    changed: 0,
  }
  readonly #reasons = Object.fromEntries(batchReasons.map((reason) => [reason, 0])) as Record<BatchReason, number>

  /** Counts a run whose requests are about to be answered. */
  ran(rows: number, { inputMs, inferMs, outputMs }: BatchTimes, inline: boolean, emptyRows = 0): void {
    this.#lastInferenceMs = Date.now()
    this.#rows += rows - emptyRows
    this.#executions++
    if (inline) this.#inline++
    const totals = (this.#batches[rows] ??= { count: 0, inputMs: 0, inferMs: 0, outputMs: 0 })
    totals.count++
    totals.inputMs += inputMs
    totals.inferMs += inferMs
    totals.outputMs += outputMs
  }

  /**
   * Counts requests that are about to be answered together.
   *
   * @param enqueuedAtMs when each was accepted.
   * @param begunAtMs when they had waited.
   */
  waited(enqueuedAtMs: readonly number[], begunAtMs: number, doneAtMs: number): void {
    const count = enqueuedAtMs.length
    let sumMs = 0
    for (let index = 0; index < count; index++) sumMs += enqueuedAtMs[index]!
    this.#successes += count
    this.#successMs += count * doneAtMs - sumMs
    this.#queueMs += count * begunAtMs - sumMs
    this.#queueLatency.recordSince(enqueuedAtMs, begunAtMs)
    this.#totalLatency.recordSince(enqueuedAtMs, doneAtMs)
  }

  /** Counts what the runs of requests took that are about to be answered; the times are those of each. */
  computed(requests: number, { inputMs, inferMs, outputMs }: BatchTimes): void {
    if (requests === 0) return
    this.#inputMs += requests * inputMs
    this.#inferMs += requests * inferMs
    this.#outputMs += requests * outputMs
    this.#computeLatency.record(inputMs + inferMs + outputMs, requests)
  }

  /** Counts a request that is about to be answered with what the run of an equal one gave. */
  answeredWithoutRun(enqueuedAtMs: number, begunAtMs: number, doneAtMs: number): void {
    this.#lastInferenceMs = Date.now()
    this.#withoutRun++
    this.waited([enqueuedAtMs], begunAtMs, doneAtMs)
  }

  /** Counts a run that is over, however it ended, by the reason for which its batch was closed; a rerun as such. */
  closed(reason: BatchReason, isRerun: boolean): void {
    if (isRerun) this.#reruns++
    else this.#reasons[reason]++
  }

  /** Counts what padding added to a batch. */
  padded(ownElements: number, paddedElements: number): void {
    this.#ownElements += ownElements
    this.#paddedElements += paddedElements
  }

  /** Counts a request that is rejected `ms` after it was accepted. */
  failed(why: RejectionReason, ms: number): void {
    this.#errors[why]++
    this.#failures++
    this.#failMs += ms
  }

  /** Rows and runs so far. */
  get done() {
    return { rows: this.#rows, runs: this.#executions }
  }

  snapshot(pendingRequestCount: number, arena: ModelStatistics['arena'] = null, responses: ResponseTotals | null = null, instanceCount = 0, leases = noLeases): ModelStatistics {
    const count = this.#successes
    const computed = count - this.#withoutRun
    return {
      lastInferenceMs: this.#lastInferenceMs,
      inferenceCount: this.#rows,
      executionCount: this.#executions,
      inlineCount: this.#inline,
      inferenceStats: {
        success: durationOf(count, this.#successMs),
        fail: durationOf(this.#failures, this.#failMs),
        queue: durationOf(count, this.#queueMs),
        computeInput: durationOf(computed, this.#inputMs),
        computeInfer: durationOf(computed, this.#inferMs),
        computeOutput: durationOf(computed, this.#outputMs),
        cacheHit: durationOf(responses?.counts.hits ?? 0, responses?.hitMs ?? 0),
        cacheMiss: durationOf(responses?.counts.misses ?? 0, responses?.missMs ?? 0),
      },
      batchStats: this.#batches.flatMap((totals, batchSize) => ({
        batchSize,
        computeInput: durationOf(totals.count, totals.inputMs),
        computeInfer: durationOf(totals.count, totals.inferMs),
        computeOutput: durationOf(totals.count, totals.outputMs),
      })),
      latency: {
        queue: this.#queueLatency.percentiles(),
        compute: this.#computeLatency.percentiles(),
        total: this.#totalLatency.percentiles(),
      },
      instanceCount,
      pendingRequestCount,
      rejections: { ...this.#errors },
      batchReasons: { ...this.#reasons },
      rerunCount: this.#reruns,
      padding: { ownElements: this.#ownElements, paddedElements: this.#paddedElements },
      arena,
      responseCache: responses?.counts ?? null,
      leases,
      autoTune: null,
    }
  }
}
