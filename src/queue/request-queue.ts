import type { Clock } from '../clock.ts'
import type { BatchLimits } from '../config/batching.ts'
import { Alarm } from './alarm.ts'
import { decide, type BatchDecision, type FormedBatch } from './batch-policy.ts'
import type { Bucket } from './bucket.ts'
import { Buckets } from './buckets.ts'
import { Expiries } from './expiries.ts'
import { expiresAtMs, type QueueExit, type WaitingRequest } from './waiting-request.ts'
import type { LatencyTarget } from '../latency/batch-size-for-target.ts'
import type { RunTimes } from '../latency/run-times.ts'

/** What a {@link RequestQueue} asks of its owner. */
export interface QueueOwner<E extends WaitingRequest> {
  /** `entry` left the queue for good without a batch; settle it. */
  dropped(entry: E, why: QueueExit): void
  /**
   * Takes the batch back of which `entry` is a part and that was handed ahead, by {@link RequestQueue.putBack}; false when
   * it has started.
   */
  takeBack(entry: E): boolean
  /** A queue delay ran out: offer the queue an idle instance again. */
  wake(): void
}

/** A {@link RequestQueue}'s settings. */
export interface QueueOptions extends BatchLimits {
  /** For tests: nothing is sent until so many requests have waited at once; 0 for no hold. */
  readonly holdUntilQueued: number
}

/**
 * The queue of one model: buckets of requests that may share a batch, their deadlines, and the only timer. It decides
 * when a batch is closed and knows nothing of tensors, threads or ONNX Runtime.
 */
export class RequestQueue<E extends WaitingRequest> {
  readonly #holdUntilQueued: number
  readonly #clock: Clock
  readonly #host: QueueOwner<E>
  readonly #runTimes: RunTimes | null
  readonly #buckets: Buckets<E>
  readonly #expiries = new Expiries<E>()
  #count = 0 // in the buckets
  #rows = 0
  #ahead = 0 // in batches that were handed ahead
  #holding: boolean
  #draining = false
  readonly #alarm: Alarm

  /**
   * @param runTimes tells what a run will take, for requests with deadlines.
   * @param sizer chooses the limits of each bucket; without it they are those of `options`.
   */
  constructor(
    options: QueueOptions,
    clock: Clock,
    host: QueueOwner<E>,
    runTimes: RunTimes | null = null,
    sizer: LatencyTarget | null = null,
  ) {
    this.#holdUntilQueued = options.holdUntilQueued
    this.#clock = clock
    this.#host = host
    this.#runTimes = runTimes
    this.#buckets = new Buckets(options, sizer)
    this.#alarm = new Alarm(clock, () => this.#onAlarm())
    this.#holding = options.holdUntilQueued > 0
  }

  /** Requests waiting, those in batches that were handed ahead included. */
  get count(): number {
    return this.#count + this.#ahead
  }

  /** Whether any wait that are in no batch. */
  get hasUnsent(): boolean {
    return this.#count > 0
  }

  /** Rows that wait in no batch. */
  get rows(): number {
    return this.#rows
  }

  /** Whether a batch waits that a busy instance may be given too. */
  get hasFull(): boolean {
    return this.#buckets.hasFull && !this.#holding
  }

