import { type Clock, Alarm } from '../base/clock.ts'
import { type Bucket, Buckets, fullBatchRows } from './buckets.ts'
import { Expiries } from './expiries.ts'
import { expiresAtMs, type InferRequest, type QueueExit } from '../request/infer-request.ts'
import type { BatchSizer } from './batch-sizer.ts'
import type { BucketRuns, RunTimes } from './estimates.ts'
import type { BatchLimits, BatchReason } from '../options/batching.ts'

/** What a queue asks of its owner. */
export interface QueueOwner<E extends InferRequest> {
  /** `entry` left the queue for good without a batch; settle it. */
  dropped(entry: E, why: QueueExit): void
  /** Revokes the prefetched batch of which `entry` is a part, by `putBack`; false when it has started. */
  revoke(entry: E): boolean
  /** A queue delay ran out: offer the queue an idle instance again. */
  wake(): void
}

/** A queue's settings. */
export interface QueueOptions extends BatchLimits {
  /** For tests: nothing is sent until so many requests have waited at once; 0 for no hold. */
  readonly holdUntilQueued: number
}

/**
 * The queue of one model: buckets of requests that may share a batch, their deadlines, and the only timer. It decides
 * when a batch is closed and knows nothing of tensors, threads or ONNX Runtime.
 */
export class RequestQueue<E extends InferRequest> {
  readonly #holdUntilQueued: number
  readonly #clock: Clock
  readonly #owner: QueueOwner<E>
  readonly #runTimes: RunTimes | null
  readonly #buckets: Buckets<E>
  /** The timeouts and deadlines of what waits. */
  readonly #expiries = new Expiries<E>()
  /** The only timer. */
  readonly #alarm: Alarm
  /** Requests in the buckets, and their rows. */
  #inBuckets = 0
  #rows = 0
  /** Requests in prefetched batches. */
  #ahead = 0
  /** Requests that may not be sent yet: they are in no bucket. */
  readonly #held = new Set<E>()
  #holding: boolean
  #draining = false
  #came = 0 // requests that have an order

  /**
   * @param runTimes estimates what a run will take, for requests with deadlines.
   * @param sizer chooses the limits of each bucket; without it they are those of `options`.
   */
  constructor(
    options: QueueOptions,
    clock: Clock,
    owner: QueueOwner<E>,
    runTimes: RunTimes | null = null,
    sizer: BatchSizer | null = null,
  ) {
    this.#holdUntilQueued = options.holdUntilQueued
    this.#clock = clock
    this.#owner = owner
    this.#runTimes = runTimes
    this.#buckets = new Buckets(options, sizer)
    this.#alarm = new Alarm(clock, () => this.#onAlarm())
    this.#holding = options.holdUntilQueued > 0
  }

  /** Requests waiting, those in prefetched batches included. */
  get count(): number {
    return this.#inBuckets + this.#ahead + this.#held.size
  }

  /** Whether any wait in a prefetched batch. */
  get hasAhead(): boolean {
    return this.#ahead > 0
  }

  /** Whether any wait that are in no batch. */
  get hasUnsent(): boolean {
    return this.#inBuckets > 0
  }

