import type { Arrival, ArrivalRun } from './arrival.ts'

/** What becomes of a request. */
interface ArrivalEnd {
  latencyUs?: number
  decodedUs?: number
  cancelledUs?: number
  shared?: true
  runs?: ArrivalRun[]
}

/** A request that has come, and may be on its way still. */
export interface OpenArrival {
  readonly arrival: Arrival
  settled: boolean
  /** As much of it as is known. */
  readonly end: ArrivalEnd
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
    const open = { arrival, settled: false, end: {} }
    this.#open.push(open)
    if (this.#open.length - this.#head > mostOpen) this.#writeOldest()
    return open
  }

  /** @param latencyUs `null` for a request that was not answered. */
  ended(open: OpenArrival, latencyUs: number | null): void {
    if (latencyUs !== null) open.end.latencyUs = latencyUs
    open.settled = true
    while (this.#head < this.#open.length && this.#open[this.#head]!.settled) this.#writeOldest()
  }

  /** Writes all there are, those without their latency that are on their way. */
  end(): void {
    while (this.#head < this.#open.length) this.#writeOldest()
  }

  #writeOldest(): void {
    const { arrival, end } = this.#open[this.#head++]!
    this.#write({ ...arrival, ...end })
    if (this.#head < 1024 || this.#head * 2 < this.#open.length) return
    this.#open = this.#open.slice(this.#head)
    this.#head = 0
  }
}
