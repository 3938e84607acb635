import type { InstanceKind } from 'zerohop'
import type { Candidate, Configuration } from './configuration.ts'
import { type Place, roundsToBeatReference, rowsOf } from './contest.ts'
import type { Goal } from './tune-settings.ts'

/** One configuration and its measurements. */
export interface TunedRow {
  readonly candidate: Candidate
  readonly isDefault: boolean
  /** Medians over its rounds; for memory the maximum. `null` if it failed or there was no time. */
  readonly measured: Measurement | null
  readonly rounds: number
  /** Number of rounds in which it missed a bound. */
  readonly roundsOver: number
  /** The largest p99 of a round; `null` without measurements. */
  readonly worstP99Ms: number | null
  /** Whether it meets the bounds: in all but less than a quarter of its rounds. */
  readonly isKept: boolean
  /** Its value relative to the default; `null` if that was not measured. */
  readonly toDefault: number | null
  /** Half the range of its rounds, relative to their median; `null` for fewer than two rounds. */
  readonly spread: number | null
  /** Why it failed. */
  readonly failure: string | null
}

/** The result of tuning. */
export interface TuneResult {
  /** The best configuration that meets the bounds; `null` for none. */
  readonly best: TunedRow | null
  /**
   * Whether it was compared with others: `false` if the best is the default and there was no time for
   * comparisons.
   */
  readonly isConfirmed: boolean
  /** The bounds for each round: the requested ones minus a margin for the variation between processes. */
  readonly judgedBy: Goal
  /** Why there is no best configuration. */
  readonly reason: string | null
  /** The best first, by the last rounds in which each was measured. */
  readonly rows: readonly TunedRow[]
  /** Where instances run. */
  readonly kind: InstanceKind
  /** What the tuner left out, and why requests share runs or do not. */
  readonly notes: readonly string[]
  /**
   * Why it ended.
   *
   * - `decided`: further rounds would not change the result.
   * - `budget`: there was no time for another measurement.
   * - `interrupted`: by the user.
   */
  readonly end: 'decided' | 'budget' | 'interrupted'
  /** Total duration. */
  readonly seconds: number
}

/** The input of the final judgement. */
interface Found {
  /** From contests, in each of which the default was measured first. */
  readonly places: readonly Place[]
  /** The default, measured before everything else. */
  readonly alone: readonly Place[]
  /** The model's default; `null` if it was not loaded. */
  readonly reference: Configuration | null
  readonly goal: Goal
  /** The smallest useful budget, in seconds. */
  readonly leastSeconds: number
  /** Whether further rounds would not change the result. */
  readonly isDecided: boolean
}

/** The part of the result that follows from the measurements. */
type Outcome = Pick<TuneResult, 'best' | 'rows' | 'reason' | 'isConfirmed'>

/** The note for a default that was not compared with others. */
export const unconfirmedNote =
  'the time was too short to compare other configurations with the default, so the default is the result: a longer --budget may find a better one'

/** The best configuration measured together with the default; the default if there was no time for others. */
export function outcomeOf(found: Found): Outcome {
  const { places, alone, reference, goal, isDecided } = found
  const isContested = places.some(({ measured, failure }) => measured !== null || failure !== null)
  const rows = rowsOf(isContested ? places : alone, reference, goal)
  const best = rows.find(({ isKept, measured }) => isKept && measured !== null) ?? null
  return {
    best,
    rows,
    reason: best === null ? reasonOf(rows, found) : null,
    isConfirmed: best !== null && (isDecided || !best.isDefault || best.rounds >= roundsToBeatReference),
  }
}

function reasonOf(rows: readonly TunedRow[], { reference, leastSeconds, isDecided }: Found): string {
  const longer = `give a --budget of ${leastSeconds} seconds or more`
  if (rows.some(({ measured, failure }) => measured !== null && failure === null)) {
    if (
      !isDecided &&
      rows.every(({ isDefault, measured, failure }) => isDefault || (measured === null && failure === null))
    )
      return `the default misses the bounds, and the time was too short to measure another configuration: ${longer}`
    return 'no configuration keeps the bounds: relax them or lower the load'
  }
  const failure = rows.find((row) => row.failure !== null)?.failure
  if (failure != null) return `no configuration served its requests: ${failure}`
  return `the time was too short to ${reference === null ? 'load the model' : 'measure anything'}: ${longer}`
}

/** One measurement of a candidate. */
export interface Measurement {
  /** Rows answered per second. */
  readonly rowsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /**
   * Peak memory of the process, including loading: the model's weights, arenas and staging memory, Node.js
   * and its libraries.
   */
  readonly memoryBytes: number
  readonly meanBatchRows: number
  /** Requests that were not answered. */
  readonly failures: number
}
