import type { CalibrationPoint } from './batch-times.ts'
import { rowsOf, type Place } from './contest-places.ts'
import { configurationKey, keyOf, type Candidate, type Configuration } from './configuration.ts'
import type { Placed } from './further-contest.ts'
import type { Goal } from './goal.ts'
import { rank } from './ranking.ts'
import { saturating } from './search-space.ts'
import type { TunedRow, TuneResult } from './tune-result.ts'

/** What there is to be judged at the end. */
export interface Found {
  readonly places: readonly Placed[]
  readonly calibration: readonly CalibrationPoint[]
  /** What the model has by default; `null` where it was not loaded. */
  readonly reference: Configuration | null
  readonly goal: Goal
  readonly rowsPerRequest: number
  /** With how many seconds it would have been worth while. */
  readonly leastSeconds: number
}

/** What comes of it. */
export interface Outcome extends Pick<TuneResult, 'best' | 'rows' | 'reason'> {
  /** Whether the best was calibrated only: there was no time to measure it beside others. */
  readonly isUnconfirmed: boolean
}

/** The best that was confirmed; where there is none the best that was calibrated, which is better than nothing. */
export function outcomeOf(found: Found): Outcome {
  const { places, reference } = found
  const confirmed = rowsOf(places, reference)
  const best = bestOf(confirmed)
  if (best !== null) return { best, rows: confirmed, reason: null, isUnconfirmed: false }
  const calibrated = calibratedPlaces(found)
  const known = new Set(calibrated.map(({ candidate }) => keyOf(candidate)))
  const rows = rowsOf([...places.filter(({ candidate, measured }) => measured !== null || !known.has(keyOf(candidate))), ...calibrated], reference)
  const fallback = bestOf(rows)
  return { best: fallback, rows, reason: fallback === null ? reasonOf(rows, found) : null, isUnconfirmed: fallback !== null }
}

/** What is to be known of a best that was calibrated only. */
export function unconfirmedNote(end: TuneResult['end']): string {
  if (end === 'decided') return 'nothing that was measured in rounds keeps what has to be kept: the best is so by a single measurement, and may not keep it either'
  return 'there was no time to measure the best beside others: it is so by a single measurement of each, and a longer budget may find a better one'
}

const bestOf = (rows: readonly TunedRow[]): TunedRow | null => rows.find(({ isKept, measured }) => isKept && measured !== null) ?? null

/** Where the points of the calibration would stand, had they been a round of a contest. */
function calibratedPlaces({ calibration, goal, rowsPerRequest, places }: Found): Place[] {
  // Whoever did not keep the bounds in a contest does not by a single measurement, nor with more callers than there.
  const known = new Set(places.filter(({ measured }) => measured !== null).map(({ candidate }) => configurationKey(candidate.configuration)))
  const points = new Map<string, { readonly candidate: Candidate; readonly point: CalibrationPoint }>()
  for (const point of calibration) {
    const configuration = { instances: point.instances, threads: point.threads, maxBatchSize: point.maxBatchSize, maxQueueDelayMs: 0 }
    const candidate = { configuration, load: { concurrency: saturating(configuration, rowsPerRequest) } }
    if (!known.has(configurationKey(configuration))) points.set(keyOf(candidate), { candidate, point })
  }
  const standings = rank([...points.keys()], new Map([...points].map(([key, { point }]) => [key, [point.measurement]])), goal)
  return standings.map((standing) => {
    const { candidate, point } = points.get(standing.key)!
    return { candidate, standing, measured: point.measurement, failure: point.failure, worstP99Ms: point.measurement?.p99Ms ?? null }
  })
}

function reasonOf(rows: readonly TunedRow[], { reference, leastSeconds }: Found): string {
  if (rows.some(({ measured, failure }) => measured !== null && failure === null)) return 'no configuration keeps the bounds: allow for more, or take less load'
  const failure = rows.find((row) => row.failure !== null)?.failure
  if (failure != null) return `no configuration served its requests: ${failure}`
  return `there was no time to ${reference === null ? 'load the model' : 'measure anything'}: take a budget of ${leastSeconds} seconds or more`
}
