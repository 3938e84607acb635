import { median } from 'zerohop/internals'
import {
  type Candidate,
  type Configuration,
  configurationKey,
  keyOf,
  type Load,
  saturating,
} from './configuration.ts'
import type { MeasuringPlan } from './measuring-process.ts'
import type { Measurement, TunedRow } from './outcome.ts'
import { finalistsOf, type Prospect } from './prune.ts'
import { rank, scatterOf, type Standing } from './ranking.ts'
import type { RecordedContest } from './state-file.ts'
import { type Goal, valueOf } from './tune-settings.ts'

/**
 * With fewer rounds a disturbed round does not eliminate a candidate: candidates then continue by their best
 * round.
 */
const enoughForMedian = 5
/** Assumed scatter of single measurements until it is known. */
const unknownScatter = 0.2
/** A candidate is eliminated if it is behind by this many standard errors. */
const errorsBehind = 3
/** A candidate behind by less is never eliminated. */
const leastBehind = 0.02
/** Rounds end when the rest differ by no more than the error of a median. */
const resolution = 0.008
const enoughRounds = 7
const mostRounds = 30
/** A single round may have been disturbed for the reference only. */
export const roundsToBeatReference = 2
/** At least this many stay, however little time is left. */
const fewest = 2
/** How many measurements to reserve for each candidate that stays, within the remaining time. */
const roundsToCome = 5

/**
 * Successive halving. Candidates are measured in rounds, forwards and backwards in turn. After each round
 * those clearly behind are eliminated, and more if there is not enough time. Other load on the machine
 * affects all remaining candidates alike, and medians count.
 */
export class Contest {
  readonly #goal: Goal
  readonly #showings = new Map<string, (Measurement | null)[]>()
  readonly #candidates: readonly string[]
  readonly #reference: string | null
  #left: readonly string[]
  #round = 0

  /**
   * @param candidates their keys, in the order of measurement.
   * @param reference the candidate that others must beat by more than chance. It is eliminated only if it
   * failed, misses a bound or is clearly behind.
   */
  constructor(candidates: readonly string[], goal: Goal, reference: string | null = null) {
    this.#candidates = candidates
    this.#goal = goal
    this.#reference = reference
    this.#left = candidates
    for (const key of candidates) this.#showings.set(key, [])
  }