  /** When the request came that has waited longest of those in no batch; `Infinity` for none. */
  get oldestAtMs(): number {
    return this.#buckets.oldestAtMs
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
   * Adds a request, whose limits are set, to its level, which is not full. Returns true when its bucket has become full by it: then it
   * is offered at once, else at the end of the turn.
   */
  enqueue(entry: E, nowMs: number): boolean {
    const bucket = this.#buckets.of(entry.bucketKey)
    entry.enqueuedAtMs = nowMs
    this.#number(entry)
    const isReady = this.#put(entry, bucket, 'last')
    this.#waitsOn(entry)
    return isReady
  }

  /** As {@link enqueue}, for a request that may not be sent before it is {@link release released}, or {@link ready}. */
  hold(entry: E, nowMs: number): void {
    entry.enqueuedAtMs = nowMs
    this.#number(entry)
    entry.held = true
    this.#held.add(entry)
    if (entry.unready) entry.level.unreadyRows += entry.rows
    this.#waitsOn(entry)
  }

  /** A request that was held may be sent: it goes behind the others of its level. Returns what {@link enqueue} does. */
  release(entry: E): boolean {
    const bucket = this.#buckets.of(entry.bucketKey)
    this.#holdNoMore(entry)
    this.#number(entry)
    return this.#put(entry, bucket, 'last')
  }

  /** A request that was held has all of its inputs: it goes behind those that came before it. Returns what {@link enqueue} does. */
  ready(entry: E, nowMs: number): boolean {
    const bucket = this.#buckets.of(entry.bucketKey)
    this.#holdNoMore(entry)
    entry.readyAtMs = nowMs
    if (entry.cost !== null) entry.cost.order = entry.came
    return this.#put(entry, bucket, 'byArrival')
  }

  /**
   * Drops a request that was held if it cannot be answered in time any more; returns whether it did.
   *
   * @param readyInMs when it could be sent at best.
   */
  expires(entry: E, readyInMs: number): boolean {
    const nowMs = this.#clock.nowMs()
    const { rows } = this.#buckets.of(entry.bucketKey)
    return (
      this.#isHopeless(entry, entry.rows + rows, nowMs + readyInMs, nowMs) && this.cancel(entry, 'deadline')
    )
  }

  /** Whether even a run as short as they usually are would end after the deadline of a request. */
  #isHopeless(
    { deadlineAtMs, bucketKey, rows }: E,
    batchRows: number,
    startMs: number,
    nowMs: number,
  ): boolean {
    return (
      deadlineAtMs !== null &&
      startMs + (this.#runTimes?.of(bucketKey).leastMs(rows, nowMs, batchRows) ?? 0) > deadlineAtMs
    )
  }

  /** From now on every request is a batch of its own. */
  stopJoining(): void {
    this.#buckets.stopJoining()
  }

  /** From now on only requests of these buckets are joined, those that wait as well; `null` for all. */
  joinOnly(joined: { has(key: string): boolean } | null): void {
    this.#buckets.joinOnly(joined)
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
      this.#aheadNoMore(entry)
      this.#waitsNoMore(entry)
    }
    this.#clearAlarmIfEmpty()
  }

  /** Requests that {@link take} gave have not started and wait on, before the others of their line and in their order. */
  putBack(entries: readonly E[]): void {
    for (const entry of entries.toReversed()) {
      const bucket = this.#buckets.of(entry.bucketKey)
      if (entry.ahead) this.#aheadNoMore(entry)
      else this.#waitsOn(entry)
      this.#put(entry, bucket, 'first')
    }
  }

  /** Puts requests back that have run: as {@link putBack}, and without a timeout. */
  requeue(entries: readonly E[]): void {
    for (const entry of entries) entry.timeoutAtMs = null
    this.putBack(entries)
  }

