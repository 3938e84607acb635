import type { WaitingRequest } from './waiting-request.ts'

/** How much waits in a queue, and at each of its levels. */
export class WaitingCounts {
  /** Requests in the buckets. */
  inBuckets = 0
  /** Their rows. */
  rows = 0
  /** Requests in batches that were handed ahead. */
  ahead = 0

  /** Requests waiting. */
  get all(): number {
    return this.inBuckets + this.ahead
  }

  /** A request comes into a bucket. */
  put({ level, rows }: WaitingRequest): void {
    level.rows += rows
    this.inBuckets++
    this.rows += rows
  }

  /** A request leaves its bucket. */
  out({ level, rows }: WaitingRequest): void {
    level.rows -= rows
    this.inBuckets--
    this.rows -= rows
  }

  /** A request that has left its bucket is part of a batch that was handed ahead. */
  handedAhead(entry: WaitingRequest): void {
    entry.ahead = true
    this.ahead++
  }

  /** It is so no more. */
  noMoreAhead(entry: WaitingRequest): void {
    entry.ahead = false
    this.ahead--
  }
}
