import { untilAborted } from '../../request/abort-watch.ts'

/** Lets work with equal keys be done one after the other, and no more than `most` at the same time. */
export class Turns {
  readonly #most: number
  readonly #busy = new Map<string, Promise<unknown>>()

  constructor(most: number) {
    this.#most = most
  }

  /** Does `work` when it may be done; rejects with the signal's reason when that fires before. */
  async take<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      const before =
        this.#busy.get(key) ?? (this.#busy.size < this.#most ? undefined : Promise.race(this.#busy.values()))
      if (before === undefined) break
      await untilAborted(before, signal)
    }
    signal.throwIfAborted()
    const working = work()
    this.#busy.set(
      key,
      working.catch(() => {}),
    )
    try {
      return await working
    } finally {
      this.#busy.delete(key)
    }
  }
}
