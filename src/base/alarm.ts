import type { Clock } from './clock.ts'

/** One timer for many times: it rings at the earliest requested time. */
export class Alarm {
  readonly #clock: Clock
  readonly #ring: () => void
  #timer: unknown = null
  #atMs = Infinity

  constructor(clock: Clock, ring: () => void) {
    this.#clock = clock
    this.#ring = ring
  }

  /** Requests a time; `Infinity` for none. */
  set(atMs: number): void {
    if (atMs >= this.#atMs) return
    this.clear()
    this.#atMs = atMs
    this.#timer = this.#clock.setTimer(this.#onTimer, Math.max(0, atMs - this.#clock.nowMs()))
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#atMs = Infinity
  }

  readonly #onTimer = (): void => {
    this.#timer = null
    this.#atMs = Infinity
    this.#ring()
  }
}
