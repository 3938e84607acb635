import {
  estimatedAnswerMs,
  ArrivalRate,
  fullBatchRows,
  type BatchLimits,
  LatencyTarget,
  RunTimes,
} from 'zerohop/internals'
import type { QueueContext } from './simulated-queue.ts'
import type { SimulatedRequest } from './simulated-request.ts'
import { EngineQueue } from './engine-queue.ts'

/** What is calibrated: requests of the shape that the model fixes. */
const calibratedKey = ''
/** As many as the library counts for each size when a model is loaded. */
const calibrationRuns = 3
/** Runs after which the library looks at its choice of batch size again. */
const reviewEveryRuns = 8

/**
 * The library's own queue where answers are wanted by some time: it learns what runs take, refuses at once what it could
 * not answer by then, and with a target chooses the batch size by it.
 */
export class TargetQueue extends EngineQueue {
  readonly #limits: BatchLimits
  readonly #runTimes: RunTimes
  /** `null` where only requests say by when. */
  readonly #target: LatencyTarget | null
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  constructor(context: QueueContext) {
    const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, targetMs, instances, cost } = context.settings
    const limits = {
      maxBatchSize,
      preferredBatchSizes,
      maxQueueDelayMs,
      joinRequests: true,
      ...(cost && { cost }),
    }
    const runTimes = calibrated(context)
    const target = targetMs === Infinity ? null : new LatencyTarget(limits, targetMs, runTimes, instances)
    super(context, runTimes, target)
    this.#limits = limits
    this.#runTimes = runTimes
    this.#target = target
  }

  override arrive(request: SimulatedRequest): boolean {
    const { settings } = this.context
    const { bucketKey } = request
    const nowMs = this.context.clock.nowMs()
    this.#arrivals.arrived(request.rows, nowMs)
    const withinMs = request.deadlineMs ?? settings.targetMs
    if (withinMs === Infinity) return super.arrive(request)
    const answerMs = estimatedAnswerMs(this.#runTimes, bucketKey, request.rows, {
      rowsAhead: this.context.rowsAhead(request),
      batchRows: fullBatchRows(this.#target?.limits(bucketKey) ?? this.#limits),
      instances: settings.instances,
      joiningRowsPerMs: this.#target === null ? 0 : this.#arrivals.rowsPerMs(nowMs),
      freeInMs: this.context.freeInMs(),
      sharing: this.context.sharing(),
      keepsTarget: this.#target !== null,
      ready: request.decodeMs === 0 ? undefined : { inMs: request.decodeMs, spreadMs: 0, isNext: false },
    })
    if (answerMs > withinMs) return false
    request.deadlineAtMs = nowMs + withinMs
    return super.arrive(request)
  }

  override expectedMs(rows: number, bucketKey: string): number {
    return this.#runTimes.presentMs(bucketKey, rows)
  }

  override ran(requests: readonly SimulatedRequest[], rows: number, tookMs: number): void {
    const nowMs = this.context.clock.nowMs()
    const { bucketKey } = requests[0]!
    this.#runTimes.observe(bucketKey, rows, tookMs)
    this.#runTimes.safetyFactor.answered(requests, nowMs)
    const arriving = this.#arrivals.rowsPerMs(nowMs)
    if (++this.#runs % reviewEveryRuns === 0 && this.#target?.review(bucketKey, arriving))
      this.queue.resize(bucketKey)
  }
}

/** A few runs of each size, as before the first request or by those before a recording, up to one that exceeds the target by itself. */
function calibrated({ settings, calibrationMs }: QueueContext): RunTimes {
  const runTimes = new RunTimes()
  const { maxBatchSize, targetMs } = settings
  for (let rows = 1; ; rows = Math.min(rows * 2, maxBatchSize)) {
    for (let run = 0; run < calibrationRuns; run++) runTimes.observe(calibratedKey, rows, calibrationMs(rows))
    if (rows === maxBatchSize || runTimes.medianMs(calibratedKey, rows) > targetMs) return runTimes
  }
}
