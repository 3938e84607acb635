import type { Clock } from '../clock.ts'
import type { InlineOptions } from '../config/engine-options.ts'
import type { BatchSource } from './batch-source.ts'

/** What the thread may run at a stretch, in milliseconds: others wait for so long at most. */
const stretchMs = 0.5

/**
 * A run that takes longer, though it was reckoned to be short, may say that its model's runs take any time, or that the system gave
 * the thread's core to others meanwhile: none is run here for a hundred times as long as it took. A second one settles it: none for
 * a minute, or a thousand times as long.
 */
const surprisingMs = 10
const firstHeldTimes = 100
const leastHeldMs = 60_000
const heldTimes = 1000

/**
 * Decides which batches the application's thread runs itself, because a run there takes less than to hand it over. An account
 * that fills with time, by the share of it that is allowed, and that runs are charged to.
 */
export class InlineBudget<Source extends object = BatchSource> {
  readonly #clock: Clock
  readonly #maxMs: number
  readonly #loopShare: number
  #creditMs = stretchMs
  #atMs: number
  /** Until when nothing of a source is run here: one of its runs took surprisingly long. */
  readonly #heldUntilMs = new WeakMap<Source, number>()

  constructor(clock: Clock, { maxUs, loopShare }: Required<InlineOptions>) {
    this.#clock = clock
    this.#maxMs = maxUs / 1000
    this.#loopShare = loopShare
    this.#atMs = clock.nowMs()
  }

  /** @param runMs what the run is reckoned to take; 0 when nobody knows. */
  allows(runMs: number, source: Source): boolean {
    if (runMs === 0 || runMs > this.#maxMs) return false
    const nowMs = this.#clock.nowMs()
    if (nowMs < (this.#heldUntilMs.get(source) ?? 0)) return false
    this.#creditMs = Math.min(stretchMs, this.#creditMs + (nowMs - this.#atMs) * this.#loopShare)
    this.#atMs = nowMs
    return this.#creditMs > 0
  }

  /** Charges a run that was allowed. */
  spent(tookMs: number, source: Source): void {
    this.#creditMs -= tookMs
    if (tookMs <= surprisingMs) return
    const heldMs = this.#heldUntilMs.has(source) ? Math.max(leastHeldMs, heldTimes * tookMs) : firstHeldTimes * tookMs
    this.#heldUntilMs.set(source, this.#clock.nowMs() + heldMs)
  }
}
