import type { Clock } from '../base/clock.ts'

/** For how long one call may follow the other before the event loop has its turn, in milliseconds. */
const stretchMs = 0.5
const resolved = Promise.resolve()

/**
 * Tells calls that follow from an answer, before the event loop goes on, from those that the event loop brings. The first are
 * complete when their promises have run; of the others more may come in the same turn, one callback after the other.
 */
export class FollowUps {
  readonly #clock: Clock
  #open = false
  #sinceMs = 0
  #looks = 0
  #awaited = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Answers have been given at `nowMs`: what is called from now until all promises have run follows from them. */
  answered(nowMs: number): void {
    if (!this.#open) this.#sinceMs = nowMs
    this.#open = true
    this.#looks++
    void resolved.then(this.#afterPromises)
  }

  /** Has `send` called when no more is to be expected soon: after the promises that run now, or at the end of this turn of the event loop. */
  whenComplete(send: () => void): void {
    if (this.#open && this.#clock.nowMs() - this.#sinceMs < stretchMs) {
      this.#awaited++
      process.nextTick(this.#send, send)
    } else setImmediate(send)
  }

  readonly #send = (send: () => void): void => {
    this.#awaited--
    send()
  }

  // All promises that can run have run before the next tick.
  readonly #afterPromises = (): void => process.nextTick(this.#look)

  readonly #look = (): void => {
    if (--this.#looks > 0) return // there were answers since
    if (this.#awaited === 0) this.#open = false
    else {
      this.#looks++
      process.nextTick(this.#look) // what is about to be sent may be answered at once
    }
  }
}
