import {
  ArrivalRate,
  type BatchLimits,
  type Clock,
  estimatedAnswerMs,
  fullBatchRows,
  InferRequest,
  LatencyTarget,
  noOptions,
  PriorityLevels,
  type QueueOwner,
  RequestQueue,
  resolveLevels,
  RunTimes,
} from 'zerohop/internals'
import type { Coming } from './traffic.ts'

/** Configuration of a simulated model. */
export interface QueueSettings {
  /** In rows. */
  readonly maxBatchSize: number
  /** Default: true. */
  readonly joinRequests?: boolean
  /** Empty for `[maxBatchSize]`. */
  readonly preferredBatchSizes: readonly number[]
  readonly maxQueueDelayMs: number
  /** Left out if costs limit nothing. */
  readonly cost?: BatchLimits['cost'] | undefined
  /** Number of instances. Every model can run on each of them, one run at a time. */
  readonly instances: number
  /**
   * An answer within this time is good. A queue with a latency target refuses requests that it cannot answer
   * in time.
   */
  readonly targetMs: number
}

/** What a {@link SimulatedQueue} knows of its surroundings. */
export interface QueueContext {
  /** The model's number. */
  readonly model: number
  readonly settings: QueueSettings
  readonly clock: Clock
  /** The run time with which the model calibrates itself: so many rows on an unloaded instance. */
  calibrationMs(rows: number): number
  /** A waiting request left the queue without an answer. */
  drop(request: SimulatedRequest): void
  /**
   * Revokes the prefetched batch of a request, through {@link SimulatedQueue.putBack}; false if there is
   * none.
   */
  revoke(request: SimulatedRequest): boolean
  /** A batch may be ready now. */
  wake(): void
  /** Milliseconds until an instance could start a batch; 0 if one is idle. */
  freeInMs(): number
  /** Number of models with waiting requests that share the instances, including this one. */
  sharing(): number
  /** Rows served before a new request. */
  rowsAhead(request: SimulatedRequest): number
}

/** The requests of one model, and the policy that forms batches of them. */
export abstract class SimulatedQueue {
  readonly model: number

  constructor({ model }: QueueContext) {
    this.model = model
  }

  /** Requests that no instance has taken yet. */
  abstract readonly waiting: number

  /** Whether a batch is ready that may be prefetched to a busy instance. */
  get hasFull(): boolean {
    return false
  }

  /** Accepts a request; false if it is refused. */
  abstract arrive(request: SimulatedRequest): boolean

  /** Accepts a further part of a request whose first part {@link arrive} has accepted. */
  join(request: SimulatedRequest): void {
    this.arrive(request)
  }

  /** The caller cancels the request; false if it is not waiting. */
  withdraw(_request: SimulatedRequest): boolean {
    return false
  }

  /** A prefetched batch starts. */
  started(_requests: readonly SimulatedRequest[]): void {}

  /** It was revoked, and waits in the queue again. */
  putBack(_requests: readonly SimulatedRequest[]): void {}

  /** All requests of this moment have arrived. */
  flush(): void {}

  /** Closes the next batch for an instance that is idle, or would start it in `startsInMs`. */
  abstract take(idle: boolean, startsInMs: number): SimulatedRequest[] | null

  /** Expected milliseconds of a run; 0 if the policy does not look ahead. */
  expectedMs(_rows: number, _bucketKey: string): number {
    return 0
  }

  /** A run of this model has ended. */
  ran(_requests: readonly SimulatedRequest[], _rows: number, _tookMs: number): void {}
}

/**
 * The library's own queue with fixed sizes: a batch is closed when an instance is idle, and a full one may be
 * prefetched.
 */
export class EngineQueue extends SimulatedQueue implements QueueOwner<SimulatedRequest> {
  protected readonly context: QueueContext
  protected readonly queue: RequestQueue<SimulatedRequest>

  constructor(context: QueueContext, runTimes: RunTimes | null = null, sizer: LatencyTarget | null = null) {
    super(context)
    this.context = context
    const options = { ...limitsOf(context.settings), holdUntilQueued: 0 }
    this.queue = new RequestQueue(options, context.clock, this, runTimes, sizer)
  }

  get waiting(): number {
    return this.queue.hasUnsent ? this.queue.count : 0
  }

  override get hasFull(): boolean {
    return this.queue.hasFull
  }

  arrive(request: SimulatedRequest): boolean {
    if (request.level.full) return false
    if (request.deadlineMs !== undefined && request.deadlineAtMs === null)
      request.deadlineAtMs = this.context.clock.nowMs() + request.deadlineMs
    this.join(request)
    return true
  }

  override join(request: SimulatedRequest): void {
    const { clock } = this.context
    if (request.decodeMs === 0) return void this.queue.enqueue(request, clock.nowMs())
    request.unready = true
    this.queue.hold(request, clock.nowMs())
    clock.setTimer(() => {
      if (!request.held) return // it has left the queue
      this.queue.ready(request, clock.nowMs())
      this.context.wake()
    }, request.decodeMs)
  }

  override withdraw(request: SimulatedRequest): boolean {
    return this.queue.cancel(request, 'cancelled')
  }

  override started(requests: readonly SimulatedRequest[]): void {
    this.queue.started(requests)
  }

  override putBack(requests: readonly SimulatedRequest[]): void {
    this.queue.putBack(requests)
  }

