import type { SimulatedRequest } from './simulated-request.ts'

/** Figures of one interval of time: requests by when they came, runs by when they started. */
export interface Interval {
  readonly fromMs: number
  offered: number
  answered: number
  /** Answered, but not within the target. */
  late: number
  refused: number
  dropped: number
  runs: number
  rows: number
}

/** Notes what becomes of every request. */
export class SimulationRecord {
  requests = 0
  answeredCount = 0
  answeredRows = 0
  lateCount = 0
  refusedCount = 0
  droppedCount = 0
  runs = 0
  maxQueued = 0
  lastAnswerMs = 0
  readonly timeline: Interval[] = []
  /** Of the answered, in the order of their answers. */
  readonly latenciesMs: Float64Array
  /** Runs by rows. */
  readonly runsByRows: Uint32Array
  readonly #arrivalsMs: Float64Array
  readonly #ended: Uint8Array
  readonly #targetMs: number
  readonly #timelineMs: number
  #queued = 0

  /** @param count requests that will come at most. */
  constructor(count: number, maxRows: number, targetMs: number, timelineMs: number) {
    this.latenciesMs = new Float64Array(count)
    this.runsByRows = new Uint32Array(maxRows + 1)
    this.#arrivalsMs = new Float64Array(count)
    this.#ended = new Uint8Array(count)
    this.#targetMs = targetMs
    this.#timelineMs = timelineMs
  }

  arrived(index: number, atMs: number): void {
    this.requests++
    this.#arrivalsMs[index] = atMs
    const interval = this.#interval(atMs)
    if (interval !== null) interval.offered++
  }

  accepted(): void {
    if (++this.#queued > this.maxQueued) this.maxQueued = this.#queued
  }

  refused(request: SimulatedRequest): void {
    this.#end(request)
    this.refusedCount++
    const interval = this.#interval(this.#arrivalsMs[request.index]!)
    if (interval !== null) interval.refused++
  }

  dropped(request: SimulatedRequest): void {
    this.#end(request)
    this.#queued--
    this.droppedCount++
    const interval = this.#interval(this.#arrivalsMs[request.index]!)
    if (interval !== null) interval.dropped++
  }

  started(requests: number, rows: number, atMs: number): void {
    this.#queued -= requests
    this.runs++
    this.runsByRows[rows]!++
    const interval = this.#interval(atMs)
    if (interval === null) return
    interval.runs++
    interval.rows += rows
  }

  answered(request: SimulatedRequest, atMs: number): void {
    this.#end(request)
    const arrivedMs = this.#arrivalsMs[request.index]!
    const latencyMs = atMs - arrivedMs
    const late = latencyMs > this.#targetMs
    this.latenciesMs[this.answeredCount++] = latencyMs
    this.answeredRows += request.rows
    if (late) this.lateCount++
    this.lastAnswerMs = Math.max(this.lastAnswerMs, atMs)
    const interval = this.#interval(arrivedMs)
    if (interval === null) return
    interval.answered++
    if (late) interval.late++
  }

  #end({ index }: SimulatedRequest): void {
    if (this.#ended[index] === 1) throw new Error(`request ${index} has ended twice`)
    this.#ended[index] = 1
  }

  #interval(atMs: number): Interval | null {
    const lengthMs = this.#timelineMs
    if (lengthMs === 0) return null
    const { timeline } = this
    for (let next = timeline.length; next * lengthMs <= atMs; next++) {
      timeline.push({ fromMs: next * lengthMs, offered: 0, answered: 0, late: 0, refused: 0, dropped: 0, runs: 0, rows: 0 })
    }
    return timeline[Math.floor(atMs / lengthMs)]!
  }
}
