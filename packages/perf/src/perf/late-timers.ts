import type { LoadClock } from './load/load-clock.ts'
import { DurationHistogram } from './load/duration-histogram.ts'

/** Every wake of this thread takes a core from a run that has all of them: at 5 ms SqueezeNet's throughput was 2 % less. */
const intervalMs = 20

/**
 * How late timers of 20 ms are. One that is 100 ms late stands for the five that could not even be set meanwhile: each counts
 * with the delay that it would have had, or one long stall would be lost among many good looks.
 */
export class LateTimers {
  readonly #clock: LoadClock
  #delays = new DurationHistogram()
  #dueMs = 0
  #timer: unknown = null

  constructor(clock: LoadClock) {
    this.#clock = clock
  }

  start(): void {
    this.#dueMs = this.#clock.nowMs() + intervalMs
    this.#timer = this.#clock.setTimer(this.#look, intervalMs)
  }

  /** What was seen since the last time. */
  take(): DurationHistogram {
    const delays = this.#delays
    this.#delays = new DurationHistogram()
    return delays
  }

  stop(): void {
    this.#clock.clearTimer(this.#timer)
  }

  readonly #look = (): void => {
    let delayMs = Math.max(0, this.#clock.nowMs() - this.#dueMs)
    for (; delayMs > intervalMs; delayMs -= intervalMs) this.#delays.record(delayMs * 1000)
    this.#delays.record(delayMs * 1000)
    this.start()
  }
}
