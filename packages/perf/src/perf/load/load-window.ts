import { DurationHistogram } from './duration-histogram.ts'

/** A request that is sent later than this after it was meant to be is delayed. */
export const delayedAfterUs = 1000

/** The requests that ended between two moments. */
export class LoadWindow {
  startMs: number
  endMs: number
  /** Answered requests, and their rows. */
  requestCount = 0
  inferenceCount = 0
  /** Of answered requests, from when they were meant to be sent. */
  readonly latency = new DurationHistogram()
  /** How late requests were sent, where that was meant to be at some moment. */
  readonly sendLag = new DurationHistogram()
  delayedCount = 0
  /** Requests that were sent. */
  sentCount = 0
  /** By the codes of their errors. */
  readonly failures: Record<string, number> = {}

  constructor(startMs: number) {
    this.startMs = startMs
    this.endMs = startMs
  }

  get seconds(): number {
    return (this.endMs - this.startMs) / 1000
  }

  get failureCount(): number {
    return Object.values(this.failures).reduce((sum, count) => sum + count, 0)
  }

  /** Counts what another has seen as well; it goes on as long as both together. */
  add(other: LoadWindow): void {
    this.endMs += other.endMs - other.startMs
    this.requestCount += other.requestCount
    this.inferenceCount += other.inferenceCount
    this.latency.add(other.latency)
    this.sendLag.add(other.sendLag)
    this.delayedCount += other.delayedCount
    this.sentCount += other.sentCount
    for (const [code, count] of Object.entries(other.failures))
      this.failures[code] = (this.failures[code] ?? 0) + count
  }
}