  /** The next candidate to measure; `null` if further measurements would not change the result. */
  next(): string | null {
    if (this.isDecided) return null
    const order = this.#round % 2 === 0 ? this.#left : this.#left.toReversed()
    return order.find((key) => this.#showings.get(key)!.length === this.#round) ?? null
  }

  /**
   * Adds a candidate's measurement, `null` if it failed.
   *
   * @param affordable how many more measurements there is time for.
   */
  record(key: string, showing: Measurement | null, affordable = Infinity): void {
    const showings = this.#showings.get(key)
    if (showings?.length !== this.#round || !this.#left.includes(key)) return // from another contest
    showings.push(showing)
    if (this.#left.every((each) => this.#showings.get(each)!.length > this.#round)) this.#endRound(affordable)
  }

  /** Finished rounds. */
  get round(): number {
    return this.#round
  }

  /** Remaining candidates. */
  get left(): readonly string[] {
    return this.#left
  }

  get isDecided(): boolean {
    if (this.#left.length === 0 || this.#round >= mostRounds) return true
    if (this.#round < enoughRounds) return false
    return this.#left.length === 1 || this.#error() < resolution
  }

  /**
   * All candidates by rank, the remaining ones first. The reference comes before all that do not beat it by
   * more than chance.
   */
  standings(): Standing[] {
    const all = rank(this.#candidates, this.#showings, this.#goal)
    const isLeft = ({ key }: Standing) => this.#left.includes(key)
    const left = all.filter(isLeft)
    const reference = left.find(({ key, isKept }) => key === this.#reference && isKept)
    if (
      reference !== undefined &&
      (this.#round < roundsToBeatReference || left[0]!.score <= reference.score * (1 + this.#error()))
    ) {
      left.splice(left.indexOf(reference), 1)
      left.unshift(reference)
    }
    return [...left, ...all.filter((standing) => !isLeft(standing))]
  }

  /** Difference of two medians by chance, as a share of them. */
  #error(): number {
    const scatter = scatterOf(this.#left, this.#showings, this.#goal) ?? unknownScatter
    // The error of a median is a quarter larger than that of a mean.
    return 1.25 * scatter * Math.sqrt(2 / this.#round)
  }

  #endRound(affordable: number): void {
    this.#round++
    const working = this.#left.filter((key) => this.#showings.get(key)!.at(-1) !== null)
    const stays = new Set(
      this.#staying(rank(working, this.#showings, this.#goal), affordable).map(({ key }) => key),
    )
    this.#left = working.filter((key) => stays.has(key))
  }

  #staying(ranked: readonly Standing[], affordable: number): readonly Standing[] {
    const isEarly = this.#round < enoughForMedian
    const showed = ({ score, best }: Standing) => (isEarly ? best : score)
    const missing = ({ excess, leastExcess }: Standing) => (isEarly ? leastExcess : excess)
    const behind = Math.max(leastBehind, errorsBehind * this.#error())
    const most = this.#round === 1 ? Infinity : Math.max(fewest, Math.floor(affordable / roundsToCome))
    const keeping = ranked.filter((standing) => missing(standing) <= 1 + behind)
    if (keeping.length === 0) return ranked.toSorted((a, b) => missing(a) - missing(b)).slice(0, most)
    const top = Math.max(...keeping.map(showed))
    const close = keeping
      .filter((standing) => showed(standing) >= top * (1 - behind))
      .sort((a, b) => showed(b) - showed(a))
    return close.filter(({ key }, place) => place < most || key === this.#reference)
  }
}

/** Inputs of the first contest. */
interface FirstContestTask {
  /** The best first. */
  readonly prospects: readonly Prospect[]
  readonly goal: Goal
  readonly plan: MeasuringPlan
  /** The model's default. */
  readonly reference: Configuration
  /** The load, if it was given. */
  readonly load: Load | null
  readonly rowsPerRequest: number
}

/** The default, which is measured first, and the best prospects that there is time for. */
export function firstContest(task: FirstContestTask): RecordedContest {
  const { prospects, goal, plan, reference, load, rowsPerRequest } = task
  const its = configurationKey(reference)
  const asProspect = prospects.find(({ candidate }) => configurationKey(candidate.configuration) === its)
  const [best] = prospects
  // With a bound on latency, the number of callers that keeps all instances busy exceeds the bound.
  const otherwise =
    goal.p99Ms !== undefined && best !== undefined
      ? best.candidate.load
      : { concurrency: saturating(reference, rowsPerRequest) }
  const ofDefault: Candidate = asProspect?.candidate ?? { configuration: reference, load: load ?? otherwise }
  const finalists = finalistsOf(prospects, goal, plan.affordableMs, ({ candidate }) =>
    plan.roundCostMs(candidate),
  ).map(({ candidate }) => candidate)
  return {
    candidates: [ofDefault, ...finalists.filter((candidate) => keyOf(candidate) !== keyOf(ofDefault))],
    showings: [],
  }
}

/** A candidate with its rank, and its measurements. */
export interface Place {
  readonly candidate: Candidate
  readonly standing: Standing
  /** Medians; `null` without measurements. */
  readonly measured: Measurement | null
  /** Why it failed. */
  readonly failure: string | null
  readonly spread: number | null
  readonly worstP99Ms: number | null
}

/** Most configurations that continue with another load. */
const mostOfThem = 4
/** From this fraction on, a latency bound counts as used up. */
const usedUp = 0.85
/** The fraction of the bound to aim at. */
const aimedAt = 0.93

/**
 * A contest with another load, if the load is free, latency is bounded, and the measurements differ from the
 * expectation: with fewer callers if no candidate met the bound, with more if it is not used up. As in earlier
 * contests, the default is measured first. Empty if there is nothing to gain.
 */
export function furtherContests(
  contests: readonly RecordedContest[],
  places: readonly Place[],
  { p99Ms }: Goal,
  rowsPerRequest: number,
): RecordedContest[] {
  if (p99Ms === undefined) return []
  const tried = new Set(contests.flatMap(({ candidates }) => candidates.map(keyOf)))
  const of = new Map<string, Place>()
  for (const place of places) {
    const key = configurationKey(place.candidate.configuration)
    if (place.measured !== null && !of.has(key)) of.set(key, place)
  }
  const fresh = new Map<string, Candidate>()
  for (const { candidate, standing, measured } of [...of.values()].slice(0, mostOfThem)) {
    const { configuration, load } = candidate
    if (load.concurrency === undefined) continue
    const most = saturating(configuration, rowsPerRequest)
    const wanted = wantedCallers(load.concurrency, measured!.p99Ms, p99Ms, standing.isKept)
    if (wanted === null) continue
    const changed = { configuration, load: { concurrency: Math.min(most, Math.max(1, wanted)) } }
    if (!tried.has(keyOf(changed))) fresh.set(keyOf(changed), changed)
  }
  if (fresh.size === 0) return []
  const best = places.find(({ standing, measured }) => standing.isKept && measured !== null)
  const candidates = [...(best === undefined ? [] : [best.candidate]), ...fresh.values()]
  const before = contests.at(-1)!.candidates[0]!
  const isDefault = ({ configuration }: Candidate) =>
    configurationKey(configuration) === configurationKey(before.configuration)
  const ofDefault = candidates.find(isDefault) ?? before
  return [
    { candidates: [ofDefault, ...candidates.filter((candidate) => candidate !== ofDefault)], showings: [] },
  ]
}

/** The number of callers at which the bound is met and about used up; `null` if it need not change. */
function wantedCallers(callers: number, p99Ms: number, boundMs: number, isKept: boolean): number | null {
  const fitting = Math.floor((callers * aimedAt * boundMs) / p99Ms)
  if (!isKept) return Math.min(callers - 1, fitting)
  if (p99Ms > boundMs * usedUp) return null
  return Math.min(2 * callers, Math.max(callers + 1, fitting))
}

/** A contest with fewer rounds counts less than earlier contests, and its candidates less than others. */
const enoughRoundsForPlaces = 3

/**
 * Ranks of all candidates after a contest. They come before those of earlier contests once it has had enough
 * rounds.
 */
export function placesOf(
  contest: Contest,
  recorded: RecordedContest,
  goal: Goal,
  earlier: readonly Place[],
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
      spread: spreadOf(measurements, goal),
      worstP99Ms: measurements.length === 0 ? null : Math.max(...measurements.map(({ p99Ms }) => p99Ms)),
    }
  })
  const known = new Set(earlier.map(({ candidate }) => keyOf(candidate)))
  if (contest.round < enoughRoundsForPlaces && contest.left.length > 0)
    return [...earlier, ...places.filter(({ candidate }) => !known.has(keyOf(candidate)))]
  return [...places, ...earlier.filter(({ candidate }) => !candidates.has(keyOf(candidate)))]
}

/** Rows of a table. */
export function rowsOf(places: readonly Place[], reference: Configuration | null, goal: Goal): TunedRow[] {
  const isDefault = ({ candidate }: Place) =>
    reference !== null && configurationKey(candidate.configuration) === configurationKey(reference)
  const its = places.find((place) => isDefault(place) && place.measured !== null)
  const rows = places.map((place): TunedRow => ({
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
    spread: place.spread,
    failure: place.failure,
  }))
  // A bound that was met once may have been met by chance.
  const isBound = Object.values(goal).some((bound) => bound !== undefined)
  const classOf = ({ isKept, rounds: count }: TunedRow) =>
    isKept ? (count >= enoughRoundsForPlaces || !isBound ? 0 : 1) : 2
  return rows.toSorted((a, b) => classOf(a) - classOf(b))
}

/**
 * Medians of a candidate's measurements; for memory the maximum; for rows per second the value used for
 * comparison, which is adjusted for the quality of each round.
 */
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

/** Half the range of the rounds, relative to their median; `null` for fewer than two rounds. */
function spreadOf(measurements: readonly Measurement[], goal: Goal): number | null {
  const values = measurements.map((measurement) => valueOf(goal, measurement))
  const middle = median(values)
  return values.length < 2 || middle === 0 ? null : (Math.max(...values) - Math.min(...values)) / (2 * middle)
}
