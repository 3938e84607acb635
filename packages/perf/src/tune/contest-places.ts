import { configurationKey, keyOf, type Configuration } from './configuration.ts'
import type { Contest } from './contest.ts'
import type { Placed } from './further-contest.ts'
import type { Goal } from './goal.ts'
import { median } from 'zerohop/internals'
import type { Measurement } from './measurement.ts'
import type { Standing } from './ranking.ts'
import type { RecordedContest } from './state-file.ts'
import type { TunedRow } from './tune-result.ts'

/** A candidate with why it failed. */
export interface Place extends Placed {
  readonly failure: string | null
  readonly worstP99Ms: number | null
}

/** With fewer rounds a contest says less than those before it, and a candidate less than others. */
const enoughRounds = 3

/** Where all candidates stand after a contest: before those of earlier ones, once it has gone through some rounds. */
export function placesOf(
  contest: Contest,
  recorded: RecordedContest,
  goal: Goal,
  earlier: readonly Placed[],
): Place[] {
  const candidates = new Map(recorded.candidates.map((candidate) => [keyOf(candidate), candidate]))
  const places = contest.standings().map((standing): Place => {
    const own = recorded.showings.filter(({ key }) => key === standing.key)
    const measurements = own.flatMap(({ measurement }) => (measurement === null ? [] : [measurement]))
    const failure = own.find((showing) => showing.failure !== null)?.failure ?? null
    return {
      candidate: candidates.get(standing.key)!,
      standing,
      measured: measurements.length === 0 ? null : summaryOf(measurements, goal, standing),
      failure,
      worstP99Ms: measurements.length === 0 ? null : Math.max(...measurements.map(({ p99Ms }) => p99Ms)),
    }
  })
  const before = earlier as readonly Place[]
  const known = new Set(before.map(({ candidate }) => keyOf(candidate)))
  if (contest.round < enoughRounds && contest.left.length > 0)
    return [...before, ...places.filter(({ candidate }) => !known.has(keyOf(candidate)))]
  return [...places, ...before.filter(({ candidate }) => !candidates.has(keyOf(candidate)))]
}

/** Rows of a table. */
export function rowsOf(places: readonly Placed[], reference: Configuration | null, goal: Goal): TunedRow[] {
  const isDefault = ({ candidate }: Placed) =>
    reference !== null && configurationKey(candidate.configuration) === configurationKey(reference)
  const its = places.find((place) => isDefault(place) && place.measured !== null)
  const rows = (places as readonly Place[]).map((place): TunedRow => ({
    candidate: place.candidate,
    isDefault: isDefault(place),
    measured: place.measured,
    rounds: place.standing.rounds,
    roundsOver: place.standing.roundsOver,
    worstP99Ms: place.worstP99Ms,
    isKept: place.standing.isKept && place.failure === null,
    toDefault:
      its?.measured == null || place.measured === null
        ? null
        : place.measured.rowsPerSecond / its.measured.rowsPerSecond,
    failure: place.failure,
  }))
  // A bound that was kept once may have been kept by chance.
  const isBound = Object.values(goal).some((bound) => bound !== undefined)
  const classOf = ({ isKept, rounds: count }: TunedRow) =>
    isKept ? (count >= enoughRounds || !isBound ? 0 : 1) : 2
  return rows.toSorted((a, b) => classOf(a) - classOf(b))
}

/** Medians of several measurements of one candidate, of memory the most; rows a second as it is compared by them, whatever each round was like. */
function summaryOf(measurements: readonly Measurement[], goal: Goal, { score }: Standing): Measurement {
  const middle = (read: (measurement: Measurement) => number) => median(measurements.map(read))
  return {
    rowsPerSecond:
      goal.rowsPerSecond === undefined && score > 0 ? score : middle(({ rowsPerSecond }) => rowsPerSecond),
    p50Ms: middle(({ p50Ms }) => p50Ms),
    p99Ms: middle(({ p99Ms }) => p99Ms),
    memoryBytes: Math.max(...measurements.map(({ memoryBytes }) => memoryBytes)),
    meanBatchRows: middle(({ meanBatchRows }) => meanBatchRows),
    failures: measurements.reduce((sum, { failures }) => sum + failures, 0),
  }
}
