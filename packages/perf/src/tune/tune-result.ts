import type { InstanceKind } from 'zerohop'
import type { Candidate } from './configuration.ts'
import type { Goal } from './goal.ts'
import type { Measurement } from './measurement.ts'

/** One configuration, and what was measured of it. */
export interface TunedRow {
  readonly candidate: Candidate
  readonly isDefault: boolean
  /** Medians over its rounds, and of memory the most. `null` when it failed, or there was no time for it. */
  readonly measured: Measurement | null
  readonly rounds: number
  /** In how many of these it did not keep what has to be kept. */
  readonly roundsOver: number
  /** The largest p99 of a round; `null` where nothing was measured. */
  readonly worstP99Ms: number | null
  /** Whether it keeps what has to be kept: in all but less than a quarter of its rounds. */
  readonly isKept: boolean
  /** How good it is, in times of the default; `null` where that was not measured. */
  readonly toDefault: number | null
  /** Why it failed. */
  readonly failure: string | null
}

/** What tuning found. */
export interface TuneResult {
  /** The best that keeps what has to be kept; `null` for none. */
  readonly best: TunedRow | null
  /** Whether it was compared: `false` where the best is the default, and there was no time to compare others with it. */
  readonly isConfirmed: boolean
  /** What each round is judged by: the bounds that were asked for, less what is left for the next process to differ by. */
  readonly judgedBy: Goal
  /** Why there is none. */
  readonly reason: string | null
  /** The best first, by the last rounds in which each was measured. */
  readonly rows: readonly TunedRow[]
  /** Where instances run. */
  readonly kind: InstanceKind
  /** What the tuner had to leave out, and why requests share runs or do not. */
  readonly notes: readonly string[]
  /** `decided`: further rounds would change nothing; `budget`: there was no time for another measurement; `interrupted`: by the user. */
  readonly end: 'decided' | 'budget' | 'interrupted'
  /** All that it took. */
  readonly seconds: number
}
