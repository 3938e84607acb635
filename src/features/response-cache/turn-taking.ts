import type { Clock } from '../../base/clock.ts'

/** For how long answers that need no run may follow each other before the event loop has its turn, in milliseconds. */
const stretchMs = 0.5

/**
 * Gives way to the event loop now and then: a chain of calls that are all answered from the cache, each made when the one before
 * is answered, would never let it go on, and nothing else in the process would happen.
 */
export class TurnTaking {
  readonly #clock: Clock
  #open = false
  #sinceMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `answer` now, or when the event loop has had its turn. */
  take(answer: () => void): void {
    const nowMs = this.#clock.nowMs()
    if (!this.#open) {
      this.#open = true
      this.#sinceMs = nowMs
      setImmediate(this.#nextTurn)
    }
    if (nowMs - this.#sinceMs < stretchMs) answer()
    else setImmediate(answer)
  }

  readonly #nextTurn = (): void => {
    this.#open = false
  }
}
