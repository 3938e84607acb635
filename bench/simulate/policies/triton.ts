import { Fifo } from '../../../packages/perf/src/simulation/traffic.ts'
import {
  type QueueContext,
  rowsOf,
  SimulatedQueue,
  type SimulatedRequest,
} from '../../../packages/perf/src/simulation/simulated-queue.ts'

/** A batch on its way to an instance; until one takes it, more may be added. */
class Payload {
  readonly requests: SimulatedRequest[] = []
  rows = 0
  scheduled = false
  /** Taken by an instance, or looked at by one that would have merged it. */
  executing = false

  add(request: SimulatedRequest): void {
    this.requests.push(request)
    this.rows += request.rows
  }
}

/** What one look at the queue came to: so many requests are moved to the payload now, or it is looked at again later. */
interface Pass {
  readonly move: number
  readonly waitMs: number
}

/**
 * Triton's dynamic batcher as it is written (with prefetching, equal shapes, and no queue policies): a batcher thread
 * moves requests from the queue to a payload, payloads wait in line for an instance, twice as many as there are
 * instances, and the last one grows meanwhile, by which it can end up with one more request than the largest preferred
 * size has. An instance merges payloads that are older than the delay.
 */
export class TritonQueue extends SimulatedQueue {
  readonly #context: QueueContext
  readonly #preferred: ReadonlySet<number>
  readonly #maxPreferred: number
  readonly #maxPayloads: number
  readonly #queue = new Fifo<SimulatedRequest>()
  readonly #payloads = new Fifo<Payload>()
  #queuedRows = 0
  #payloadRequests = 0
  #payload = new Payload()
  #saturated = false
  #nextPreferred = 0
  #woken = false
  #timer: unknown = null

  constructor(context: QueueContext) {
    super(context)
    const { preferredBatchSizes, maxBatchSize, instances } = context.settings
    this.#context = context
    this.#preferred = new Set(preferredBatchSizes.length > 0 ? preferredBatchSizes : [maxBatchSize])
    this.#maxPreferred = Math.max(...this.#preferred)
    this.#maxPayloads = 2 * instances
  }

  get waiting(): number {
    return this.#queue.size + this.#payloadRequests
  }

  arrive(request: SimulatedRequest): boolean {
    request.enqueuedAtMs = this.#context.clock.nowMs()
    this.#queue.push(request)
    this.#queuedRows += request.rows
    const worthIt = this.#saturated || this.#payload.executing || this.#queuedRows >= this.#nextPreferred
    if (this.#slotFree && worthIt) this.#woken = true
    return true
  }

  override flush(): void {
    if (this.#woken) this.#batch()
  }

  take(idle: boolean): SimulatedRequest[] | null {
    const payload = idle ? this.#payloads.shift() : undefined
    if (payload === undefined) return null
    payload.executing = true
    this.#merge(payload)
    this.#payloadRequests -= payload.requests.length
    this.#batch() // there is a free slot now
    return payload.requests
  }

  get #slotFree(): boolean {
    return this.#payloads.size < this.#maxPayloads
  }

  /** What the batcher thread does from when it is woken until it waits. */
  #batch(): void {
    this.#woken = false
    if (this.#timer !== null) this.#context.clock.clearTimer(this.#timer)
    this.#timer = null
    for (;;) {
      if (this.#saturated || this.#payload.executing) {
        this.#payload = new Payload()
        this.#saturated = false
        this.#nextPreferred = 0
      }
      if (this.#queue.size === 0 || !this.#slotFree) return
      const { move, waitMs } = this.#look()
      if (waitMs > 0) {
        this.#timer = this.#context.clock.setTimer(this.#onTimer, waitMs)
        return
      }
      this.#move(move)
    }
  }

  /** `GetDynamicBatch`, branch by branch. */
  #look(): Pass {
    const { maxBatchSize, maxQueueDelayMs: delayMs } = this.#context.settings
    const inPayload = this.#payload.rows
    let rows = 0 // pending
    let requests = 0
    let best: number | null = null // pending rows at the mark
    let marked = 0
    let sendNow = false
    for (let next = this.#queue.at(0); next !== undefined; next = this.#queue.at(requests)) {
      const sum = inPayload + rows + next.rows
      if (inPayload + requests > 0) {
        // With nothing pending the mark is at 0 and counts as none, but the payload is done for: one more comes in.
        if (sum > this.#maxPreferred && (best ?? 0) === 0) {
          best = rows
          marked = requests
          this.#saturated = true
        }
        if (sum > maxBatchSize) {
          sendNow = true
          break
        }
      }
      rows += next.rows
      requests++
      if (this.#preferred.has(inPayload + rows)) {
        best = rows
        marked = requests
      }
    }
    const nowMs = this.#context.clock.nowMs()
    const exceededAtMs = this.#queue.at(0)!.enqueuedAtMs + delayMs
    const delayExceeded = delayMs > 0 && requests > 0 && nowMs >= exceededAtMs
    if ((best ?? 0) !== 0 && !delayExceeded) {
      if (delayMs === 0) this.#saturated = true
      return { move: marked, waitMs: 0 }
    }
    if (sendNow || inPayload + rows >= this.#maxPreferred) {
      this.#saturated = true
      return { move: requests, waitMs: 0 }
    }
    if (delayExceeded || delayMs === 0) return { move: requests, waitMs: 0 }
    this.#nextPreferred = this.#preferredAbove(inPayload + rows) - inPayload
    if (!this.#saturated && inPayload > 0 && !this.#preferred.has(inPayload))
      return { move: requests, waitMs: 0 }
    return { move: 0, waitMs: exceededAtMs - nowMs }
  }

  #preferredAbove(rows: number): number {
    let above = Infinity
    for (const size of this.#preferred) if (size > rows) above = Math.min(above, size)
    return above
  }

  #move(count: number): void {
    if (count === 0) return
    const payload = this.#payload
    for (let moved = 0; moved < count; moved++) {
      const request = this.#queue.shift()!
      this.#queuedRows -= request.rows
      payload.add(request)
    }
    this.#payloadRequests += count
    if (payload.scheduled) return
    payload.scheduled = true
    this.#payloads.push(payload)
  }

  /** What an instance that takes a payload does with those behind it. */
  #merge(payload: Payload): void {
    const { maxBatchSize, maxQueueDelayMs } = this.#context.settings
    if (maxQueueDelayMs === 0 || maxBatchSize === 1) return
    for (let next = this.#payloads.at(0); next !== undefined; next = this.#payloads.at(0)) {
      if (this.#context.clock.nowMs() - next.requests[0]!.enqueuedAtMs <= maxQueueDelayMs) return
      next.executing = true // no more is added to it, whether or not it fits
      if (rowsOf(payload.requests) + next.rows > maxBatchSize) return
      for (const request of next.requests) payload.add(request)
      this.#payloads.shift()
    }
  }

  readonly #onTimer = (): void => {
    this.#timer = null
    this.#batch()
    this.#context.wake()
  }
}