  /** Takes a waiting request out; false when it is not waiting any more. */
  cancel(entry: E, why: QueueExit): boolean {
    if (entry.ahead && !this.#owner.revoke(entry)) return false
    if (entry.held) {
      this.#holdNoMore(entry)
      this.#waitsNoMore(entry)
    } else if (entry.line === null) return false
    else this.#buckets.place(this.#unlink(entry))
    this.#clearAlarmIfEmpty()
    if (why === 'deadline') this.#runTimes?.safetyFactor.dropped()
    this.#owner.dropped(entry, why)
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
    if (this.#inBuckets === 0 || this.#holding) return null
    const nowMs = this.#clock.nowMs()
    if (this.#expiries.size > 0) this.#expire(nowMs)
    this.#buckets.reopen(nowMs)
    for (let bucket = this.#buckets.mostUrgent(); bucket !== null; bucket = this.#buckets.mostUrgent()) {
      // Nothing is prefetched before a partial batch whose turn it is: under load that would never be sent.
      if (!idle && !this.#buckets.hasFull) return null
      if (
        this.#isHopeless(bucket.head!, bucket.rows, nowMs + startsInMs, nowMs) &&
        this.cancel(bucket.head!, 'deadline')
      )
        continue
      const ahead = !idle && this.#buckets.isFull(bucket)
      const front = bucket.next()
      const runTimes = this.#runTimes?.knows(bucket.key) ? this.#runTimes.of(bucket.key) : null
      const decision = decide(front, bucket.limits, {
        nowMs,
        idle: !ahead,
        startsInMs,
        draining: this.#draining,
        runTimes,
        closedBy: bucket.nextClosedBy,
      })
      if (decision.requests > 0)
        return idle || ahead ? this.#takeFrom(bucket, front, decision, !idle, nowMs) : null
      this.#buckets.wait(bucket, decision.closeAtMs)
    }
    // Only an idle instance is kept waiting by the delay; a busy one asks again when it is done.
    if (idle) this.#alarm.set(this.#buckets.nextCloseAtMs)
    return null
  }

  /** Drops everything that waits. */
  clear(why: QueueExit): void {
    for (const bucket of this.#buckets.all()) while (bucket.head !== null) this.cancel(bucket.head, why)
    for (const entry of this.#held) this.cancel(entry, why)
    this.#alarm.clear()
  }

  /** As {@link joinUpTo} was told. */
  get mostRows(): number {
    return this.#buckets.mostRows
  }

  /** Lets batches of fixed-shape requests have up to `rows` rows, if that is more than `maxBatchSize`; 0 for `maxBatchSize`. */
  joinUpTo(rows: number): void {
    this.#buckets.joinUpTo(rows)
  }

  /** The limits of a bucket, or of all, are no longer what they were. */
  resize(bucketKey: string | null = null): void {
    this.#buckets.resize(bucketKey)
  }

  /** Gives a request its place in the order of arrival. */
  #number(entry: E): void {
    entry.came = this.#came++
    if (entry.cost !== null) entry.cost.order = entry.came
  }

  /** Returns whether the bucket has become full by it. */
  #put(entry: E, bucket: Bucket<E>, where: Parameters<Buckets<E>['put']>[2]): boolean {
    const wasFull = this.#buckets.isFull(bucket)
    entry.level.rows += entry.rows
    this.#rows += entry.rows
    this.#inBuckets++
    this.#buckets.put(bucket, entry, where)
    if (this.#holding && this.#inBuckets >= this.#holdUntilQueued) this.#holding = false
    return !wasFull && this.#buckets.isReady(bucket)
  }

  /** A held request may be sent, or waits no more. */
  #holdNoMore(entry: E): void {
    entry.held = false
    this.#held.delete(entry)
    if (entry.unready) entry.level.unreadyRows -= entry.rows
    entry.unready = false
  }

  /** A request is part of a prefetched batch no more. */
  #aheadNoMore(entry: E): void {
    entry.ahead = false
    this.#ahead--
  }

  #leftBucket({ level, rows }: E): void {
    level.rows -= rows
    this.#rows -= rows
    this.#inBuckets--
  }

  #clearAlarmIfEmpty(): void {
    if (this.count === 0) this.#alarm.clear()
  }

  /** Takes a request out of its bucket, which is to be placed anew. */
  #unlink(entry: E): Bucket<E> {
    this.#leftBucket(entry)
    this.#waitsNoMore(entry)
    const bucket: Bucket<E> = entry.line!.owner
    bucket.remove(entry)
    return bucket
  }

