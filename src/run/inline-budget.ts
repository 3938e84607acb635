import type { Clock } from '../base/clock.ts'
import type { InlineOptions } from '../options/engine-options.ts'

/** What the thread may run at a stretch, in milliseconds: others wait for so long at most. */
const stretchMs = 0.5

/**
 * A run that computes for longer, though it was estimated to be short, says that its model's runs may take any time: none is run here
 * for a hundred times as long as it took. A second one settles it: none for a minute, or a thousand times as long. One that
 * only took longer, as the system gave the thread's core to others meanwhile, says nothing: on a busy machine that is every day.
 */
const surprisingMs = 10
const firstHeldTimes = 100
const leastHeldMs = 60_000
const heldTimes = 1000
/** Of the longest run, what is run here while others wait: the thread could prepare those meanwhile. */
const shareWithOthers = 0.5
/** How old the reading may be from which CPU time is counted; a reading takes a call of the system. */
const readingMs = 5

/**
 * Decides which batches the application's thread runs itself, because a run there takes less than to hand it over. An account
 * that fills with time, by the share of it that is allowed, and that runs are charged to.
 */
export class InlineBudget<Source extends object = object> {
  readonly #clock: Clock
  readonly #maxMs: number
  readonly #loopShare: number
  readonly #cpuMs: () => number
  #creditMs = stretchMs
  #atMs: number
  readonly #onNextTurn: (then: () => void) => void
  /** What was run here since the event loop had its turn. */
  #stretchMs = 0
  #awaitsTurn = false
  #readAtMs = 0
  #readCpuMs = 0
  /** Until when nothing of a source is run here: one of its runs took surprisingly long. */
  readonly #heldUntilMs = new WeakMap<Source, number>()

  /**
   * @param cpuMs what this thread has computed so far; left out where it does nothing else.
   * @param onNextTurn calls back when the event loop has its turn; left out where nothing holds that up.
   */
  constructor(
    clock: Clock,
    { maxUs, loopShare }: Required<InlineOptions>,
    cpuMs = () => clock.nowMs(),
    onNextTurn = (then: () => void) => then(),
  ) {
    this.#clock = clock
    this.#maxMs = maxUs / 1000
    this.#loopShare = loopShare
    this.#cpuMs = cpuMs
    this.#onNextTurn = onNextTurn
    this.#atMs = clock.nowMs()
    this.#read(this.#atMs)
  }

  /**
   * @param runMs the estimate of the run; 0 when unknown.
   * @param moreWaits whether this thread has others to see to meanwhile, were the run handed over.
   */
  allows(runMs: number, source: Source, moreWaits = false): boolean {
    if (runMs === 0 || runMs > (moreWaits ? this.#maxMs * shareWithOthers : this.#maxMs)) return false
    const nowMs = this.#clock.nowMs()
    if (nowMs < (this.#heldUntilMs.get(source) ?? 0)) return false
    this.#creditMs = Math.min(stretchMs, this.#creditMs + (nowMs - this.#atMs) * this.#loopShare)
    this.#atMs = nowMs
    if (this.#creditMs <= 0 || this.#stretchMs >= stretchMs) return false
    if (nowMs - this.#readAtMs > readingMs) this.#read(nowMs)
    return true
  }

  /** Charges a run that was allowed. */
  spent(tookMs: number, source: Source): void {
    this.#creditMs -= tookMs
    this.#stretches(tookMs)
    if (tookMs <= surprisingMs || this.#computedMs(tookMs) <= surprisingMs) return
    const heldMs = this.#heldUntilMs.has(source)
      ? Math.max(leastHeldMs, heldTimes * tookMs)
      : firstHeldTimes * tookMs
    this.#heldUntilMs.set(source, this.#clock.nowMs() + heldMs)
  }

  /**
   * Answers bring requests, and full batches of those are run before any timer or connection is seen to, be it for ever: whatever
   * the account allows, the event loop has its turn in between. It is asked for late, so that a run now and then does without.
   */
  #stretches(tookMs: number): void {
    this.#stretchMs += tookMs
    if (this.#awaitsTurn || this.#stretchMs < stretchMs / 2) return
    this.#awaitsTurn = true
    this.#onNextTurn(this.#turned)
  }

  readonly #turned = (): void => {
    this.#awaitsTurn = false
    this.#stretchMs = 0
  }

  /** What a run that is just over has computed, at least: all but what was computed between the reading and its start. */
  #computedMs(tookMs: number): number {
    const [beganAtMs, beganCpuMs] = [this.#readAtMs, this.#readCpuMs]
    const nowMs = this.#clock.nowMs()
    this.#read(nowMs)
    return this.#readCpuMs - beganCpuMs - (nowMs - tookMs - beganAtMs)
  }

  #read(nowMs: number): void {
    this.#readAtMs = nowMs
    this.#readCpuMs = this.#cpuMs()
  }
}
