import { median } from 'zerohop/internals'
import { excessOf, type Goal, valueOf } from './tune-settings.ts'
import type { Measurement } from './outcome.ts'

/** What the standard deviation is to the median of all deviations, where they are normally distributed. */
const madOfNormal = 1.4826

/** What candidates showed, round by round, each in its place; `null` for one that failed, or was not measured. */
type Showings = ReadonlyMap<string, readonly (Measurement | null)[]>

/** Where a candidate stands among others. */
export interface Standing {
  readonly key: string
  /** Whether it keeps what has to be kept: in all but less than a quarter of its rounds. */
  readonly isKept: boolean
  /** See {@link excessOf}: what three of four rounds keep to, and the least of them. */
  readonly excess: number
  readonly leastExcess: number
  /** In how many of its rounds it does not keep what has to be kept. */
  readonly roundsOver: number
  /** Its value, as in rounds that were as good as most: the median, and the best of its rounds. */
  readonly score: number
  readonly best: number
  readonly rounds: number
}

/**
 * Who is ahead: first those that keep what has to be kept, by their median score; then the others, by how much is missing.
 * Scores are by what the others showed in the same round, so that it costs nobody that the machine was slower in one.
 */
export function rank(keys: readonly string[], showings: Showings, goal: Goal): Standing[] {
  const norms = normsOf(keys, showings, goal, betterOnes)
  const standings = keys.map((key): Standing => {
    const rounds = showings.get(key) ?? []
    const measured = rounds.filter((measurement) => measurement !== null)
    const scores = rounds.flatMap((measurement, round) =>
      measurement === null ? [] : [valueOf(goal, measurement) / norms[round]!],
    )
    const failed = measured.length < rounds.length || measured.length === 0
    const excesses = failed ? [Infinity] : measured.map((measurement) => excessOf(goal, measurement))
    const excess = quantile(excesses, 0.75)
    return {
      key,
      isKept: excess <= 1,
      excess,
      leastExcess: Math.min(...excesses),
      roundsOver: failed ? rounds.length : excesses.filter((each) => each > 1).length,
      score: failed ? 0 : median(scores),
      best: failed ? 0 : Math.max(...scores),
      rounds: measured.length,
    }
  })
  return standings.sort(compare)
}

/**
 * By how much measurements of one candidate differ from their median, as a share of it: most of them, not those that met something else. `null` with fewer than two each.
 * Of few candidates the better ones are the best one, which never differs from them, and the middle may be off with one of them: the larger scatter is believed.
 */
export function scatterOf(keys: readonly string[], showings: Showings, goal: Goal): number | null {
  const by = (telling: typeof betterOnes) =>
    scatterBy(normsOf(keys, showings, goal, telling), keys, showings, goal)
  const [byBetterOnes, byMiddle] = [by(betterOnes), by(median)]
  return byBetterOnes === null || byMiddle === null ? null : Math.max(byBetterOnes, byMiddle)
}

function scatterBy(
  norms: readonly number[],
  keys: readonly string[],
  showings: Showings,
  goal: Goal,
): number | null {
  // A norm is made of what is compared with it: of few it is drawn to each.
  const ofNorm = Math.sqrt(keys.length / Math.max(1, keys.length - 1))
  const differences = keys.flatMap((key) => {
    const scores = (showings.get(key) ?? []).flatMap((measurement, round) =>
      measurement === null ? [] : [valueOf(goal, measurement) / norms[round]!],
    )
    if (scores.length < 2) return []
    // And of few scores the median.
    const correction = ofNorm * Math.sqrt(scores.length / (scores.length - 1))
    const middle = median(scores)
    if (middle === 0) return [] // nothing was answered
    return scores.map((score) => Math.abs(score / middle - 1) * correction)
  })
  return differences.length === 0 ? null : madOfNormal * median(differences)
}

function compare(a: Standing, b: Standing): number {
  if (a.isKept !== b.isKept) return a.isKept ? -1 : 1
  if (a.isKept || a.excess === b.excess) return b.score - a.score
  return a.excess - b.excess
}

/** What else the machine does makes one slower and none faster. */
const betterOnes = (shares: readonly number[]): number => quantile(shares, 0.75)

/** How good each round was: what its candidates showed, of what each of them mostly shows, by those of them that tell. */
function normsOf(
  keys: readonly string[],
  showings: Showings,
  goal: Goal,
  telling: (shares: readonly number[]) => number,
): number[] {
  const valuesOf = keys.map((key) =>
    (showings.get(key) ?? []).map((measurement) =>
      measurement === null ? null : valueOf(goal, measurement),
    ),
  )
  const usual = valuesOf.map((values) => median(values.filter((value) => value !== null)))
  const rounds = Math.max(0, ...valuesOf.map(({ length }) => length))
  return Array.from({ length: rounds }, (_, round) => {
    const shares = valuesOf.flatMap((values, index) =>
      values[round] == null || usual[index] === 0 ? [] : [values[round] / usual[index]!],
    )
    return shares.length === 0 ? 1 : telling(shares)
  })
}

/** The value up to which a share of them lies; NaN of none. */
function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN
}
