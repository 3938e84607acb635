import type { Clock } from '../clock.ts'
import type { BatchReason } from '../scheduling.ts'
import { decide, fullBatchRows, type BatchDecision, type BatchLimits } from './batch-policy.ts'
import { Bucket, isMoreUrgent } from './bucket.ts'
import { DeadlineHeap } from './deadline-heap.ts'
import type { QueueEntry, QueueExit } from './entry.ts'
import { IndexedHeap } from '../indexed-heap.ts'
import type { RunTimes } from './run-times.ts'

/** What a {@link Batcher} asks of its owner. */
export interface BatcherHost<E extends QueueEntry> {
  /** `entry` left the queue for good without a batch; settle it. */
  dropped(entry: E, why: QueueExit): void
  /** A queue delay ran out: offer the batcher an idle instance again. */
  wake(): void
}

/** A {@link Batcher}'s settings. */
export interface BatcherOptions extends BatchLimits {
  /** For tests: nothing is sent until so many requests have waited at once; 0 for no hold. */
  readonly holdUntilQueued: number
}

/** Who chooses batch sizes where that is left to measurement. */
export interface BatchSizer {
  limits(bucketKey: string): BatchLimits
}

/** A closed batch. */
export interface FormedBatch<E> {
  readonly entries: E[]
  readonly reason: BatchReason
}

/**
 * The queue of one model: buckets of requests that may share a batch, their deadlines, and the only timer. It decides
 * when a batch is closed and knows nothing of tensors, threads or ONNX Runtime.
 *
 * Every bucket with requests is in one of three heaps, so that neither many requests nor many buckets make a decision
 * slower: those with a full batch, those that an idle instance should look at, and those that wait for their delay.
 */
export class Batcher<E extends QueueEntry> {
  #options: BatcherOptions
  readonly #clock: Clock
  readonly #host: BatcherHost<E>
  readonly #runTimes: RunTimes | null
  readonly #sizer: BatchSizer | null
  readonly #buckets = new Map<string, Bucket<E>>()
  readonly #full = new IndexedHeap<Bucket<E>>(isMoreUrgent)
  readonly #open = new IndexedHeap<Bucket<E>>(isMoreUrgent)
  readonly #waiting = new IndexedHeap<Bucket<E>>((a, b) => a.closeAtMs < b.closeAtMs)
  readonly #deadlines = new DeadlineHeap<E>()
  #bucket: Bucket<E> // of the last request: with fixed shapes, the only one
  #count = 0
  #rows = 0
  #holding: boolean
  #draining = false
  #timer: unknown = null
  #timerAtMs = Infinity

  /**
   * @param runTimes tells what a run will take, for requests with deadlines.
   * @param sizer chooses the limits of each bucket; without it they are those of `options`.
   */
  constructor(
    options: BatcherOptions,
    clock: Clock,
    host: BatcherHost<E>,
    runTimes: RunTimes | null = null,
    sizer: BatchSizer | null = null,
  ) {
    this.#options = options
    this.#clock = clock
    this.#host = host
    this.#runTimes = runTimes
    this.#sizer = sizer
    this.#holding = options.holdUntilQueued > 0
    this.#bucket = this.#makeBucket('')
  }

  /** Requests waiting. */
  get count(): number {
    return this.#count
  }

  /** Rows waiting across all buckets. */
  get rows(): number {
    return this.#rows
  }

  /** True when a batch is ready that may be handed to a busy instance too. */
  get hasFull(): boolean {
    return this.#full.size > 0 && !this.#holding
  }

