import type { InstanceKind } from 'zerohop'
import type { Candidate, Configuration } from './configuration.ts'
import { type Place, roundsToBeatReference, rowsOf } from './contest.ts'
import type { Goal } from './tune-settings.ts'

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

/** What there is to be judged at the end. */
interface Found {
  /** Of contests, in each of which the default was measured first. */
  readonly places: readonly Place[]
  /** The default, as it was measured before all else. */
  readonly alone: readonly Place[]
  /** What the model has by default; `null` where it was not loaded. */
  readonly reference: Configuration | null
  readonly goal: Goal
  /** With how many seconds it would have been worth while. */
  readonly leastSeconds: number
  /** Whether further rounds would change nothing. */
  readonly isDecided: boolean
}

/** What comes of it. */
type Outcome = Pick<TuneResult, 'best' | 'rows' | 'reason' | 'isConfirmed'>

/** What is to be known of a default that others were not compared with. */
export const unconfirmedNote =
  'there was no time to compare other configurations with the default, which is the result: a longer budget may find a better one'

/** The best of those that were measured beside the default; the default where there was no time for others. */
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
  const longer = `take a budget of ${leastSeconds} seconds or more`
  if (rows.some(({ measured, failure }) => measured !== null && failure === null)) {
    if (
      !isDecided &&
      rows.every(({ isDefault, measured, failure }) => isDefault || (measured === null && failure === null))
    )
      return `the default does not keep the bounds, and there was no time to measure another configuration beside it: ${longer}`
    return 'no configuration keeps the bounds: allow for more, or take less load'
  }
  const failure = rows.find((row) => row.failure !== null)?.failure
  if (failure != null) return `no configuration served its requests: ${failure}`
  return `there was no time to ${reference === null ? 'load the model' : 'measure anything'}: ${longer}`
}

/** What a candidate showed while it was measured once. */
export interface Measurement {
  /** Rows answered a second. */
  readonly rowsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Most memory that the process had, in loading too: the model's weights, arenas and staging memory, Node.js and its libraries. */
  readonly memoryBytes: number
  readonly meanBatchRows: number
  /** Requests that were not answered. */
  readonly failures: number
}
