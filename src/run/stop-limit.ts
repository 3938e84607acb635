import type { Clock } from '../base/clock.ts'

/** How long what was told to stop may take to do so. One operator of a large model takes some tenths of it. */
const limitMs = 1000

/** The run of a slot, or a task by its owner. */
export type Stoppable = number | object

/** Waits for something to end that was told to stop, such as a run: it does so at its next operator, and one operator may take for ever. */
export class StopLimit {
  readonly #clock: Clock
  readonly #exceeded: (what: Stoppable) => void
  #told: Stoppable | null = null
  #timer: unknown = null

  constructor(clock: Clock, exceeded: (what: Stoppable) => void) {
    this.#clock = clock
    this.#exceeded = exceeded
  }

  /** Something was told to stop. */
  told(what: Stoppable): void {
    if (what === this.#told) return
    this.clear()
    this.#told = what
    this.#timer = this.#clock.setTimer(() => {
      this.clear()
      this.#exceeded(what)
    }, limitMs)
  }

  /** It has ended. */
  ended(what: Stoppable): void {
    if (what === this.#told) this.clear()
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#told = null
  }
}
