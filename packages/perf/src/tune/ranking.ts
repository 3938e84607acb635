import { median } from 'zerohop/internals'
import { excessOf, type Goal, valueOf } from './tune-settings.ts'
import type { Measurement } from './outcome.ts'

/** Ratio of the standard deviation to the median absolute deviation of a normal distribution. */
const madOfNormal = 1.4826

/** Measurements by candidate and round; `null` for one that failed or was not measured. */
type Showings = ReadonlyMap<string, readonly (Measurement | null)[]>

/** The rank of a candidate. */
export interface Standing {
  readonly key: string
  /** Whether it meets the bounds: in all but less than a quarter of its rounds. */
  readonly isKept: boolean
  /**
   * See {@link excessOf}: the value that three of four rounds stay within, and the smallest of all rounds.
   */
  readonly excess: number
  readonly leastExcess: number
  /** Number of rounds in which it misses a bound. */
  readonly roundsOver: number
  /** Its value, adjusted to rounds of usual quality: the median, and the best of its rounds. */
  readonly score: number
  readonly best: number
  readonly rounds: number
}

/**
 * Ranks candidates: those that meet the bounds by their median score, then the others by how much they exceed
 * them. Scores are relative to those of other candidates in the same round, so that a slower round harms
 * none.
 */
export function rank(keys: readonly string[], showings: Showings, goal: Goal): Standing[] {
  const norms = normsOf(keys, showings, goal, betterOnes)
  const standings = keys.map((key): Standing => {
    const rounds = showings.get(key) ?? []
    const measured = rounds.filter((measurement) => measurement !== null)
    const scores = scoresOf(rounds, norms, goal)
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
 * The scatter of measurements around their candidate's median, as a share of it, without outliers. `null`
 * with fewer than two measurements each. With few candidates a single one dominates the median and the better
 * half, so the larger of two estimates is used.
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
  // The norm includes the candidate that is compared with it, so with few candidates it is biased towards
  // each.
  const ofNorm = Math.sqrt(keys.length / Math.max(1, keys.length - 1))
  const differences = keys.flatMap((key) => {
    const scores = scoresOf(showings.get(key) ?? [], norms, goal)
    if (scores.length < 2) return []
    // The same holds for the median of few scores.
    const correction = ofNorm * Math.sqrt(scores.length / (scores.length - 1))
    const middle = median(scores)
    if (middle === 0) return [] // no answers
    return scores.map((score) => Math.abs(score / middle - 1) * correction)
  })
  return differences.length === 0 ? null : madOfNormal * median(differences)
}

/** The values of a candidate's measurements, adjusted for the quality of their rounds. */
function scoresOf(rounds: readonly (Measurement | null)[], norms: readonly number[], goal: Goal): number[] {
  return rounds.flatMap((measurement, round) =>
    measurement === null ? [] : [valueOf(goal, measurement) / norms[round]!],
  )
}

function compare(a: Standing, b: Standing): number {
  if (a.isKept !== b.isKept) return a.isKept ? -1 : 1
  if (a.isKept || a.excess === b.excess) return b.score - a.score
  return a.excess - b.excess
}

/** Other load on the machine makes measurements slower, never faster. */
const betterOnes = (shares: readonly number[]): number => quantile(shares, 0.75)

/**
 * The quality of each round: its candidates' measurements relative to their usual ones, as an upper quantile.
 */
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

/** The quantile of the values; NaN without values. */
function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN
}
