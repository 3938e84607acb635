import type { BatchLimits, BatchReason } from '../options/batching.ts'
import type { RunTimes, SizeRunTimes } from './estimates.ts'
import type { WaitingRequest } from '../request/infer-request.ts'

/**
 * The batching policy: pure functions over plain data. They follow Triton's dynamic batcher (largest reachable
 * preferred size first, delay 0 never waits, an overshooting request flushes the prefix before it) with two changes.
 * A partial batch is closed only when an instance is idle, so it grows as long as no instance could have started it anyway.
 * And a delay that ran out sends everything only if everything fits: with more waiting than that, which is overload,
 * batches keep to the preferred sizes.
 */

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
export interface BatchDecision {
  /** How many requests, counted from the head, are to leave as one batch; 0 for none yet. */
  readonly requests: number
  readonly reason: BatchReason
  /** With no requests: when the batch is to be closed although nothing arrives; `Infinity` when only an idle instance can tell. */
  readonly closeAtMs: number
}

/** A closed batch. */
export interface FormedBatch<E> {
  readonly entries: E[]
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
  readonly runTimes: SizeRunTimes | null
  /** Why the front holds no more although more wait; left out, or `null`, where only its own end says so. */
  readonly closedBy?: BatchReason | null
}

const notYet = (closeAtMs: number): BatchDecision => ({ requests: 0, reason: 'idle', closeAtMs })

/**
 * Whether and how a queue is to be sent now.
 *
 * @param front the requests to be served first, in that order: all, or as many as are too much for the largest batch.
 */
export function decide(front: readonly QueuedRows[], limits: BatchLimits, moment: Moment): BatchDecision {
  if (front.length === 0) return notYet(Infinity)
  if (!limits.joinRequests) return { requests: 1, reason: 'full', closeAtMs: Infinity }
  const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, delayEndsAtMs } = limits
  const { nowMs, idle, draining, runTimes, closedBy = null } = moment
  const largestPreferred = fullBatchRows(limits)
  const startMs = nowMs + moment.startsInMs + deadlineMarginMs

  let rows = 0
  let requests = 0
  let preferred = 0 // requests in the largest prefix that has a preferred size, or that an overshoot flushes
  let preferredReason: BatchReason = 'preferred'
  let full = false // the prefix can't grow, or has reached the largest preferred size
  let hurried = false // it can't grow, or a deadline would be missed
  let delayEndMs = delayEndsAtMs ?? Infinity
  let deadlineMs = Infinity
  while (requests < front.length) {
    const entry = front[requests]!
    const sum = rows + entry.rows
    if (sum > maxBatchSize) {
      full = true
      break
    }
    const earliestMs = entry.deadlineAtMs === null ? deadlineMs : Math.min(deadlineMs, entry.deadlineAtMs)
    if (
      requests > 0 &&
      earliestMs !== Infinity &&
      runTimes !== null &&
      startMs + runTimes.presentMs(sum) > earliestMs
    ) {
      // A prefix that is late already loses nothing by growing. By a slow run instead of the present one a queue near its
      // deadlines would fall apart into small batches, and more would be late.
      if (startMs + runTimes.presentMs(rows) <= deadlineMs) {
        full = hurried = true
        break
      }
    }
    if (sum > largestPreferred && preferred === 0) {
      preferred = requests // flushed, unless the delay ran out
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
    if (rows >= largestPreferred) full = true
    if (rows === maxBatchSize) break
  }
  const isClosed = closedBy !== null && requests === front.length
  const everything = !isClosed && requests === front.length
  full ||= isClosed

  if (!idle && !full) return notYet(Infinity)
  const delayExceeded = maxQueueDelayMs > 0 && nowMs >= delayEndMs
  const send = (count: number, reason: BatchReason): BatchDecision => ({
    requests: count,
    reason,
    closeAtMs: Infinity,
  })
  if (preferred > 0 && preferred < requests && idle && everything && delayExceeded)
    return send(requests, 'delay')
  if (preferred > 0) return send(preferred, preferredReason)
  if (full) return send(requests, hurried ? 'deadline' : isClosed ? closedBy : 'full')
  if (draining) return send(requests, 'drain')
  if (delayExceeded) return send(requests, 'delay')
  if (maxQueueDelayMs === 0) return send(requests, 'idle')
  const latestMs =
    runTimes === null || deadlineMs === Infinity
      ? Infinity
      : deadlineMs - runTimes.p99Ms(rows) - deadlineMarginMs
  if (nowMs >= latestMs) return send(requests, 'deadline')
  return notYet(Math.min(delayEndMs, latestMs))
}

/** Rows at which a batch is dispatched, idle instance or not: the largest preferred size. */
export function fullBatchRows({
  maxBatchSize,
  preferredBatchSizes,
}: Pick<BatchLimits, 'maxBatchSize' | 'preferredBatchSizes'>): number {
  return preferredBatchSizes.at(-1) ?? maxBatchSize
}

/** Whether even a run as short as they usually are would end after the deadline of a request. */
export function isHopeless(
  { deadlineAtMs, bucketKey, rows }: WaitingRequest,
  runTimes: RunTimes | null,
  startMs: number,
): boolean {
  return deadlineAtMs !== null && startMs + (runTimes?.medianMs(bucketKey, rows) ?? 0) > deadlineAtMs
}
