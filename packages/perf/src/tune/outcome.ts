import { rowsOf, type Place } from './contest-places.ts'
import { roundsToBeatReference } from './contest.ts'
import type { Configuration } from './configuration.ts'
import type { Goal } from './goal.ts'
import type { TunedRow, TuneResult } from './tune-result.ts'

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
