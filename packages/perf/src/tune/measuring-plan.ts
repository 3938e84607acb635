import type { Calibration } from './batch-times.ts'
import type { Candidate } from './configuration.ts'
import type { MeasuringTimes } from './confirm.ts'

/** Rounds that there is to be time for, as far as all candidates went through them. */
const rounds = 6
const leastWarmupMs = 80
const leastWindowMs = 250
/** Runs that a window has time for, of each instance. */
const runsInWindow = 4
const mostWindowMs = 2000
const mostStretch = 8

/** How long each candidate is measured at a time: long enough for some runs, and longer where there is time for it. */
export class MeasuringPlan {
  readonly #calibration: Calibration
  readonly #startMs: number
  readonly #stretch: number
  /** What a round of all candidates may take. */
  readonly affordableMs: number

  constructor(calibration: Calibration, candidates: readonly Candidate[], budgetMs: number, startMs: number) {
    this.#calibration = calibration
    this.#startMs = startMs
    this.affordableMs = budgetMs / rounds
    const leastMs = candidates.reduce((sum, candidate) => sum + this.roundCostMs(candidate), 0)
    this.#stretch = leastMs === 0 ? 1 : Math.min(mostStretch, Math.max(1, this.affordableMs / leastMs))
  }

  timesOf(candidate: Candidate): MeasuringTimes {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    const stretched = Math.max(windowMs, Math.min(mostWindowMs, windowMs * this.#stretch))
    return { warmupMs, windowMs: stretched, costMs: warmupMs + stretched + tailMs }
  }

  /** Of one measurement that is as short as can be, with its part of the start of its process. */
  roundCostMs(candidate: Candidate): number {
    const { warmupMs, windowMs, tailMs } = this.#least(candidate)
    return warmupMs + windowMs + tailMs + this.#startMs / rounds
  }

  #least({ configuration }: Candidate): { warmupMs: number; windowMs: number; tailMs: number } {
    const runMs = this.#calibration.runMs(configuration, configuration.maxBatchSize) ?? 0
    // A window ends with the answers after it, and the callers wait for those that they asked for then.
    return {
      warmupMs: Math.max(leastWarmupMs, runMs),
      windowMs: Math.max(leastWindowMs, runsInWindow * runMs),
      tailMs: 3 * runMs,
    }
  }
}
