import type { Clock } from '../base/clock.ts'
import type { InstanceStatistics } from '../observe/instance-statistics.ts'

/** What an instance has been used for, since it began to serve. */
export class InstanceUse {
  readonly #clock: Clock
  readonly #sinceMs: number
  #ranMs = 0
  #runs = 0
  #rows = 0
  /** When it was last given something, or was done with it. */
  usedAtMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = this.usedAtMs = clock.nowMs()
  }

  /** A run has ended, with results for so many rows. */
  ran(startMs: number, endMs: number, rows: number): void {
    this.usedAtMs = endMs
    this.#ranMs += endMs - startMs
    this.#runs++
    this.#rows += rows
  }

  /** A run has ended without results. */
  failed(tookMs: number): void {
    this.#ranMs += tookMs
    this.#runs++
  }

  /** For how long it has been busy so far, in milliseconds; `busy` while it has something to do. */
  busyMs(busy: boolean): number {
    return this.#ranMs + (busy ? this.#clock.nowMs() - this.usedAtMs : 0)
  }

  statistics(name: string, worker: string): InstanceStatistics {
    const busyMs = this.#ranMs
    const servingMs = this.#clock.nowMs() - this.#sinceMs
    return {
      name,
      worker,
      runs: this.#runs,
      rows: this.#rows,
      busyMs,
      servingMs,
      busyShare: Math.min(1, busyMs / Math.max(servingMs, 1e-3)),
    }
  }
}
