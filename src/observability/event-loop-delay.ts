import type { Clock } from '../clock.ts'
import { LatencyHistogram, type LatencyDistribution } from './latency-histogram.ts'

/** How often it is looked, in milliseconds. */
const intervalMs = 20

/**
 * By how much timers of the application's thread are late, while an engine has something in flight. A timer of its own asks 50 times a
 * second, and is set for as long as there is anything to do: an idle engine has none. What came while the thread stood still is counted for
 * all the times at which nobody asked: a stall weighs as much as it lasts.
 */
export class EventLoopDelay {
  readonly #clock: Clock
  readonly #isBusy: () => boolean
  #delays: LatencyHistogram | null = null
  #set = false
  #dueMs = 0

  /** @param isBusy whether anything is in flight. */
  constructor(clock: Clock, isBusy: () => boolean) {
    this.#clock = clock
    this.#isBusy = isBusy
  }

  /** Something is in flight from now on. */
  begin(): void {
    if (!this.#set) this.#ask()
  }

  /** All 0 before anything was in flight for long enough. */
  get distribution(): LatencyDistribution {
    return (this.#delays ?? new LatencyHistogram()).distribution()
  }

  #ask(): void {
    this.#set = true
    this.#dueMs = this.#clock.nowMs() + intervalMs
    this.#clock.setTimer(this.#answered, intervalMs)
  }

  readonly #answered = (): void => {
    const lateMs = Math.max(0, this.#clock.nowMs() - this.#dueMs)
    this.#delays ??= new LatencyHistogram()
    this.#delays.record(lateMs)
    for (let leftMs = lateMs - intervalMs; leftMs > 0; leftMs -= intervalMs) this.#delays.record(leftMs)
    this.#set = false
    if (this.#isBusy()) this.#ask()
  }
}
