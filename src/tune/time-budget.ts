import type { Clock } from '../clock.ts'

/** The time that everything together may take. */
export class TimeBudget {
  readonly #clock: Clock
  readonly #endMs: number
  readonly totalMs: number

  constructor(clock: Clock, totalMs: number) {
    this.#clock = clock
    this.totalMs = totalMs
    this.#endMs = clock.nowMs() + totalMs
  }

  /** Not below 0. */
  get leftMs(): number {
    return Math.max(0, this.#endMs - this.#clock.nowMs())
  }

  /** Part of what is left, as a budget of its own. */
  part(share: number): TimeBudget {
    return new TimeBudget(this.#clock, this.leftMs * share)
  }
}
