import type { InferRequest, ReadyEstimate } from '../request/infer-request.ts'
import { estimatedAnswerMs } from './answer-estimate.ts'
import { aloneKey, type BatchLimits } from '../options/batching.ts'
import { fullBatchRows } from './batch-policy.ts'
import { BatchCap, type BatchSizer, LatencyTarget } from './batch-sizer.ts'
import { LoadDivision } from './load-division.ts'
import type { RunTimes } from './run-times.ts'

/** Runs after which a latency target looks at its choice of batch size again. */
const reviewEveryRuns = 8

/** What a worker says of when it can start something. */
export interface BusyWorker {
  /** Estimated milliseconds until it is free. */
  readonly freeInMs: number
  /** How many times longer work of this weight takes there because others have work too. */
  sharing(weight: number): number
}

/** A finished run, as far as its times matter. */
export interface TimedRun {
  readonly requests: readonly { readonly bucketKey: string; readonly deadlineAtMs: number | null }[]
  readonly rows: number
  readonly timeline: { readonly takenAtMs: number; readonly startMs: number; readonly inferEndMs: number }
}

/** The model of an {@link Estimator}. */
export interface EstimatedModel {
  readonly limits: BatchLimits
  /** 0 for none. */
  readonly latencyTargetMs: number
  readonly instances: number
  /** Its share of workers relative to others. */
  readonly weight: number
  /** Whether the size of batches is found out while they run. Default false. */
  readonly isCapped?: boolean
  /**
   * Whether a part of a batch is less to do, and requests may wait for each other to see that: not where each has a slot, and
   * empty ones are run too, nor where some have a higher priority. Default true.
   */
  readonly isDivisible?: boolean
}

/** How long a model's requests take: what was seen, and what follows from it for the next ones. */
export class Estimator {
  readonly throughput = new Throughput()
  /** Chooses batch sizes; `null` without a target, or where requests are not joined. */
  readonly target: LatencyTarget | null
  /** Sets the size of batches from outside, while a search tries sizes; `null` without one. */
  readonly cap: BatchCap | null
  /** Divides a load that fits one batch; `null` where something else decides about the size of batches. */
  readonly #division: LoadDivision | null
  readonly runTimes: RunTimes
  readonly #limits: BatchLimits
  readonly #weight: number
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  constructor(
    runTimes: RunTimes,
    { limits, latencyTargetMs, instances, weight, isCapped = false, isDivisible = true }: EstimatedModel,
  ) {
    this.runTimes = runTimes
    this.#limits = limits
    this.#weight = weight
    this.target =
      latencyTargetMs > 0 && limits.joinRequests
        ? new LatencyTarget(limits, latencyTargetMs, runTimes, instances)
        : null
    this.cap = isCapped && limits.joinRequests ? new BatchCap(limits) : null
    this.#division =
      latencyTargetMs === 0 && !isCapped && isDivisible && LoadDivision.suits(limits)
        ? new LoadDivision(limits)
        : null
    this.instances = instances
  }

  /** `null` where batches have the limits of the model. */
  get sizer(): BatchSizer | null {
    return this.target ?? this.cap ?? this.#division
  }

  /** Whether a load that fits one batch is divided at present. */
  get divides(): boolean {
    return this.#division !== null && this.#division.divides
  }

