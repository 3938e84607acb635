import { estimatedAnswerMs } from '../batching/admission.ts'
import { ArrivalRate } from '../batching/arrival-rate.ts'
import type { BatchLimits } from '../scheduling.ts'
import { fullBatchRows } from '../batching/batch-policy.ts'
import { LatencyTarget } from '../batching/latency-target.ts'
import type { RunTimes } from '../batching/run-times.ts'
import { Throughput } from '../observability/throughput.ts'
import type { FinishedBatch } from './batch.ts'
import type { ModelInstance } from './model-instance.ts'

/** Runs after which a latency target looks at its choice of batch size again. */
const reviewEveryRuns = 8

/** How long a model's requests take: what was seen, and what follows from it for the next ones. */
export class ServiceTimes {
  readonly throughput = new Throughput()
  /** Chooses batch sizes; `null` without a target, or where requests are not joined. */
  readonly target: LatencyTarget | null
  readonly runTimes: RunTimes
  readonly #limits: BatchLimits
  readonly #weight: number
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  /** @param latencyTargetMs 0 for none. */
  constructor(runTimes: RunTimes, limits: BatchLimits, latencyTargetMs: number, instances: number, weight: number) {
    this.runTimes = runTimes
    this.#limits = limits
    this.#weight = weight
    this.target = latencyTargetMs > 0 && limits.joinRequests ? new LatencyTarget(limits, latencyTargetMs, runTimes, instances) : null
  }

  /** Notes a request, accepted or not. */
  arrived(rows: number, nowMs: number): void {
    if (this.target !== null) this.#arrivals.arrived(rows, nowMs)
  }

  /** Notes a finished batch; true when the limits of its bucket have changed by it. */
  observe({ requests, rows, timeline }: FinishedBatch, nowMs: number): boolean {
    const { takenAtMs, startMs, inferEndMs } = timeline
    const { bucketKey } = requests[0]!
    this.runTimes.observe(bucketKey, rows, inferEndMs - startMs)
    this.throughput.finished(requests.length, takenAtMs, nowMs)
    this.runTimes.caution.answered(requests, nowMs)
    return this.target !== null && ++this.#runs % reviewEveryRuns === 0 && this.target.review(bucketKey, this.#arrivals.rowsPerMs(nowMs))
  }

  /** In how many milliseconds a request would be answered that came now; 0 when no run like it was seen. */
  estimatedAnswerMs(bucketKey: string, rows: number, rowsAhead: number, instances: readonly ModelInstance[], nowMs: number): number {
    let freeInMs = Infinity
    let sharing = Infinity
    for (const { host } of instances) {
      freeInMs = Math.min(freeInMs, host.freeInMs)
      sharing = Math.min(sharing, host.sharing(this.#weight))
    }
    const batchRows = fullBatchRows(this.target?.limits(bucketKey) ?? this.#limits)
    const joiningRowsPerMs = this.target === null ? 0 : this.#arrivals.rowsPerMs(nowMs)
    const backlog = { rowsAhead, batchRows, joiningRowsPerMs, instances: instances.length, freeInMs, sharing }
    return estimatedAnswerMs(this.runTimes, bucketKey, rows, backlog)
  }
}