  /**
   * Adds a request at its place in its bucket; its timeout and deadline are set before, and that its level is not full
   * is checked. Returns true when its bucket now holds a full batch, which is worth handing over at once.
   */
  enqueue(entry: E, nowMs: number): boolean {
    const bucket = this.#buckets.of(entry.bucketKey)
    entry.enqueuedAtMs = nowMs
    this.#add(entry, bucket, false)
    this.#watch(entry)
    if (this.#holding && this.#count >= this.#holdUntilQueued) this.#holding = false
    return this.#buckets.isFull(bucket)
  }

  /** From now on every request is a batch of its own. */
  stopJoining(): void {
    this.#buckets.stopJoining()
  }

  /** Nothing more will arrive: what waits for a delay is sent as soon as an instance is idle. */
  drain(): void {
    this.#draining = true
    this.#holding = false
    this.#buckets.reopen(Infinity)
  }

  /** Requests that {@link take} gave to a busy instance run now: they wait no more. */
  started(entries: readonly E[]): void {
    for (const entry of entries) {
      if (!entry.ahead) continue
      entry.ahead = false
      this.#ahead--
      this.#waitsNoMore(entry)
    }
    this.#quietAlarm()
  }

  /** Requests that {@link take} gave have not started and wait on, before the others of their line and in their order. */
  putBack(entries: readonly E[]): void {
    for (const entry of entries.toReversed()) {
      const bucket = this.#buckets.of(entry.bucketKey)
      if (entry.ahead) {
        entry.ahead = false
        this.#ahead--
        this.#put(entry, bucket, true)
      } else {
        this.#add(entry, bucket, true)
        this.#watch(entry)
      }
    }
  }

  /** Puts requests back that have run: as {@link putBack}, and without a timeout. */
  requeue(entries: readonly E[]): void {
    for (const entry of entries) entry.timeoutAtMs = null
    this.putBack(entries)
  }

  /** Takes a waiting request out; false when it is not waiting any more. */
  cancel(entry: E, why: QueueExit): boolean {
    if (entry.ahead && !this.#host.takeBack(entry)) return false
    if (entry.line === null) return false
    const bucket: Bucket<E> = entry.line.owner
    this.#unlink(entry, bucket)
    this.#buckets.place(bucket)
    this.#quietAlarm()
    if (why === 'deadline') this.#runTimes?.safetyFactor.dropped()
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
    this.#buckets.reopen(nowMs)

    for (let bucket = this.#buckets.mostUrgent(); bucket !== null; bucket = this.#buckets.mostUrgent()) {
      // Nothing is handed ahead of a partial batch whose turn it is: under load it would never be.
      if (!idle && !this.#buckets.hasFull) return null
      if (this.#dropHopeless(bucket, nowMs + startsInMs)) continue
      const ahead = !idle && this.#buckets.isFull(bucket)
      const front = bucket.front(bucket.limits.joinRequests ? bucket.limits.maxBatchSize : 0)
      const decision = this.#decide(bucket, front, nowMs, !ahead, startsInMs)
      if (decision.requests > 0) return idle || ahead ? this.#takeFrom(bucket, front, decision, !idle, nowMs) : null
      this.#buckets.wait(bucket, decision.closeAtMs)
    }
    // Only an idle instance is kept waiting by the delay; a busy one asks again when it is done.
    if (idle) this.#alarm.set(this.#buckets.nextCloseAtMs)
    return null
  }

  /** Drops everything that waits. */
  clear(why: QueueExit): void {
    for (const bucket of this.#buckets.all()) {
      while (bucket.head !== null) this.cancel(bucket.head, why)
    }
    this.#alarm.clear()
  }

  /** The limits of a bucket are no longer what they were. */
  resize(bucketKey: string): void {
    this.#buckets.resize(bucketKey)
  }

  #add(entry: E, bucket: Bucket<E>, first: boolean): void {
    entry.level.waiting++
    this.#put(entry, bucket, first)
  }

  #put(entry: E, bucket: Bucket<E>, first: boolean): void {
    const isHead = first ? bucket.unshift(entry) : bucket.push(entry)
    entry.level.rows += entry.rows
    this.#count++
    this.#rows += entry.rows
    if (isHead) this.#buckets.place(bucket)
    else this.#buckets.placeBehind(bucket)
  }

  #unlink(entry: E, bucket: Bucket<E>): void {
    bucket.remove(entry)
    this.#outOfBucket(entry)
    this.#waitsNoMore(entry)
  }

  #outOfBucket(entry: E): void {
    entry.level.rows -= entry.rows
    this.#count--
    this.#rows -= entry.rows
  }

  #waitsNoMore(entry: E): void {
    entry.level.waiting--
    this.#expiries.remove(entry)
  }

  #quietAlarm(): void {
    if (this.#count + this.#ahead === 0) this.#alarm.clear()
  }

  #decide(bucket: Bucket<E>, front: readonly E[], nowMs: number, idle: boolean, startsInMs: number): BatchDecision {
    const runTimes = this.#runTimes?.of(bucket.key) ?? null
    return decide(front, bucket.limits, { nowMs, idle, startsInMs, draining: this.#draining, runTimes })
  }

  /** Drops the head of a bucket while even a run as short as they usually are would end after its deadline. */
  #dropHopeless(bucket: Bucket<E>, startMs: number): boolean {
    const head = bucket.head!
    if (head.deadlineAtMs === null) return false
    const runMs = this.#runTimes?.medianMs(bucket.key, head.rows) ?? 0
    if (startMs + runMs <= head.deadlineAtMs) return false
    this.cancel(head, 'deadline')
    return true
  }

  /** Makes a batch of the first of `entries`, which are the front of the bucket. */
  #takeFrom(bucket: Bucket<E>, entries: E[], { requests, reason }: BatchDecision, ahead: boolean, nowMs: number): FormedBatch<E> {
    entries.length = requests
    bucket.removeFirst(entries)
    bucket.servedAtMs = nowMs
    this.#buckets.reckonPatience(this.#runTimes?.presentMs(bucket.key, bucket.fullRows) ?? 0)
    for (const entry of entries) {
      this.#outOfBucket(entry)
      if (ahead) entry.ahead = true
      else this.#waitsNoMore(entry)
    }
    if (ahead) this.#ahead += requests
    this.#buckets.place(bucket)
    this.#quietAlarm()
    return { entries, reason: reason === 'idle' && this.#count > 0 ? 'bucket' : reason }
  }

  #expire(nowMs: number): void {
    for (const entry of this.#expiries.takeDue(nowMs)) {
      if (entry.deadlineAtMs !== null && entry.deadlineAtMs <= nowMs) this.cancel(entry, 'deadline')
      else if (entry.level.policy.timeoutAction === 'REJECT') this.cancel(entry, 'timeout')
      else this.#delay(entry)
    }
  }

  /** Lets a request whose timeout ran out wait on, behind the others of its level. */
  #delay(entry: E): void {
    if (entry.ahead && !this.#host.takeBack(entry)) return
    const bucket: Bucket<E> = entry.line!.owner
    this.#unlink(entry, bucket)
    entry.timeoutAtMs = null
    entry.delayed = true
    this.#add(entry, bucket, false)
    this.#buckets.place(bucket) // another may be first now
    this.#watch(entry)
  }

  #watch(entry: E): void {
    const atMs = expiresAtMs(entry)
    if (atMs === Infinity) return
    this.#expiries.push(entry, atMs, this.#clock.nowMs())
    this.#alarm.set(atMs)
  }

  #onAlarm(): void {
    this.#expire(this.#clock.nowMs())
    this.#alarm.set(this.#expiries.nextAtMs)
    if (this.count > 0) this.#host.wake()
  }
}
