import type { Clock } from 'zerohop/internals'
import { Fifo } from './fifo.ts'

/** The thread that takes requests in, gathers, scatters and answers: what it does for one keeps the others waiting. */
export class ApplicationThread {
  readonly #clock: Clock
  readonly #waiting = new Fifo<() => void>()
  #freeAtMs = 0
  #alarmed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Does something as soon as what came before is done; at once when nothing is. */
  whenFree(action: () => void): void {
    if (this.#waiting.size === 0 && !this.#alarmed && this.#freeAtMs <= this.#clock.nowMs()) return action()
    this.#waiting.push(action)
    this.#setAlarm()
  }

  /** What is done now takes so long; returns when it will be done. */
  spend(ms: number): number {
    return (this.#freeAtMs = Math.max(this.#freeAtMs, this.#clock.nowMs()) + ms)
  }

  #setAlarm(): void {
    if (this.#alarmed) return
    this.#alarmed = true
    this.#clock.setTimer(this.#onFree, Math.max(0, this.#freeAtMs - this.#clock.nowMs()))
  }

  readonly #onFree = (): void => {
    this.#alarmed = false
    while (this.#waiting.size > 0) {
      if (this.#freeAtMs > this.#clock.nowMs()) return this.#setAlarm()
      this.#waiting.shift()!()
    }
  }
}
