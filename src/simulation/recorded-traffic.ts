import type { Arrival } from '../arrivals/arrival.ts'
import type { Coming, Traffic } from './traffic.ts'

/** Requests as they were recorded, at any speed; all of them for one model. */
export class RecordedTraffic implements Traffic {
  readonly count: number
  readonly #arrivals: readonly Arrival[]
  readonly #speed: number
  #next = 0

  /** @param arrivals in the order of `atUs`. */
  constructor(arrivals: readonly Arrival[], speed: number) {
    this.count = arrivals.length
    this.#arrivals = arrivals
    this.#speed = speed
  }

  get nextMs(): number {
    const next = this.#arrivals[this.#next]
    return next === undefined ? Infinity : next.atUs / 1000 / this.#speed
  }

  take(): Coming {
    const arrival = this.#arrivals[this.#next++]!
    const { rows, priority, timeoutMs, deadlineMs } = arrival
    return { model: 0, rows, bucketKey: bucketOf(arrival), priority, timeoutMs, deadlineMs }
  }

  ended(): void {}
}

/** Which requests may share a batch: those whose dims are equal but for the rows. */
export function bucketOf({ dims, rows }: Pick<Arrival, 'dims' | 'rows'>): string {
  if (dims === undefined) return ''
  const ofRow = Object.entries(dims).map(([name, of]) => [name, of[0] === rows ? of.slice(1) : of] as const)
  return JSON.stringify(ofRow.sort(([a], [b]) => (a < b ? -1 : 1)))
}
