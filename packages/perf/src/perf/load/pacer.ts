import type { LoadClock } from './load-clock.ts'

/** Wakes a sender when its next request is due. */
export interface Pacer {
  /** Calls back at that moment, or as soon after as can be. One at a time. */
  wakeAt(atMs: number, callback: () => void): void
  /** Calls nobody any more. */
  stop(): void
}

/** A timer of Node.js counts whole milliseconds of a clock that is read once a turn: it may be up to one late, and is set for one earlier. */
const shortestTimerMs = 2

/** Sleeps while there is time, and looks again each turn of the event loop when there is little, so that answers go on coming. */
export class TurnPacer implements Pacer {
  readonly #clock: LoadClock
  #timer: unknown = null
  #stopped = false

  constructor(clock: LoadClock) {
    this.#clock = clock
  }

  wakeAt(atMs: number, callback: () => void): void {
    if (this.#stopped) return
    const clock = this.#clock
    const leftMs = atMs - clock.nowMs()
    if (leftMs <= 0) callback()
    else if (leftMs >= shortestTimerMs)
      this.#timer = clock.setTimer(() => this.wakeAt(atMs, callback), Math.floor(leftMs) - 1)
    else clock.nextTurn(() => this.wakeAt(atMs, callback))
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
  }
}
