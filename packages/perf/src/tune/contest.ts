import type { Goal } from './goal.ts'
import type { Measurement } from './measurement.ts'
import { rank, scatterOf, type Standing } from './ranking.ts'

/** With fewer rounds one that met something else is no reason to be out: it is by their best that candidates go on. */
const enoughForMedian = 5
/** What single measurements are taken to differ by while it is not known by how much they do. */
const unknownScatter = 0.2
/** Standard errors by which one has to be behind to be out. */
const errorsBehind = 3
/** Nobody is out for being less behind. */
const leastBehind = 0.02
/** Rounds end when what is left differs by no more than what a median may be off by. */
const resolution = 0.008
const enoughRounds = 7
const mostRounds = 30
/** In a single round the reference may have met something else. */
export const roundsToBeatReference = 2
/** So many stay, however little time there is. */
const fewest = 2
/** Of the measurements that there is time for, those for each that stays. */
const roundsToCome = 5

/**
 * Successive halving: candidates are measured in rounds, there and back, and after each round those that are clearly behind are out, and
 * as many more as there is no time for. What the machine does beside meets all that are left alike, and it is medians that count.
 */
export class Contest {
  readonly #goal: Goal
  readonly #showings = new Map<string, (Measurement | null)[]>()
  readonly #candidates: readonly string[]
  readonly #reference: string | null
  #left: readonly string[]
  #round = 0

  /**
   * @param candidates their keys, in the order in which they are measured.
   * @param reference the one that others have to beat by more than chance; it is out only where it failed, keeps no bound or is clearly behind.
   */
  constructor(candidates: readonly string[], goal: Goal, reference: string | null = null) {
    this.#candidates = candidates
    this.#goal = goal
    this.#reference = reference
    this.#left = candidates
    for (const key of candidates) this.#showings.set(key, [])
  }

  /** Who is measured next; `null` when nothing more is to be found out. */
  next(): string | null {
    if (this.isDecided) return null
    const order = this.#round % 2 === 0 ? this.#left : this.#left.toReversed()
    return order.find((key) => this.#showings.get(key)!.length === this.#round) ?? null
  }

  /**
   * Takes in what one showed, `null` for one that failed.
   *
   * @param affordable how many more measurements there is time for.
   */
  record(key: string, showing: Measurement | null, affordable = Infinity): void {
    const showings = this.#showings.get(key)
    if (showings?.length !== this.#round || !this.#left.includes(key)) return // of another contest
    showings.push(showing)
    if (this.#left.every((each) => this.#showings.get(each)!.length > this.#round)) this.#endRound(affordable)
  }

  /** Rounds that are over. */
  get round(): number {
    return this.#round
  }

  /** Who is still in it. */
  get left(): readonly string[] {
    return this.#left
  }

  get isDecided(): boolean {
    if (this.#left.length === 0 || this.#round >= mostRounds) return true
    if (this.#round < enoughRounds) return false
    return this.#left.length === 1 || this.#error() < resolution
  }

  /** All candidates by where they stand, first those that are left; the reference before all that are not ahead of it by more than chance. */
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

  /** What two medians differ by, by chance, as a share of them. */
  #error(): number {
    const scatter = scatterOf(this.#left, this.#showings, this.#goal) ?? unknownScatter
    // A median is off by a quarter more than a mean.
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
