import type { Clock } from '../base/clock.ts'
import { LatencyHistogram, type LatencyDistribution } from './latency-histogram.ts'

/** Delays of the application's thread, in milliseconds. */
export interface EventLoopDelayStatistics extends LatencyDistribution {
  /** Of all that were looked at. */
  readonly sumMs: number
}

/** How often it is looked, in milliseconds. */
const intervalMs = 20

/**
 * By how much timers of the application's thread are late, while an engine has something in flight. A timer of its own asks 50 times a
 * second, and is set for as long as there is anything to do: an idle engine has none. What came while the thread stood still is counted for
 * all the times at which nobody asked: a stall weighs as much as it lasts.
 */
export class EventLoopDelay {
  readonly #clock: Clock
  readonly #busy: { readonly held: boolean }
  #delays: LatencyHistogram | null = null
  #sumMs = 0
  #set = false
  #dueMs = 0

  /** @param busy whether anything is in flight. */
  constructor(clock: Clock, busy: { readonly held: boolean }) {
    this.#clock = clock
    this.#busy = busy
  }

  /** Something is in flight from now on. */
  readonly begin = (): void => {
    if (!this.#set) this.#ask()
  }

  /** All 0 before anything was in flight for long enough. */
  get statistics(): EventLoopDelayStatistics {
    return { ...(this.#delays ?? new LatencyHistogram()).distribution(), sumMs: this.#sumMs }
  }

  #ask(): void {
    this.#set = true
    this.#dueMs = this.#clock.nowMs() + intervalMs
    this.#clock.setTimer(this.#answered, intervalMs)
  }

  readonly #answered = (): void => {
    const lateMs = Math.max(0, this.#clock.nowMs() - this.#dueMs)
    this.#note(lateMs)
    for (let leftMs = lateMs - intervalMs; leftMs > 0; leftMs -= intervalMs) this.#note(leftMs)
    this.#set = false
    if (this.#busy.held) this.#ask()
  }

  #note(lateMs: number): void {
    this.#delays ??= new LatencyHistogram()
    this.#delays.record(lateMs)
    this.#sumMs += lateMs
  }
}
