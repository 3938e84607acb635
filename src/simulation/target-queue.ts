import { estimatedAnswerMs } from '../latency/answer-estimate.ts'
import { ArrivalRate } from '../latency/arrival-rate.ts'
import { fullBatchRows } from '../config/batching.ts'
import { LatencyTarget } from '../latency/batch-size-for-target.ts'
import { RunTimes } from '../latency/run-times.ts'
import type { QueueContext } from './simulated-queue.ts'
import type { SimulatedRequest } from './simulated-request.ts'
import { EngineQueue } from './engine-queue.ts'

const bucketKey = ''
/** As many as the library counts for each size when a model is loaded. */
const calibrationRuns = 3
/** Runs after which the library looks at its choice of batch size again. */
const reviewEveryRuns = 8

/**
 * The library's own queue with a latency target: it learns what runs take, chooses the batch size by that, and
 * refuses at once what it could not answer in time.
 */
export class TargetQueue extends EngineQueue {
  readonly #runTimes: RunTimes
  readonly #target: LatencyTarget
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  constructor(context: QueueContext) {
    const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, targetMs } = context.settings
    const runTimes = calibrated(context)
    const target = new LatencyTarget({ maxBatchSize, preferredBatchSizes, maxQueueDelayMs, joinRequests: true }, targetMs, runTimes, context.settings.instances)
    super(context, runTimes, target)
    this.#runTimes = runTimes
    this.#target = target
  }

  override arrive(request: SimulatedRequest): boolean {
    const { settings } = this.context
    const nowMs = this.context.clock.nowMs()
    this.#arrivals.arrived(request.rows, nowMs)
    const answerMs = estimatedAnswerMs(this.#runTimes, bucketKey, request.rows, {
      rowsAhead: this.queue.rows,
      batchRows: fullBatchRows(this.#target.limits(bucketKey)),
      instances: settings.instances,
      joiningRowsPerMs: this.#arrivals.rowsPerMs(nowMs),
      freeInMs: this.context.freeInMs(),
      sharing: this.context.sharing(),
    })
    if (answerMs > settings.targetMs) return false
    request.deadlineAtMs = nowMs + settings.targetMs
    return super.arrive(request)
  }

  override expectedMs(rows: number): number {
    return this.#runTimes.presentMs(bucketKey, rows)
  }

  override ran(requests: readonly SimulatedRequest[], rows: number, tookMs: number): void {
    const nowMs = this.context.clock.nowMs()
    this.#runTimes.observe(bucketKey, rows, tookMs)
    this.#runTimes.safetyFactor.answered(requests, nowMs)
    const arriving = this.#arrivals.rowsPerMs(nowMs)
    if (++this.#runs % reviewEveryRuns === 0 && this.#target.review(bucketKey, arriving)) this.queue.resize(bucketKey)
  }
}

/** A few runs of each size, as before the first request, up to one that exceeds the target by itself. */
function calibrated({ settings, calibrationMs }: QueueContext): RunTimes {
  const runTimes = new RunTimes()
  const { maxBatchSize, targetMs } = settings
  for (let rows = 1; ; rows = Math.min(rows * 2, maxBatchSize)) {
    for (let run = 0; run < calibrationRuns; run++) runTimes.observe(bucketKey, rows, calibrationMs(rows))
    if (rows === maxBatchSize || runTimes.medianMs(bucketKey, rows) > targetMs) return runTimes
  }
}
