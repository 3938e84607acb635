import { mulberry32 } from '../seeded-random.ts'
import type { Overheads } from './overheads.ts'
import { RecordedMoments } from './recorded-moments.ts'
import { localMedians, type RecordedRun } from './recorded-run.ts'
import { SizeMedians } from './size-medians.ts'

/** What surrounds runs, in milliseconds, at a moment of the simulation: how long threads take to notice something, and to do it. */
export interface Delays {
  /** From a request until a batch is formed of it, when an instance is idle: the event loop comes round first. */
  turnMs(atMs: number): number
  /** From handing a batch to an idle instance until it starts. */
  handOverMs(atMs: number): number
  /** From the end of a run until the one starts that waits behind it. */
  betweenMs(atMs: number): number
  /** By how much a timer is late. */
  timerMs(atMs: number): number
  /** From gathering a batch until the application's thread runs it itself. */
  inlineMs(atMs: number): number
  /** From the end of a run until the application's thread is told. */
  wakeMs(atMs: number): number
  /** Gathering a batch, on the application's thread. */
  gatherMs(rows: number, atMs: number): number
  /** Handing its outputs out, there as well. */
  scatterMs(rows: number, atMs: number): number
}

/** Always the same. */
export function constantDelays({ turnMs, handOverMs, betweenMs, timerMs, wakeMs, gatherMs, gatherRowMs, scatterMs, scatterRowMs }: Required<Overheads>): Delays {
  return {
    turnMs: () => turnMs,
    handOverMs: () => handOverMs,
    betweenMs: () => betweenMs,
    timerMs: () => timerMs,
    inlineMs: () => 0,
    wakeMs: () => wakeMs,
    gatherMs: (rows) => gatherMs + rows * gatherRowMs,
    scatterMs: (rows) => scatterMs + rows * scatterRowMs,
  }
}

/** As they were about the same time of a recording: a thread that was held up for a while then is so now. */
export class RecordedDelays implements Delays {
  readonly #turns: Series
  readonly #handOvers: Series
  readonly #betweens: Series
  readonly #timers: Series
  readonly #inlines: Series
  readonly #wakes: Series
  readonly #gathers: SeriesByRows
  readonly #scatters: SeriesByRows
  readonly #speed: number

  /** @param runs in the order of their starts. */
  constructor(runs: readonly RecordedRun[], seed: number, speed: number) {
    this.#turns = new Series(runs, seed, ({ turnMs }) => turnMs)
    this.#handOvers = new Series(runs, seed, ({ handOverMs }) => handOverMs)
    this.#betweens = new Series(runs, seed, ({ betweenMs }) => betweenMs)
    this.#timers = new Series(runs, seed, ({ timerMs }) => timerMs)
    this.#inlines = new Series(runs, seed, ({ inlineMs }) => inlineMs)
    this.#wakes = new Series(runs, seed, ({ wakeMs }) => wakeMs)
    this.#gathers = new SeriesByRows(runs, seed, ({ gatherMs }) => gatherMs)
    this.#scatters = new SeriesByRows(runs, seed, ({ scatterMs }) => scatterMs)
    this.#speed = speed
  }

  turnMs(atMs: number): number {
    return this.#turns.at(atMs * this.#speed)
  }

  handOverMs(atMs: number): number {
    return this.#handOvers.at(atMs * this.#speed)
  }

  betweenMs(atMs: number): number {
    return this.#betweens.at(atMs * this.#speed)
  }

  timerMs(atMs: number): number {
    return this.#timers.at(atMs * this.#speed)
  }

  inlineMs(atMs: number): number {
    return this.#inlines.at(atMs * this.#speed)
  }

  wakeMs(atMs: number): number {
    return this.#wakes.at(atMs * this.#speed)
  }

  gatherMs(rows: number, atMs: number): number {
    return this.#gathers.at(rows, atMs * this.#speed)
  }

  scatterMs(rows: number, atMs: number): number {
    return this.#scatters.at(rows, atMs * this.#speed)
  }
}

/** What was seen at some moments, beyond what is usual for so many rows. */
class SeriesByRows {
  readonly #usual: SizeMedians
  readonly #beyond: Series

  constructor(runs: readonly RecordedRun[], seed: number, of: (run: RecordedRun) => number | undefined) {
    const byRows = new Map<number, number[]>()
    for (const run of runs) {
      const seen = byRows.get(run.rows)
      if (seen === undefined) byRows.set(run.rows, [of(run) ?? 0])
      else seen.push(of(run) ?? 0)
    }
    this.#usual = new SizeMedians(byRows)
    this.#beyond = new Series(runs, seed, (run) => (of(run) ?? 0) - this.#usual.of(run.rows))
  }

  at(rows: number, atMs: number): number {
    return Math.max(0, this.#usual.of(rows) + this.#beyond.at(atMs))
  }
}

/** What was seen at some moments. */
class Series {
  readonly #ms: readonly number[]
  /** What is usual about the time of each. */
  readonly #local: Float64Array
  readonly #moments: RecordedMoments

  constructor(runs: readonly RecordedRun[], seed: number, of: (run: RecordedRun) => number | null | undefined) {
    const seen = runs.filter((run) => of(run) != null)
    this.#ms = seen.map((run) => of(run)!)
    this.#local = localMedians(Float64Array.from(this.#ms))
    this.#moments = new RecordedMoments(seen.map(({ atMs }) => atMs), mulberry32(seed))
  }

  at(atMs: number): number {
    if (this.#ms.length === 0) return 0
    const { index, again } = this.#moments.take(atMs)
    const [ms, usualMs] = [this.#ms[index]!, this.#local[index]!]
    return again ? Math.min(ms, usualMs + Math.abs(usualMs)) : ms
  }
}
