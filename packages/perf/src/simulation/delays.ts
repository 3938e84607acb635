import type { InlineOptions } from 'zerohop'
import { mulberry32 } from 'zerohop/internals'
import { lengthOf, localMedians, RecordedMoments, type RecordedRun } from './recorded-run.ts'
import { SizeMedians } from './service-times.ts'

/**
 * Delays around runs, in milliseconds: how long threads take to notice something, and to do it. Each is asked
 * for by a request's number: by default the first one of the batch.
 */
export interface Delays {
  /** From a request until its batch is formed, if an instance is idle: the event loop runs first. */
  turnMs(request: number): number
  /** From the request that fills a batch until the batch is formed, at once; asked for by that request. */
  closingMs(request: number): number
  /** From dispatching a batch to an idle instance until it starts. */
  handOverMs(request: number): number
  /** From the end of a run until the prefetched one starts. */
  betweenMs(request: number): number
  /** How late a timer is. */
  timerMs(request: number): number
  /** From gathering a batch until the application's thread runs it itself. */
  inlineMs(request: number): number
  /** From the end of a run until the application's thread is notified. */
  wakeMs(request: number): number
  /** Gathering a batch, on the application's thread. */
  gatherMs(rows: number, request: number): number
  /** From scattering its outputs until the first answer, on the application's thread. */
  scatterMs(rows: number, request: number): number
  /** From one answer of a batch to the next. */
  answerMs(request: number): number
}

/** Constant delays. */
export function constantDelays({
  turnMs,
  handOverMs,
  betweenMs,
  timerMs,
  wakeMs,
  gatherMs,
  gatherRowMs,
  scatterMs,
  scatterRowMs,
}: Required<Overheads>): Delays {
  return {
    turnMs: () => turnMs,
    closingMs: () => 0,
    handOverMs: () => handOverMs,
    betweenMs: () => betweenMs,
    timerMs: () => timerMs,
    inlineMs: () => 0,
    wakeMs: () => wakeMs,
    gatherMs: (rows) => gatherMs + rows * gatherRowMs,
    scatterMs: (rows) => scatterMs + rows * scatterRowMs,
    answerMs: () => 0,
  }
}

/** Delays as recorded near the same requests: a thread that was blocked then is blocked again. */
export function recordedDelays(runs: readonly RecordedRun[], seed: number): Delays {
  const inOrder = runs.toSorted((a, b) => a.request - b.request)
  const near = (of: (run: RecordedRun) => number | null | undefined, requestOf = firstRequest) => {
    const series = new Series(inOrder, seed, of, requestOf)
    return (request: number) => series.at(request)
  }
  const byRows = (of: (run: RecordedRun) => number | undefined) => {
    const series = new SeriesByRows(inOrder, seed, of)
    return (rows: number, request: number) => series.at(rows, request)
  }
  return {
    turnMs: near(({ turnMs }) => turnMs),
    closingMs: near(({ closingMs }) => closingMs, lastRequest),
    handOverMs: near(({ handOverMs }) => handOverMs),
    betweenMs: near(({ betweenMs }) => betweenMs),
    timerMs: near(({ timerMs }) => timerMs),
    inlineMs: near(({ inlineMs }) => inlineMs),
    wakeMs: near(({ wakeMs }) => wakeMs),
    gatherMs: byRows(({ gatherMs }) => gatherMs),
    scatterMs: byRows(({ scatterMs }) => scatterMs),
    answerMs: near(({ answerMs }) => answerMs),
  }
}

const firstRequest = ({ request }: RecordedRun): number => request
const lastRequest = ({ request, requests = 1 }: RecordedRun): number => request + requests - 1

/** Values seen at some requests, relative to the usual value for their rows. */
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
    this.#beyond = new Series(runs, seed, (run) => (of(run) ?? 0) - this.#usual.of(run.rows), firstRequest)
  }

  at(rows: number, request: number): number {
    return Math.max(0, this.#usual.of(rows) + this.#beyond.at(request))
  }
}

/** Values seen at some requests. */
class Series {
  readonly #ms: readonly number[]
  /** The usual value near each. */
  readonly #local: Float64Array
  readonly #moments: RecordedMoments

  /** @param requestOf the request number of a run. */
  constructor(
    runs: readonly RecordedRun[],
    seed: number,
    of: (run: RecordedRun) => number | null | undefined,
    requestOf: (run: RecordedRun) => number,
  ) {
    const seen = runs.filter((run) => of(run) != null)
    this.#ms = seen.map((run) => of(run)!)
    this.#local = localMedians(Float64Array.from(this.#ms))
    this.#moments = new RecordedMoments(seen.map(requestOf), lengthOf(runs), mulberry32(seed))
  }

  at(request: number): number {
    if (this.#ms.length === 0) return 0
    const { index, again } = this.#moments.take(request)
    const [ms, usualMs] = [this.#ms[index]!, this.#local[index]!]
    return again ? Math.min(ms, usualMs + Math.abs(usualMs)) : ms
  }
}

/** Measured costs of requests and batches besides their runs, in milliseconds. Default for each: 0. */
export interface Overheads {
  /** Accepting a request, on the application's thread. */
  readonly requestMs?: number
  /** Gathering and dispatching a batch, on the application's thread: per batch, and per row. */
  readonly gatherMs?: number
  readonly gatherRowMs?: number
  /** From a request until its batch is formed, if an instance is idle: the event loop runs first. */
  readonly turnMs?: number
  /** From dispatching a batch to an idle instance until it starts. */
  readonly handOverMs?: number
  /** From the end of a run until the prefetched one starts. */
  readonly betweenMs?: number
  /** How late a timer for a delay or a wait is. */
  readonly timerMs?: number
  /** From the end of a run until the application's thread is notified. */
  readonly wakeMs?: number
  /** Giving the answers of a batch, on the application's thread: per batch, and per row. */
  readonly scatterMs?: number
  readonly scatterRowMs?: number
  /** Which batches the application's thread runs itself, as in `EngineOptions.inline`. Default: none. */
  readonly inline?: Required<InlineOptions> | null
}

/** No overheads. */
export const noOverheads: Required<Overheads> = {
  requestMs: 0,
  turnMs: 0,
  gatherMs: 0,
  gatherRowMs: 0,
  handOverMs: 0,
  betweenMs: 0,
  timerMs: 0,
  wakeMs: 0,
  scatterMs: 0,
  scatterRowMs: 0,
  inline: null,
}
