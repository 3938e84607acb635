import type { Bucket } from './bucket.ts'
import type { ExpirySlot } from './expiries.ts'
import type { QueueLevel } from './queue-level.ts'

/**
 * Why a request left the queue without reaching a batch: its timeout ran out, its deadline can no longer be met, its
 * caller withdrew it, or the queue was closed.
 */
export type QueueExit = 'timeout' | 'deadline' | 'cancelled' | 'closed'

/**
 * A request as the scheduler sees it: plain data plus the links of the queue it waits in. The links live in the
 * request itself so that leaving the queue costs no search and no allocation.
 */
export class QueueEntry {
  // First what closing a batch reads of every request: with many waiting, each is fetched from far memory.
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  next: this | null = null
  // Not Infinity: an object of its own would be made to hold that number, for each request.
  /** When its answer is of no use any more; `null` for never. */
  deadlineAtMs: number | null = null
  readonly level: QueueLevel
  /** The bucket it waits in; `null` before and after. */
  bucket: Bucket<any> | null = null
  previous: this | null = null
  /** Where it is watched for its expiry; `null` when it is not. */
  expirySlot: ExpirySlot | null = null
  expiryIndex = 0
  /** Whether its timeout ran out under the action `DELAY`: it waits behind all others of its level. */
  delayed = false
  enqueuedAtMs = 0
  /** When the request gives up waiting; `null` for never. */
  timeoutAtMs: number | null = null
  /** Requests batch together only when their keys are equal; '' when all shapes are fixed. */
  readonly bucketKey: string

  constructor(rows: number, bucketKey: string, level: QueueLevel) {
    this.rows = rows
    this.bucketKey = bucketKey
    this.level = level
  }
}

/** Whether `a` is served before `b` whenever both wait: by level, and within a level those not delayed first. */
export function ranksBefore(a: QueueEntry, b: QueueEntry): boolean {
  return a.level.level === b.level.level ? !a.delayed && b.delayed : a.level.level < b.level.level
}

/** Whether the two are served in the order in which they came. */
export function ranksEqual(a: QueueEntry, b: QueueEntry): boolean {
  return a.level.level === b.level.level && a.delayed === b.delayed
}