  #waitsOn(entry: E): void {
    entry.level.waiting++
    this.#watch(entry)
  }

  /** Watches a request that has a timeout or a deadline. */
  #watch(entry: E): void {
    const atMs = expiresAtMs(entry)
    if (atMs === Infinity) return
    this.#expiries.push(entry, atMs, this.#clock.nowMs())
    this.#alarm.set(atMs)
  }

  #waitsNoMore(entry: E): void {
    entry.level.waiting--
    if (entry.expirySlot !== null) this.#expiries.remove(entry)
  }

  /** Makes a batch of the first of `entries`, which are the front of the bucket. */
  #takeFrom(
    bucket: Bucket<E>,
    entries: E[],
    { requests, reason }: BatchDecision,
    ahead: boolean,
    nowMs: number,
  ): FormedBatch<E> {
    if (entries.length > requests) entries.length = requests
    bucket.removeNext(entries)
    bucket.servedAtMs = nowMs
    this.#buckets.setPatience(this.#runTimes?.of(bucket.key).presentMs(bucket.fullRows) ?? 0)
    for (const entry of entries) {
      this.#leftBucket(entry)
      if (ahead) {
        entry.ahead = true
        this.#ahead++
      } else this.#waitsNoMore(entry)
    }
    this.#buckets.place(bucket)
    this.#clearAlarmIfEmpty()
    return { entries, takenAtMs: nowMs, reason: reason === 'idle' && this.#inBuckets > 0 ? 'bucket' : reason }
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
    if (!entry.held && ((entry.ahead && !this.#owner.revoke(entry)) || entry.line === null)) return
    const bucket = entry.held ? null : this.#unlink(entry)
    entry.timeoutAtMs = null
    entry.delayed = true
    this.#number(entry)
    if (bucket === null) return this.#watch(entry)
    this.#waitsOn(entry)
    this.#put(entry, bucket, 'last')
    this.#buckets.place(bucket) // another may be first now
  }

  #onAlarm(): void {
    this.#expire(this.#clock.nowMs())
    this.#alarm.set(this.#expiries.nextAtMs)
    if (this.count > 0) this.#owner.wake()
  }
}

// The batching policy: pure functions over plain data. They follow Triton's dynamic batcher (largest reachable
// preferred size first, delay 0 never waits, an overshooting request flushes the prefix before it) with two changes.
// A partial batch is closed only when an instance is idle, so it grows as long as no instance could have started it anyway.
// And a delay that ran out sends everything only if everything fits: with more waiting than that, which is overload,
// batches keep to the preferred sizes.

/** What a deadline loses to timers and to the way back. */
export const deadlineMarginMs = 2

/** A request as the policy reads it. */
export interface QueuedRows {
  readonly rows: number
  readonly enqueuedAtMs: number
  /** From when on it could be sent, and a batch may be kept waiting for others; `null`, or left out, for as soon as it came. */
  readonly readyAtMs?: number | null
  /** When its answer is of no use any more; `null` for never. */
  readonly deadlineAtMs: number | null
  /** When it leaves the queue if it still waits; `null`, or left out, for never. */
  readonly timeoutAtMs?: number | null
}

/** What is to happen now. */
interface BatchDecision {
  /** How many requests, counted from the head, are to leave as one batch; 0 for none yet. */
  readonly requests: number
  readonly reason: BatchReason
  /** With no requests: when the batch is to be closed although nothing arrives; `Infinity` when only an idle instance can tell. */
  readonly closeAtMs: number
}

/** A closed batch. */
interface FormedBatch<E> {
  readonly entries: E[]
  readonly takenAtMs: number
  readonly reason: BatchReason
}

/** The moment at which the policy is asked. */
export interface Moment {
  readonly nowMs: number
  /**
   * True when an instance waits for work; false when the batch would only be prefetched for a busy one, which is worth
   * it for a full batch and no other.
   */
  readonly idle: boolean
  /** How long until the instance could start the batch, 0 for an idle one. */
  readonly startsInMs: number
  /** True when nothing more will arrive. */
  readonly draining: boolean
  /** `null` when they are not known. */
  readonly runTimes: BucketRuns | null
  /** Why the front ends although more requests wait: by cost or by rows. Left out, or `null`, where it has all, or too many. */
  readonly closedBy?: BatchReason | null
}

const send = (requests: number, reason: BatchReason): BatchDecision => ({
  requests,
  reason,
  closeAtMs: Infinity,
})
const notYet = (closeAtMs: number): BatchDecision => ({ requests: 0, reason: 'idle', closeAtMs })

/**
 * Whether and how a queue is to be sent now.
 *
 * @param front the requests to be served first, in that order: all, or as many as are too much for the largest batch.
 */
export function decide(front: readonly QueuedRows[], limits: BatchLimits, moment: Moment): BatchDecision {
  if (front.length === 0) return notYet(Infinity)
  if (!limits.joinRequests) return send(1, 'full')
  const { maxQueueDelayMs } = limits
  const { nowMs, idle, draining, runTimes, closedBy = null } = moment
  const { requests, rows, isFull, isHurried, preferred, preferredReason, delayEndMs, deadlineMs } =
    largestPrefix(front, limits, moment)
  const isAll = requests === front.length
  const isClosed = isAll && closedBy !== null

  if (!idle && !isFull && !isClosed) return notYet(Infinity) // a busy instance is given a full batch or none
  const delayExceeded = maxQueueDelayMs > 0 && nowMs >= delayEndMs
  if (preferred > 0) {
    const sendsAll = idle && isAll && !isClosed && delayExceeded && preferred < requests
    return sendsAll ? send(requests, 'delay') : send(preferred, preferredReason)
  }
  if (isHurried) return send(requests, 'deadline')
  if (isClosed) return send(requests, closedBy)
  if (isFull) return send(requests, 'full')
  if (draining) return send(requests, 'drain')
  if (delayExceeded) return send(requests, 'delay')
  if (maxQueueDelayMs === 0) return send(requests, 'idle')
  const latestMs =
    runTimes === null || deadlineMs === Infinity
      ? Infinity
      : deadlineMs - runTimes.p99Ms(rows) - deadlineMarginMs
  return nowMs >= latestMs ? send(requests, 'deadline') : notYet(Math.min(delayEndMs, latestMs))
}

/** The most requests that can leave as one batch. */
function largestPrefix(
  front: readonly QueuedRows[],
  limits: BatchLimits,
  { nowMs, startsInMs, runTimes }: Moment,
) {
  const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, delayEndsAtMs } = limits
  const largestPreferred = fullBatchRows(limits)
  const startMs = nowMs + startsInMs + deadlineMarginMs

  let rows = 0
  let requests = 0
  let preferred = 0 // requests of the largest preferred size; else all before the largest preferred size is exceeded
  let preferredReason: BatchReason = 'preferred'
  let isFull = false // it cannot grow, or has reached the largest preferred size
  let isHurried = false // it cannot grow, or a deadline would be missed
  let delayEndMs = delayEndsAtMs ?? Infinity
  let deadlineMs = Infinity
  while (requests < front.length) {
    const entry = front[requests]!
    const sum = rows + entry.rows
    if (sum > maxBatchSize) {
      isFull = true
      break
    }
    const earliestMs = entry.deadlineAtMs === null ? deadlineMs : Math.min(deadlineMs, entry.deadlineAtMs)
    // By a slow run instead of the present one a queue near its deadlines would fall apart into small batches, and more would be late.
    const hasDeadline = requests > 0 && earliestMs !== Infinity && runTimes !== null
    const wouldMiss = hasDeadline && startMs + runTimes.presentMs(sum) > earliestMs
    // One that is late already loses nothing by growing.
    if (wouldMiss && startMs + runTimes.presentMs(rows) <= deadlineMs) {
      isFull = isHurried = true
      break
    }
    if (sum > largestPreferred && preferred === 0) {
      preferred = requests
      preferredReason = 'full'
    }
    rows = sum
    requests++
    if (maxQueueDelayMs > 0)
      delayEndMs = Math.min(delayEndMs, (entry.readyAtMs ?? entry.enqueuedAtMs) + maxQueueDelayMs)
    if (delayEndsAtMs !== undefined && typeof entry.timeoutAtMs === 'number')
      delayEndMs = Math.min(delayEndMs, (entry.enqueuedAtMs + entry.timeoutAtMs) / 2)
    deadlineMs = earliestMs
    if (preferredBatchSizes.includes(rows)) {
      preferred = requests
      preferredReason = rows === maxBatchSize ? 'full' : 'preferred'
    }
    if (rows >= largestPreferred) isFull = true
    if (rows === maxBatchSize) break
  }
  return { requests, rows, isFull, isHurried, preferred, preferredReason, delayEndMs, deadlineMs }
}