  take(idle: boolean, startsInMs: number): SimulatedRequest[] | null {
    return this.queue.take(idle, startsInMs)?.entries ?? null
  }

  dropped(request: SimulatedRequest): void {
    this.context.drop(request)
  }

  revoke(request: SimulatedRequest): boolean {
    return this.context.revoke(request)
  }

  wake(): void {
    this.context.wake()
  }
}

function limitsOf({ joinRequests = true, ...settings }: QueueSettings) {
  const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, cost } = settings
  return { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, joinRequests, ...(cost && { cost }) }
}

/** The bucket that is calibrated: requests of the shape that the model fixes. */
const calibratedKey = ''
/** As many as the library measures per size when a model is loaded. */
const calibrationRuns = 3
/** Runs after which the library reviews its choice of batch size. */
const reviewEveryRuns = 8

/**
 * The library's own queue with deadlines: it learns run times, refuses at once what it could not answer in
 * time, and with a target chooses the batch size by it.
 */
export class TargetQueue extends EngineQueue {
  readonly #limits: BatchLimits
  readonly #runTimes: RunTimes
  /** `null` if only requests have deadlines. */
  readonly #target: LatencyTarget | null
  readonly #arrivals = new ArrivalRate()
  #runs = 0

  constructor(context: QueueContext) {
    const { targetMs, instances } = context.settings
    const limits = { ...limitsOf(context.settings), joinRequests: true }
    const runTimes = calibrated(context)
    const target = targetMs === Infinity ? null : new LatencyTarget(limits, targetMs, runTimes, instances)
    super(context, runTimes, target)
    this.#limits = limits
    this.#runTimes = runTimes
    this.#target = target
    if (targetMs === Infinity) runTimes.safetyFactor.beginCarefully()
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
      decidesAtMs: nowMs,
      ready: request.decodeMs === 0 ? undefined : { inMs: request.decodeMs, spreadMs: 0, isNext: false },
    })
    if (answerMs > withinMs) return false
    request.deadlineAtMs = nowMs + withinMs
    return super.arrive(request)
  }

  override expectedMs(rows: number, bucketKey: string): number {
    return this.#runTimes.of(bucketKey).presentMs(rows)
  }

  override ran(requests: readonly SimulatedRequest[], rows: number, tookMs: number): void {
    const nowMs = this.context.clock.nowMs()
    const { bucketKey } = requests[0]!
    this.#runTimes.observe(bucketKey, rows, tookMs, nowMs)
    this.#runTimes.safetyFactor.answered(requests, nowMs)
    const arriving = this.#arrivals.rowsPerMs(nowMs)
    if (++this.#runs % reviewEveryRuns === 0 && this.#target?.review(bucketKey, arriving))
      this.queue.resize(bucketKey)
  }
}

/**
 * A few runs of each size, as before the first request or a recording, up to a size whose run alone exceeds
 * the target.
 */
function calibrated({ settings, calibrationMs }: QueueContext): RunTimes {
  const runTimes = new RunTimes()
  const { maxBatchSize, targetMs } = settings
  for (let rows = 1; ; rows = Math.min(rows * 2, maxBatchSize)) {
    for (let run = 0; run < calibrationRuns; run++) runTimes.observe(calibratedKey, rows, calibrationMs(rows))
    if (rows === maxBatchSize || runTimes.of(calibratedKey).usualMs(rows) > targetMs) return runTimes
  }
}

/** No priorities, no timeouts except a request's own, and no limit of waiting requests. */
export const oneLevel = resolveLevels(null)

const nothing = (): void => {}

/** A request without data, with its number. */
export class SimulatedRequest extends InferRequest {
  readonly index: number
  /** Deadline in milliseconds; `undefined` for the model's default. */
  readonly deadlineMs: number | undefined
  /** Milliseconds until its encoded images are decoded; 0 without images. */
  readonly decodeMs: number
  /** Rows of the whole request, if this is a part. */
  readonly wholeRows: number

  /** @param rows all rows of the request, or those of a part. */
  constructor(
    index: number,
    { rows: wholeRows, bucketKey = '', priority, timeoutMs, deadlineMs, decodeMs = 0, cost }: Coming,
    rows: number,
    levels: PriorityLevels,
    nowMs: number,
  ) {
    const feeds = { rows, bucketKey, whole: false, data: [], dims: null }
    super(feeds, levels.of(priority), noOptions, nothing, nothing)
    this.index = index
    this.wholeRows = wholeRows
    this.deadlineMs = deadlineMs
    this.decodeMs = decodeMs
    if (cost !== undefined) this.cost = { units: cost * rows, order: 0 }
    const waitMs = this.level.timeoutFor(timeoutMs)
    if (waitMs > 0) this.timeoutAtMs = nowMs + waitMs
  }
}

/** The request, in parts of at most `mostRows` rows. */
export function partsOf(
  index: number,
  coming: Coming,
  mostRows: number,
  levels: PriorityLevels,
  nowMs: number,
): SimulatedRequest[] {
  const parts: SimulatedRequest[] = []
  for (let from = 0; from < coming.rows; from += mostRows)
    parts.push(new SimulatedRequest(index, coming, Math.min(mostRows, coming.rows - from), levels, nowMs))
  return parts
}

/** Rows of several requests. */
export function rowsOf(requests: readonly SimulatedRequest[]): number {
  let rows = 0
  for (const request of requests) rows += request.rows
  return rows
}
