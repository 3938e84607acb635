import type { Clock } from '../clock.ts'
import { closeAtMs, fullBatchRows, requestsToDispatch, type BatchLimits } from './batch-policy.ts'
import { DeadlineHeap } from './deadline-heap.ts'
import type { QueueEntry, QueueExit } from './entry.ts'
import { Lane } from './lane.ts'

/** What a {@link Batcher} asks of its owner. */
export interface BatcherHost<E extends QueueEntry> {
  /** `entry` left the queue for good without a batch; settle it. */
  dropped(entry: E, why: QueueExit): void
  /** A queue delay ran out: offer the batcher an idle instance again. */
  wake(): void
}

/** A {@link Batcher}'s fixed settings. */
export interface BatcherOptions extends BatchLimits {
  /** Most requests that may wait, 0 for no limit. */
  readonly maxQueueSize: number
}

/**
 * The queue of one model: lanes of requests that may share a batch, their deadlines, and the only timer. It decides
 * when a batch is closed and knows nothing of tensors, threads or ONNX Runtime.
 */
export class Batcher<E extends QueueEntry> {
  #options: BatcherOptions
  readonly #clock: Clock
  readonly #host: BatcherHost<E>
  readonly #lanes = new Map<string, Lane<E>>()
  readonly #deadlines = new DeadlineHeap<E>()
  #lane: Lane<E> // the lane of the last request: with fixed shapes, the only one
  #laneKey = ''
  #count = 0
  #timer: unknown = null
  #timerAtMs = Infinity

  constructor(options: BatcherOptions, clock: Clock, host: BatcherHost<E>) {
    this.#options = options
    this.#clock = clock
    this.#host = host
    this.#lane = new Lane()
    this.#lanes.set('', this.#lane)
  }

  /** Requests waiting. */
  get count(): number {
    return this.#count
  }

  /** True when one more request would exceed `maxQueueSize`. */
  get full(): boolean {
    const { maxQueueSize } = this.#options
    return maxQueueSize > 0 && this.#count >= maxQueueSize
  }

  /** Rows waiting across all lanes. */
  get rows(): number {
    let rows = 0
    for (const lane of this.#lanes.values()) rows += lane.rows
    return rows
  }

  /**
   * Adds a request at the tail of its lane; its `deadlineMs` is set before. The caller checks {@link full} first.
   * Returns true when its lane now holds a full batch, which is worth handing over at once.
   */
  enqueue(entry: E, nowMs: number): boolean {
    const lane = entry.shapeKey === this.#laneKey ? this.#lane : this.#laneOf(entry.shapeKey)
    entry.enqueuedAtMs = nowMs
    lane.push(entry)
    this.#count++
    if (entry.deadlineMs !== Infinity) {
      this.#deadlines.push(entry)
      this.#armTimer(entry.deadlineMs)
    }
    return lane.rows >= fullBatchRows(this.#options) || !this.#options.joinRequests
  }

  /** From now on every request is a batch of its own. */
  stopJoining(): void {
    this.#options = { ...this.#options, joinRequests: false }
  }

  /** Puts requests that were taken back at the head of their lane, in their order, and without a deadline. */
  requeue(batch: readonly E[]): void {
    // What these left in the heap would count as waiting again, at a place its deadline does not fit any more.
    this.#deadlines.dropStale()
    for (const entry of batch.toReversed()) {
      entry.deadlineMs = Infinity
      this.#laneOf(entry.shapeKey).unshift(entry)
      this.#count++
    }
  }

  /** Takes a waiting request out; false when it is not waiting any more. */
  cancel(entry: E, why: QueueExit): boolean {
    if (entry.lane === null) return false
    this.#unlink(entry)
    if (entry.deadlineMs !== Infinity) this.#deadlines.markStale()
    if (this.#count === 0) this.#emptied()
    this.#host.dropped(entry, why)
    return true
  }

  /**
   * Closes the next batch and hands it over, or returns `null` when nothing is to be sent now. Requests whose
   * deadline has passed are dropped first. Of several lanes that could send, the one waiting longest does.
   *
   * @param idle whether the instance that asks would start the batch at once.
   */
  take(idle: boolean): E[] | null {
    if (this.#count === 0) return null
    const nowMs = this.#clock.nowMs()
    this.#expire(nowMs)

    let chosen: Lane<E> | null = null
    let requests = 0
    let closesAtMs = Infinity
    for (const lane of this.#lanes.values()) {
      const head = lane.head
      if (head === null) continue
      const ready = requestsToDispatch(head, this.#options, nowMs, idle)
      if (ready === 0) closesAtMs = Math.min(closesAtMs, closeAtMs(head, this.#options))
      else if (chosen === null || head.enqueuedAtMs < chosen.head!.enqueuedAtMs) {
        chosen = lane
        requests = ready
      }
    }
    if (chosen === null) {
      // Only an idle instance is kept waiting by the delay; a busy one asks again when it is done.
      if (idle && closesAtMs !== Infinity) this.#armTimer(closesAtMs)
      return null
    }
    return this.#takeFrom(chosen, requests)
  }

  /** Drops everything that waits. */
  clear(why: QueueExit): void {
    for (const lane of Array.from(this.#lanes.values())) {
      while (lane.head !== null) this.cancel(lane.head, why)
    }
    this.#disarmTimer()
  }

  #laneOf(key: string): Lane<E> {
    if (this.#lane.count === 0 && this.#laneKey !== '') this.#lanes.delete(this.#laneKey)
    let lane = this.#lanes.get(key)
    if (lane === undefined) this.#lanes.set(key, (lane = new Lane()))
    this.#lane = lane
    this.#laneKey = key
    return lane
  }

  #takeFrom(lane: Lane<E>, requests: number): E[] {
    const batch: E[] = []
    while (batch.length < requests) {
      const entry = lane.head!
      batch.push(entry)
      this.#unlink(entry)
      if (entry.deadlineMs !== Infinity) this.#deadlines.markStale()
    }
    if (this.#count === 0) this.#emptied()
    return batch
  }

  #unlink(entry: E): void {
    const lane: Lane<E> = entry.lane!
    lane.remove(entry)
    this.#count--
    // A lane of a shape that comes once must not stay for ever; the lane in use and the fixed one do.
    if (lane.count === 0 && lane !== this.#lane && entry.shapeKey !== '') this.#lanes.delete(entry.shapeKey)
  }

  #emptied(): void {
    this.#disarmTimer()
    this.#deadlines.dropStale() // or an idle queue would hold requests that are long settled
  }

  #expire(nowMs: number): void {
    for (let entry = this.#deadlines.peek(); entry !== null; entry = this.#deadlines.peek()) {
      if (entry.deadlineMs > nowMs) return
      this.cancel(entry, 'timeout')
    }
  }

  #armTimer(atMs: number): void {
    if (atMs >= this.#timerAtMs) return
    this.#disarmTimer()
    this.#timerAtMs = atMs
    this.#timer = this.#clock.setTimer(this.#onTimer, Math.max(0, atMs - this.#clock.nowMs()))
  }

  #disarmTimer(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#timerAtMs = Infinity
  }

  readonly #onTimer = (): void => {
    this.#timer = null
    this.#timerAtMs = Infinity
    this.#expire(this.#clock.nowMs())
    const next = this.#deadlines.peek()
    if (next !== null) this.#armTimer(next.deadlineMs)
    if (this.#count > 0) this.#host.wake()
  }
}