  /**
   * Adds a request at its place in its bucket; its timeout and deadline are set before, and that its level is not full
   * is checked. Returns true when its bucket now holds a full batch, which is worth handing over at once.
   */
  enqueue(entry: E, nowMs: number): boolean {
    const bucket = this.#bucketOf(entry.bucketKey)
    entry.enqueuedAtMs = nowMs
    this.#add(entry, bucket, false)
    this.#watch(entry)
    if (this.#holding && this.#count >= this.#options.holdUntilQueued) this.#holding = false
    return bucket.heap === this.#full
  }

  /** From now on every request is a batch of its own. */
  stopJoining(): void {
    this.#options = { ...this.#options, joinRequests: false }
    for (const bucket of this.#buckets.values()) this.#place(bucket)
  }

  /** Nothing more will arrive: what waits for a delay is sent as soon as an instance is idle. */
  drain(): void {
    this.#draining = true
    this.#holding = false
    for (let bucket = this.#waiting.peek(); bucket !== null; bucket = this.#waiting.peek()) this.#move(bucket, this.#open)
  }

  /** Puts requests that were taken back before the others of their rank, in their order, and without a timeout. */
  requeue(batch: readonly E[]): void {
    // What these left in the heap would count as waiting again, at a place that does not fit any more.
    this.#deadlines.dropStale()
    for (const entry of batch.toReversed()) {
      entry.timeoutAtMs = Infinity
      this.#add(entry, this.#bucketOf(entry.bucketKey), true)
      this.#watch(entry)
    }
  }

  /** Takes a waiting request out; false when it is not waiting any more. */
  cancel(entry: E, why: QueueExit): boolean {
    const { bucket } = entry
    if (bucket === null) return false
    this.#unlink(entry, bucket)
    this.#place(bucket)
    if (this.#count === 0) this.#emptied()
    this.#host.dropped(entry, why)
    return true
  }

  /**
   * Closes the next batch and hands it over, or returns `null` when nothing is to be sent now. Requests that can no
   * longer be served in time are dropped first. Of several buckets that could send, the most urgent does.
   *
   * @param idle whether the instance that asks would start the batch at once.
   * @param startsInMs when a busy instance will be able to start it.
   */
  take(idle: boolean, startsInMs = 0): FormedBatch<E> | null {
    if (this.#count === 0 || this.#holding) return null
    const nowMs = this.#clock.nowMs()
    this.#expire(nowMs)
    if (idle) this.#reopen(nowMs)

    for (let bucket = this.#mostUrgent(idle); bucket !== null; bucket = this.#mostUrgent(idle)) {
      if (this.#dropHopeless(bucket, nowMs + startsInMs)) continue
      const decision = this.#decide(bucket, nowMs, idle, startsInMs)
      if (decision.requests > 0) return this.#takeFrom(bucket, decision)
      bucket.closeAtMs = decision.closeAtMs
      this.#move(bucket, this.#waiting)
    }
    // Only an idle instance is kept waiting by the delay; a busy one asks again when it is done.
    const next = idle ? this.#waiting.peek() : null
    if (next !== null) this.#armTimer(next.closeAtMs)
    return null
  }

  /** Drops everything that waits. */
  clear(why: QueueExit): void {
    for (const bucket of Array.from(this.#buckets.values())) {
      while (bucket.head !== null) this.cancel(bucket.head, why)
    }
    this.#disarmTimer()
  }

  /** The limits of a bucket are no longer what they were. */
  resize(bucketKey: string): void {
    const bucket = this.#buckets.get(bucketKey)
    if (bucket === undefined || this.#sizer === null) return
    bucket.limits = this.#sizer.limits(bucketKey)
    this.#place(bucket)
  }

  #makeBucket(key: string): Bucket<E> {
    const bucket = new Bucket<E>(key, this.#sizer?.limits(key) ?? this.#options)
    this.#buckets.set(key, bucket)
    return bucket
  }

  #bucketOf(key: string): Bucket<E> {
    const last = this.#bucket
    if (key === last.key) return last
    // A bucket of a shape that comes once must not stay for ever; the one in use does.
    if (last.count === 0) this.#buckets.delete(last.key)
    return (this.#bucket = this.#buckets.get(key) ?? this.#makeBucket(key))
  }

  #add(entry: E, bucket: Bucket<E>, first: boolean): void {
    if (first) bucket.unshift(entry)
    else bucket.push(entry)
    entry.level.waiting++
    this.#count++
    this.#rows += entry.rows
    this.#place(bucket)
  }

  #unlink(entry: E, bucket: Bucket<E>): void {
    bucket.remove(entry)
    entry.level.waiting--
    this.#count--
    this.#rows -= entry.rows
    if (entry.watched) this.#deadlines.markStale()
  }

  /** Brings a bucket to the heap where it belongs after its requests changed. */
  #place(bucket: Bucket<E>): void {
    const headChanged = bucket.refreshUrgency()
    if (bucket.count === 0) {
      this.#move(bucket, null)
      if (bucket !== this.#bucket) this.#buckets.delete(bucket.key)
      return
    }
    const full = bucket.rows >= fullBatchRows(bucket.limits) || !this.#options.joinRequests
    const heap = full ? this.#full : this.#open
    if (bucket.heap !== heap) this.#move(bucket, heap)
    else if (headChanged) heap.update(bucket)
  }

  #move(bucket: Bucket<E>, heap: IndexedHeap<Bucket<E>> | null): void {
    bucket.heap?.remove(bucket)
    bucket.heap = heap
    heap?.push(bucket)
  }

  /** Lets an idle instance look again at buckets whose time has come. */
  #reopen(nowMs: number): void {
    for (let due = this.#waiting.peek(); due !== null && due.closeAtMs <= nowMs; due = this.#waiting.peek()) {
      this.#move(due, this.#open)
    }
  }

  #mostUrgent(idle: boolean): Bucket<E> | null {
    const full = this.#full.peek()
    const open = idle ? this.#open.peek() : null
    if (full === null || open === null) return full ?? open
    return isMoreUrgent(open, full) ? open : full
  }

  #decide(bucket: Bucket<E>, nowMs: number, idle: boolean, startsInMs: number): BatchDecision {
    const limits = this.#options.joinRequests ? bucket.limits : this.#options
    const runTimes = this.#runTimes
    const runMs = runTimes === null || !runTimes.knows(bucket.key) ? null : (rows: number) => runTimes.p99Ms(bucket.key, rows)
    return decide(bucket.head, limits, { nowMs, idle, startsInMs, draining: this.#draining, runMs })
  }

  /** Drops the head of a bucket while even a run as short as they usually are would end after its deadline. */
  #dropHopeless(bucket: Bucket<E>, startMs: number): boolean {
    const head = bucket.head!
    if (head.deadlineAtMs === Infinity) return false
    const runMs = this.#runTimes?.medianMs(bucket.key, head.rows) ?? 0
    if (startMs + runMs <= head.deadlineAtMs) return false
    this.cancel(head, 'deadline')
    return true
  }

  #takeFrom(bucket: Bucket<E>, { requests, reason }: BatchDecision): FormedBatch<E> {
    const entries: E[] = []
    while (entries.length < requests) {
      const entry = bucket.head!
      entries.push(entry)
      this.#unlink(entry, bucket)
    }
    this.#place(bucket)
    if (this.#count === 0) this.#emptied()
    return { entries, reason: reason === 'idle' && this.#count > 0 ? 'bucket' : reason }
  }

  #emptied(): void {
    this.#disarmTimer()
    this.#deadlines.dropStale() // or an idle queue would hold requests that are long settled
  }

  #expire(nowMs: number): void {
    for (let entry = this.#deadlines.peek(); entry !== null; entry = this.#deadlines.peek()) {
      if (entry.expiresAtMs > nowMs) return
      this.#deadlines.pop()
      if (entry.deadlineAtMs <= nowMs) this.cancel(entry, 'deadline')
      else if (entry.level.policy.timeoutAction === 'REJECT') this.cancel(entry, 'timeout')
      else this.#delay(entry)
    }
  }

  /** Lets a request whose timeout ran out wait on, behind the others of its level. */
  #delay(entry: E): void {
    const bucket: Bucket<E> = entry.bucket!
    this.#unlink(entry, bucket)
    entry.timeoutAtMs = Infinity
    entry.delayed = true
    this.#add(entry, bucket, false)
    this.#watch(entry)
  }

  #watch(entry: E): void {
    const expiresAtMs = Math.min(entry.timeoutAtMs, entry.deadlineAtMs)
    if (expiresAtMs === Infinity) return
    entry.expiresAtMs = expiresAtMs
    this.#deadlines.push(entry)
    this.#armTimer(expiresAtMs)
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
    if (next !== null) this.#armTimer(next.expiresAtMs)
    if (this.#count > 0) this.#host.wake()
  }
}
