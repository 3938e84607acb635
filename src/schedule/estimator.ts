import type { ReadyEstimate } from '../request/infer-request.ts'
import { estimatedAnswerMs } from './answer-estimate.ts'
import { ArrivalRate } from './arrival-rate.ts'
import { aloneKey, fullBatchRows, type BatchLimits } from '../options/batching.ts'
import { BatchCap, type BatchSizer } from './batch-cap.ts'
import { LatencyTarget } from './batch-size-for-target.ts'
import { LoadDivision } from './load-division.ts'
import type { RunTimes } from './run-times.ts'
import { Throughput } from './throughput.ts'

/** Runs after which a latency target looks at its choice of batch size again. */
const reviewEveryRuns = 8

/** A worker, as far as it lets tell when it can start something. */
export interface BusyWorker {
  /** In how many milliseconds it is reckoned to be free. */
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

/** How long a model's requests take: what was seen, and what follows from it for the next ones. */
export class Estimator {
  readonly throughput = new Throughput()
  /** Chooses batch sizes; `null` without a target, or where requests are not joined. */
  readonly target: LatencyTarget | null
  /** Has batches be as large as they are to be at present; `null` where nobody says so. */
  readonly cap: BatchCap | null
  /** Divides a load that fits one batch; `null` where somebody else decides about the size of batches. */
  readonly #division: LoadDivision | null
  readonly runTimes: RunTimes
  readonly #limits: BatchLimits
  readonly #weight: number
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  /**
   * @param latencyTargetMs 0 for none.
   * @param isCapped whether the size of batches is found out while they run.
   * @param isDivisible whether a part of a batch is less to do, and requests may wait for each other to see that: not where each has a slot, and
   * empty ones are run too, nor where some have a higher priority.
   */
  constructor(
    runTimes: RunTimes,
    limits: BatchLimits,
    latencyTargetMs: number,
    instances: number,
    weight: number,
    isCapped = false,
    isDivisible = true,
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
