import type { Clock } from '../../base/clock.ts'
import type { ModelStats } from '../../observe/model-stats.ts'
import { rejectionOf, type RejectionReason } from '../../observe/rejections.ts'
import type { Caller, SharedRun } from './shared-run.ts'

/** Counts every caller once, as what it came to; the scheduler counts no run that is for callers. */
export class CallerCounts {
  readonly #stats: ModelStats
  readonly #clock: Clock

  constructor(stats: ModelStats, clock: Clock) {
    this.#stats = stats
    this.#clock = clock
  }

  /** Of one that was aborted before its call. */
  refused(): void {
    this.#stats.refused('cancelled')
  }

  /** Of one that is answered from the cache. */
  hit({ enqueuedAtMs }: Caller): void {
    this.#stats.answeredWithoutRun(enqueuedAtMs, enqueuedAtMs, this.#clock.nowMs())
  }

  /** Of one that is answered by a run: the first of them is charged what that took, the others have had none. */
  answered({ enqueuedAtMs }: Caller, run: SharedRun): void {
    const { begunAtMs, times } = run
    run.times = null
    if (times === null)
      this.#stats.answeredWithoutRun(enqueuedAtMs, Math.max(enqueuedAtMs, begunAtMs), this.#clock.nowMs())
    else this.#stats.answered(enqueuedAtMs, begunAtMs, times, this.#clock.nowMs())
  }

  failed({ enqueuedAtMs }: Caller, why: RejectionReason): void {
    this.#stats.failed(why, this.#clock.nowMs() - enqueuedAtMs)
  }
}

/** Why a run has failed; it has no input but those of all its callers, and no signal. */
export function failureOf(reason: unknown): RejectionReason {
  const found = rejectionOf(reason)
  return found === 'invalid' ? 'changed' : found
}
