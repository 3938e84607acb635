import { configurationKey, keyOf, type Candidate } from './configuration.ts'
import type { Goal } from './goal.ts'
import type { Measurement } from './measurement.ts'
import type { Standing } from './ranking.ts'
import { saturating } from './search-space.ts'
import type { RecordedContest } from './state-file.ts'

/** A candidate with where it came in, and the medians of what it showed. */
export interface Placed {
  readonly candidate: Candidate
  readonly standing: Standing
  readonly measured: Measurement | null
}

/** Configurations that go on with another load. */
const mostOfThem = 4
/** A bound on latency is used up to this. */
const usedUp = 0.85
/** What is aimed at. */
const aimedAt = 0.93

/**
 * Where the load is free and latency is bound: with which loads it goes on, after what was expected turned out otherwise. With fewer callers
 * where nobody kept the bound, with more where it is not used up; nobody when there is nothing to gain.
 */
function furtherCandidates(
  places: readonly Placed[],
  { p99Ms }: Goal,
  rowsPerRequest: number,
  tried: ReadonlySet<string>,
): Candidate[] {
  if (p99Ms === undefined) return []
  const of = new Map<string, Placed>()
  for (const place of places) {
    const key = configurationKey(place.candidate.configuration)
    if (place.measured !== null && !of.has(key)) of.set(key, place)
  }
  const best = places.find(({ standing, measured }) => standing.isKept && measured !== null)
  const changed = [...of.values()]
    .slice(0, mostOfThem)
    .flatMap(({ candidate, standing, measured }): Candidate[] => {
      const { configuration, load } = candidate
      if (load.concurrency === undefined) return []
      const most = saturating(configuration, rowsPerRequest)
      const wanted = wantedCallers(load.concurrency, measured!.p99Ms, p99Ms, standing.isKept)
      return wanted === null
        ? []
        : [{ configuration, load: { concurrency: Math.min(most, Math.max(1, wanted)) } }]
    })
  const fresh = changed.filter(
    (candidate, index) =>
      !tried.has(keyOf(candidate)) &&
      changed.findIndex((other) => keyOf(other) === keyOf(candidate)) === index,
  )
  if (fresh.length === 0) return []
  return best === undefined
    ? fresh
    : [best.candidate, ...fresh.filter((candidate) => keyOf(candidate) !== keyOf(best.candidate))]
}

/** The contest that follows others, where there is one; the default is measured first in it, as in those before. */
export function furtherContests(
  contests: readonly RecordedContest[],
  places: readonly Placed[],
  goal: Goal,
  rowsPerRequest: number,
): RecordedContest[] {
  const tried = new Set(contests.flatMap(({ candidates }) => candidates.map(keyOf)))
  const candidates = furtherCandidates(places, goal, rowsPerRequest, tried)
  if (candidates.length === 0) return []
  const before = contests.at(-1)!.candidates[0]!
  const isDefault = ({ configuration }: Candidate) =>
    configurationKey(configuration) === configurationKey(before.configuration)
  const ofDefault = candidates.find(isDefault) ?? before
  return [
    { candidates: [ofDefault, ...candidates.filter((candidate) => candidate !== ofDefault)], showings: [] },
  ]
}

/** With how many callers the bound is about used up, or kept; `null` when they stay as they are. */
function wantedCallers(callers: number, p99Ms: number, boundMs: number, isKept: boolean): number | null {
  const fitting = Math.floor((callers * aimedAt * boundMs) / p99Ms)
  if (!isKept) return Math.min(callers - 1, fitting)
  if (p99Ms > boundMs * usedUp) return null
  return Math.min(2 * callers, Math.max(callers + 1, fitting))
}
