import type { InlineOptions } from 'zerohop'
import { mulberry32 } from 'zerohop/internals'
import { grouped } from '../grouped.ts'
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
export function constantDelays(of: Required<Overheads>): Delays {
  return {
    turnMs: () => of.turnMs,
    closingMs: () => 0,
    handOverMs: () => of.handOverMs,
    betweenMs: () => of.betweenMs,
    timerMs: () => of.timerMs,
    inlineMs: () => 0,
    wakeMs: () => of.wakeMs,
    gatherMs: (rows) => of.gatherMs + rows * of.gatherRowMs,
    scatterMs: (rows) => of.scatterMs + rows * of.scatterRowMs,
    answerMs: () => 0,
  }
}

/** Delays as recorded near the same requests: a thread that was blocked then is blocked again. */
export function recordedDelays(runs: readonly RecordedRun[], seed: number): Delays {
  const inOrder = runs.toSorted((a, b) => a.request - b.request)
  const near = (of: (run: RecordedRun) => number | null | undefined, requestOf = firstRequest) =>
    delaysNear(inOrder, seed, of, requestOf)
  /** Relative to the usual delay of as many rows. */
  const byRows = (of: (run: RecordedRun) => number) => {
    const ofRows = [...grouped(inOrder, ({ rows }) => rows)]
    const usual = new SizeMedians(new Map(ofRows.map(([rows, own]) => [rows, own.map(of)])))
    const beyond = near((run) => of(run) - usual.of(run.rows))
    return (rows: number, request: number) => Math.max(0, usual.of(rows) + beyond(request))
  }
  return {
    turnMs: near(({ turnMs }) => turnMs),
    closingMs: near(({ closingMs }) => closingMs, lastRequest),
    handOverMs: near(({ handOverMs }) => handOverMs),
    betweenMs: near(({ betweenMs }) => betweenMs),
    timerMs: near(({ timerMs }) => timerMs),
    inlineMs: near(({ inlineMs }) => inlineMs),
    wakeMs: near(({ wakeMs }) => wakeMs),
    gatherMs: byRows(({ gatherMs }) => gatherMs ?? 0),
    scatterMs: byRows(({ scatterMs }) => scatterMs ?? 0),
    answerMs: near(({ answerMs }) => answerMs),
  }
}

const firstRequest = ({ request }: RecordedRun): number => request
const lastRequest = ({ request, requests = 1 }: RecordedRun): number => request + requests - 1

/** A delay by request, as seen at the runs near it. */
function delaysNear(
  runs: readonly RecordedRun[],
  seed: number,
  of: (run: RecordedRun) => number | null | undefined,
  requestOf: (run: RecordedRun) => number,
): (request: number) => number {
  const seen = runs.filter((run) => of(run) != null)
  if (seen.length === 0) return () => 0
  const allMs = Float64Array.from(seen, (run) => of(run)!)
  const usualMs = localMedians(allMs)
  const moments = new RecordedMoments(seen.map(requestOf), lengthOf(runs), mulberry32(seed))
  return (request) => {
    const { index, again } = moments.take(request)
    const [ms, usual] = [allMs[index]!, usualMs[index]!]
    return again ? Math.min(ms, usual + Math.abs(usual)) : ms
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
