import { VirtualClock } from '../../../src/simulation/virtual-clock.ts'
import type { LoadClock } from '../../../src/perf/load/load.ts'
import type { Pacer } from '../../../src/perf/load/open-loop.ts'

/** Virtual time for generators of load: it jumps from one event to the next, once nothing more can be done at this one. */
export class VirtualLoadClock extends VirtualClock implements LoadClock, Pacer {
  nextTurn(callback: () => void): void {
    this.setTimer(callback, 0)
  }

  wakeAt(atMs: number, callback: () => void): void {
    this.setTimer(callback, atMs - this.nowMs())
  }

  stop(): void {}

  /** Lets time go on until the promise settles. */
  async runUntil<T>(promise: Promise<T>): Promise<T> {
    let settled = false
    const end = () => (settled = true)
    promise.then(end, end)
    for (;;) {
      // What a timer's promises lead to is done before the next; chains of them are shorter than this.
      for (let step = 0; step < 8 && !settled; step++) await Promise.resolve()
      if (settled) return promise
      if (this.nextMs === Infinity) throw new Error('nothing is left that could settle it')
      this.fireNext()
    }
  }
}

/** One server that takes so long for a batch, whatever its size up to the largest; requests wait their turn. */
export class KnownService {
  readonly #clock: VirtualLoadClock
  readonly #serviceMs: number
  readonly #maxBatchSize: number
  #waiting: (() => void)[] = []
  #busy = false

  constructor(clock: VirtualLoadClock, serviceMs: number, maxBatchSize = 1) {
    this.#clock = clock
    this.#serviceMs = serviceMs
    this.#maxBatchSize = maxBatchSize
  }

  readonly send = (): Promise<void> =>
    new Promise((resolve) => {
      this.#waiting.push(resolve)
      if (!this.#busy) this.#serve()
    })

  #serve(): void {
    this.#busy = true
    const batch = this.#waiting.splice(0, this.#maxBatchSize)
    this.#clock.setTimer(() => {
      for (const resolve of batch) resolve()
      this.#busy = false
      if (this.#waiting.length > 0) this.#serve()
    }, this.#serviceMs)
  }
}

/**
 * The arrivals a second at which one server of fixed service time (M/D/1) answers a share of requests within a bound: where
 * the tail of waiting, `C exp(-a t)` (Cramér and Lundberg's), meets it.
 */
export function peakOfFixedService(serviceMs: number, boundMs: number, percentile: number): number {
  const over = (load: number) => {
    // The decay, in units of the service time: the root above 0 of load * (e^a - 1) = a.
    let [low, high] = [1e-9, 50]
    for (let step = 0; step < 200; step++) {
      const middle = (low + high) / 2
      if (load * Math.expm1(middle) > middle) high = middle
      else low = middle
    }
    return ((1 - load) / (load * Math.exp(low) - 1)) * Math.exp((-low * (boundMs - serviceMs)) / serviceMs)
  }
  let [low, high] = [0.01, 0.9999]
  for (let step = 0; step < 100; step++) {
    const middle = (low + high) / 2
    if (over(middle) > 1 - percentile) high = middle
    else low = middle
  }
  return (1000 * low) / serviceMs
}
