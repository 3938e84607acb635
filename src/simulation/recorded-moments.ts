import type { Random } from '../seeded-random.ts'
import { firstNeighbour, neighbours } from './recorded-run.ts'

/** Moments of a recording, each of which is to serve once: so that a stall which came once comes once. */
export class RecordedMoments {
  readonly #timesMs: readonly number[]
  readonly #taken: Uint8Array
  readonly #random: Random

  /** @param timesMs ascending, at least one. */
  constructor(timesMs: readonly number[], random: Random) {
    this.#timesMs = timesMs
    this.#taken = new Uint8Array(timesMs.length)
    this.#random = random
  }

  /** The nearest about a time that was not taken; any of them, `again`, when all were: then a stall is none. */
  take(atMs: number): { readonly index: number; readonly again: boolean } {
    const count = this.#timesMs.length
    const from = firstNeighbour(this.#indexAt(atMs), count)
    const until = Math.min(count, from + neighbours)
    let nearest = -1
    for (let index = from; index < until; index++) {
      if (this.#taken[index] === 1) continue
      if (nearest === -1 || Math.abs(this.#timesMs[index]! - atMs) < Math.abs(this.#timesMs[nearest]! - atMs)) nearest = index
    }
    if (nearest === -1) return { index: from + Math.floor(this.#random() * (until - from)), again: true }
    this.#taken[nearest] = 1
    return { index: nearest, again: false }
  }

  /** The first at or after a time. */
  #indexAt(atMs: number): number {
    let [low, high] = [0, this.#timesMs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#timesMs[middle]! < atMs) low = middle + 1
      else high = middle
    }
    return low
  }
}