  /** How many instances the model has, 1 at least. */
  set instances(count: number) {
    if (this.target !== null) this.target.instances = count
    if (this.#division !== null) this.#division.instances = count
  }

  /** Notes a request, accepted or not. */
  arrived(rows: number, nowMs: number): void {
    if (this.target !== null) this.#arrivals.arrived(rows, nowMs)
  }

  /**
   * Notes a finished batch; true when the limits of its bucket have changed by it, of all without a target.
   *
   * @param others requests that wait besides, and batches that run.
   * @param waitingRows rows of those in no batch.
   */
  observe(
    { requests, rows, timeline }: TimedRun,
    others: number,
    waitingRows: number,
    nowMs: number,
  ): boolean {
    const { takenAtMs, startMs, inferEndMs } = timeline
    const { bucketKey } = requests[0]!
    this.runTimes.observe(bucketKey, rows, inferEndMs - startMs)
    this.throughput.finished(requests.length, takenAtMs, nowMs)
    this.runTimes.safetyFactor.answered(requests, nowMs)
    if (this.#division !== null)
      return this.#division.finished(rows, requests.length, takenAtMs, others, waitingRows, nowMs)
    return (
      this.target !== null &&
      ++this.#runs % reviewEveryRuns === 0 &&
      this.target.review(bucketKey, this.#arrivals.rowsPerMs(nowMs))
    )
  }

  /** How long after it came a waiting request would be answered at best: when its deadline is hopeless. */
  bestAnswerMs(
    { enqueuedAtMs, bucketKey, rows }: Pick<InferRequest, 'enqueuedAtMs' | 'bucketKey' | 'rows'>,
    nowMs: number,
  ): number {
    return nowMs - enqueuedAtMs + this.runTimes.medianMs(bucketKey, rows)
  }

  /**
   * In how many milliseconds a request would be answered that came now; 0 when no run like it was seen, or no instance is left.
   *
   * @param ready when its inputs will be there; left out where they are.
   */
  estimatedAnswerMs(
    bucketKey: string,
    rows: number,
    rowsAhead: number,
    instances: readonly { readonly worker: BusyWorker }[],
    nowMs: number,
    ready?: ReadyEstimate,
  ): number {
    if (instances.length === 0) return 0
    let freeInMs = Infinity
    let sharing = Infinity
    for (const { worker } of instances) {
      freeInMs = Math.min(freeInMs, worker.freeInMs)
      sharing = Math.min(sharing, worker.sharing(this.#weight))
    }
    const alone = bucketKey.startsWith(aloneKey)
    const batchRows = alone ? 1 : fullBatchRows(this.sizer?.limits(bucketKey) ?? this.#limits)
    const joiningRowsPerMs = this.target === null ? 0 : this.#arrivals.rowsPerMs(nowMs)
    const backlog = {
      rowsAhead,
      batchRows,
      joiningRowsPerMs,
      instances: instances.length,
      freeInMs,
      ready,
      sharing,
      keepsTarget: this.target !== null,
    }
    return estimatedAnswerMs(this.runTimes, bucketKey, rows, backlog)
  }
}

/** How much older requests count: each finished batch leaves this share of what was before it. */
const keptShare = 0.9

/**
 * How fast requests are worked off while there is work, from the last batches. The time of a batch is counted from the
 * end of the one before it, or from its own start when nothing ran before: so several instances and shared workers count
 * as they are.
 */
export class Throughput {
  #requests = 0
  #ms = 0
  #lastMs = -Infinity

  /** Notes a finished batch. */
  finished(requests: number, startedAtMs: number, nowMs: number): void {
    this.#requests = this.#requests * keptShare + requests
    this.#ms = this.#ms * keptShare + Math.max(0, nowMs - Math.max(this.#lastMs, startedAtMs))
    this.#lastMs = nowMs
  }

  /** Milliseconds per request; 0 before the first batch. */
  get msPerRequest(): number {
    return this.#requests === 0 ? 0 : this.#ms / this.#requests
  }
}

/** Arrivals that the rate is taken from. */
const arrivalWindow = 32

/** How many rows arrive per millisecond, by the last requests. */
export class ArrivalRate {
  readonly #atMs = new Float64Array(arrivalWindow)
  readonly #rows = new Float64Array(arrivalWindow)
  #sum = 0
  #count = 0
  #next = 0

  arrived(rows: number, nowMs: number): void {
    this.#sum += rows - this.#rows[this.#next]!
    this.#rows[this.#next] = rows
    this.#atMs[this.#next] = nowMs
    this.#next = (this.#next + 1) % arrivalWindow
    this.#count = Math.min(arrivalWindow, this.#count + 1)
  }

  /** 0 before the first two. */
  rowsPerMs(nowMs: number): number {
    if (this.#count < 2) return 0
    const oldestMs = this.#atMs[(this.#next + arrivalWindow - this.#count) % arrivalWindow]!
    // As many as came in one moment may come in the next one.
    return this.#sum / Math.max(1, nowMs - oldestMs)
  }
}
