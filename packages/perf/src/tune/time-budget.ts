import type { Clock } from 'zerohop/internals'

/** No timer is longer. */
export const longestTimerMs = 2 ** 31 - 1

/** The time that everything together may take. */
export class TimeBudget {
  readonly #clock: Clock
  readonly #fromMs: number
  readonly totalMs: number

  /** @param fromMs since when it runs, by that clock. */
  constructor(clock: Clock, totalMs: number, fromMs = clock.nowMs()) {
    this.#clock = clock
    this.#fromMs = fromMs
    this.totalMs = totalMs
  }

  /** What has gone by, also beyond the end. */
  get spentMs(): number {
    return this.#clock.nowMs() - this.#fromMs
  }

  /** Not below 0. */
  get leftMs(): number {
    return Math.max(0, this.totalMs - this.spentMs)
  }

  /** Aborts when it is over, by the clock of the system. */
  overSignal(): AbortSignal {
    return AbortSignal.timeout(Math.min(longestTimerMs, Math.ceil(this.leftMs)))
  }

  /** Part of what is left, as a budget of its own. */
  part(share: number): TimeBudget {
    return new TimeBudget(this.#clock, this.leftMs * share)
  }
}
