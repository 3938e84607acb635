import type { Arrival } from './arrival.ts'

/** A request that has come, and may be on its way still. */
export interface OpenArrival {
  readonly arrival: Arrival
  /** Since it came; `null` while it is on its way, and of one that was not answered. */
  latencyUs: number | null
  settled: boolean
}

/** So many requests may be on their way until the oldest is written without its latency. */
const mostOpen = 1 << 16

/** Puts requests, which are answered in any order, in the order in which they came. */
export class ArrivalOrder {
  readonly #write: (arrival: Arrival) => void
  #open: OpenArrival[] = []
  #head = 0

  /** @param write takes the requests, each once its latency is known or it is to be known no more. */
  constructor(write: (arrival: Arrival) => void) {
    this.#write = write
  }

  came(arrival: Arrival): OpenArrival {
    const open = { arrival, latencyUs: null, settled: false }
    this.#open.push(open)
    if (this.#open.length - this.#head > mostOpen) this.#writeOldest()
    return open
  }

  /** @param latencyUs `null` for a request that was not answered. */
  ended(open: OpenArrival, latencyUs: number | null): void {
    open.latencyUs = latencyUs
    open.settled = true
    while (this.#head < this.#open.length && this.#open[this.#head]!.settled) this.#writeOldest()
  }

  /** Writes all there are, those without their latency that are on their way. */
  end(): void {
    while (this.#head < this.#open.length) this.#writeOldest()
  }

  #writeOldest(): void {
    const { arrival, latencyUs } = this.#open[this.#head++]!
    this.#write(latencyUs === null ? arrival : { ...arrival, latencyUs })
    if (this.#head < 1024 || this.#head * 2 < this.#open.length) return
    this.#open = this.#open.slice(this.#head)
    this.#head = 0
  }
}
