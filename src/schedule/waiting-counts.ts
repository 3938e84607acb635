import type { WaitingRequest } from '../request/infer-request.ts'

/** How much waits in a queue, and at each of its levels. */
export class WaitingCounts<E extends WaitingRequest> {
  /** Requests in the buckets. */
  inBuckets = 0
  /** Their rows. */
  rows = 0
  /** Requests in batches that were handed ahead. */
  ahead = 0
  /** Requests that may not be sent yet: they are in no bucket. */
  readonly held = new Set<E>()

  /** Requests waiting. */
  get all(): number {
    return this.inBuckets + this.ahead + this.held.size
  }

  /** A request may not be sent yet. */
  hold(entry: E): void {
    entry.held = true
    this.held.add(entry)
    if (entry.unready) entry.level.unreadyRows += entry.rows
  }

  /** It may be now, or waits no more. */
  holdNoMore(entry: E): void {
    entry.held = false
    this.held.delete(entry)
    if (entry.unready) entry.level.unreadyRows -= entry.rows
    entry.unready = false
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
