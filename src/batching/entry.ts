import type { ExpirySlot } from './expiries.ts'
import type { QueueLevel } from './queue-level.ts'
import type { Rank } from './rank.ts'

/**
 * Why a request left the queue without reaching a batch: its timeout ran out, its deadline can no longer be met, its
 * caller withdrew it, or the queue was closed.
 */
export type QueueExit = 'timeout' | 'deadline' | 'cancelled' | 'closed'

/**
 * A request as the scheduler sees it: plain data plus its place in the queue it waits in, which it knows itself so that
 * leaving the queue costs no search and no allocation.
 */
export class QueueEntry {
  /** Rows this request adds to a batch: 1 or more (0 only for requests that ask for an empty run). */
  readonly rows: number
  /** Where it waits; `null` before and after. */
  rank: Rank<any> | null = null
  /** Its place there; kept by the rank. */
  position = 0
  // Not Infinity: an object of its own would be made to hold that number, for each request.
  /** When its answer is of no use any more; `null` for never. */
  deadlineAtMs: number | null = null
  readonly level: QueueLevel
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
