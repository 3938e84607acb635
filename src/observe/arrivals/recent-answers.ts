const resolved = Promise.resolve()

/** Answers after which the event loop has not gone on: what is called now, follows from them. */
export class RecentAnswers {
  /** When they were given, those that nothing has followed from; ascending. */
  #givenMs: number[] = []
  #looks = 0

  given(nowMs: number): void {
    this.#givenMs.push(nowMs)
    this.#looks++
    void resolved.then(this.#afterPromises)
  }

  /** How long ago the answer was given, in microseconds, from which a call follows that is made now; `null` for none. */
  followedUs(nowMs: number): number | null {
    const givenMs = this.#givenMs.shift()
    return givenMs === undefined ? null : Math.max(0, Math.round((nowMs - givenMs) * 10_000) / 10)
  }

  // All promises that can run have run before the next tick.
  readonly #afterPromises = (): void => process.nextTick(this.#look)

  readonly #look = (): void => {
    if (--this.#looks === 0) this.#givenMs = []
  }
}
