import type { Random } from 'zerohop/internals'
import { firstNeighbour, neighbours } from './recorded-run.ts'

/** What was seen at some requests of a recording, each of which is to serve once: so that a stall which came once comes once. */
export class RecordedMoments {
  readonly #requests: readonly number[]
  readonly #taken: Uint8Array
  readonly #random: Random
  /** Requests after which the recording is gone through again, and how often it was. */
  readonly #length: number
  #rounds = 0

  /**
   * @param requests their numbers, ascending, at least one.
   * @param length of the recording, in requests.
   */
  constructor(requests: readonly number[], length: number, random: Random) {
    this.#requests = requests
    this.#taken = new Uint8Array(requests.length)
    this.#random = random
    this.#length = length
  }

  /** The nearest about a request that was not taken; any of them, `again`, when all were: then a stall is none. */
  take(request: number): { readonly index: number; readonly again: boolean } {
    const rounds = Math.floor(request / this.#length)
    if (rounds > this.#rounds) this.#taken.fill(0)
    this.#rounds = Math.max(rounds, this.#rounds)
    const wanted = request % this.#length
    const count = this.#requests.length
    const from = firstNeighbour(this.#indexOf(wanted), count)
    const until = Math.min(count, from + neighbours)
    let nearest = -1
    for (let index = from; index < until; index++) {
      if (this.#taken[index] === 1) continue
      if (
        nearest === -1 ||
        Math.abs(this.#requests[index]! - wanted) < Math.abs(this.#requests[nearest]! - wanted)
      )
        nearest = index
    }
    if (nearest === -1) return { index: from + Math.floor(this.#random() * (until - from)), again: true }
    this.#taken[nearest] = 1
    return { index: nearest, again: false }
  }

  /** The first at or after a request. */
  #indexOf(request: number): number {
    let [low, high] = [0, this.#requests.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#requests[middle]! < request) low = middle + 1
      else high = middle
    }
    return low
  }
}
