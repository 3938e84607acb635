import type { Clock } from '../src/base/clock.ts'

interface FakeTimer {
  readonly dueMs: number
  readonly callback: () => void
}

/** More timers than this in one instant: something re-arms itself and time would stand still for ever. */
const maxTimersPerInstant = 1000

/** A clock that stands still until it is told to move; timers fire in order while it does. */
export class FakeClock implements Clock {
  readonly #timers: FakeTimer[] = [] // by due time, then by age
  #nowMs: number

  constructor(nowMs = 0) {
    this.#nowMs = nowMs
  }

  nowMs(): number {
    return this.#nowMs
  }

  /** Timers that are armed. */
  get timers(): number {
    return this.#timers.length
  }

  /** When the next timer fires; `Infinity` without one. */
  get nextMs(): number {
    return this.#timers[0]?.dueMs ?? Infinity
  }

  setTimer(callback: () => void, delayMs: number): unknown {
    if (!(delayMs >= 0 && delayMs < 2 ** 31))
      throw new RangeError(`no real timer can keep a delay of ${delayMs} ms`)
    const timer = { dueMs: this.#nowMs + delayMs, callback }
    const later = this.#timers.findIndex(({ dueMs }) => dueMs > timer.dueMs)
    this.#timers.splice(later === -1 ? this.#timers.length : later, 0, timer)
    return timer
  }

  clearTimer(timer: unknown): void {
    const index = this.#timers.indexOf(timer as FakeTimer)
    if (index !== -1) this.#timers.splice(index, 1)
  }

  advanceBy(ms: number): void {
    this.advanceTo(this.#nowMs + ms)
  }

  /** Lets time pass without a turn of the event loop: timers that fall due meanwhile are late. */
  stall(ms: number): void {
    this.#nowMs += ms
  }

  /** Moves to `nowMs` and fires every timer due by then at its own time, also those set on the way. */
  advanceTo(nowMs: number): void {
    if (!(nowMs >= this.#nowMs))
      throw new RangeError(`time only goes forward, not from ${this.#nowMs} to ${nowMs}`)
    let fired = 0
    while (this.nextMs <= nowMs) {
      const { dueMs, callback } = this.#timers.shift()!
      fired = dueMs > this.#nowMs ? 1 : fired + 1
      if (fired > maxTimersPerInstant) throw new Error(`a timer re-arms itself without end at ${dueMs} ms`)
      this.#nowMs = Math.max(this.#nowMs, dueMs)
      callback()
    }
    this.#nowMs = nowMs
  }
}
