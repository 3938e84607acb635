import { type Arrival, type ArrivalRun, defaultInline, type Random } from 'zerohop/internals'
import type { Delays, Overheads } from './delays.ts'
import type { SeldomSizes } from './service-times.ts'
import { countUpTo, quantilesOf, type SimulationResult } from './simulation-result.ts'
import { bucketOf, firstGivenUs } from './traffic.ts'

/**
 * A recorded run, with the {@link Delays} around it; `null` or left out where the recording shows none: a batch that
 * waited for an instance has no `turnMs`, for example, and a run that was not prefetched no `betweenMs`.
 */
export interface RecordedRun extends Readonly<Partial<Record<keyof Delays, number | null>>> {
  /** Start, in milliseconds since the first request. */
  readonly atMs: number
  /** The recorded request whose first run it was, counted from 0. */
  readonly request: number
  /** Requests of its batch; left out for 1. */
  readonly requests?: number
  readonly rows: number
  /** Duration. */
  readonly ms: number
  readonly bucketKey: string
}

/** Number of requests in a recording, as far as its runs show it. */
export function lengthOf(runs: readonly RecordedRun[]): number {
  return runs.reduce((most, { request, requests = 1 }) => Math.max(most, request + requests), 1)
}

/** So many runs of consecutive requests show how fast the machine was at the time. */
const neighbours = 15

/** For each run, the first of its neighbours: {@link neighbours} of them, or as many as there are. */
function firstNeighbour(index: number, count: number): number {
  return Math.max(0, Math.min(index - (neighbours >> 1), count - neighbours))
}

/** For each of `values`, the mean of its neighbours. */
export function localMeans(values: ArrayLike<number>): Float64Array {
  const { length: count } = values
  const sums = new Float64Array(count + 1)
  for (let index = 0; index < count; index++) sums[index + 1] = sums[index]! + values[index]!
  return Float64Array.from({ length: count }, (_, index) => {
    const from = firstNeighbour(index, count)
    const until = Math.min(count, from + neighbours)
    return (sums[until]! - sums[from]!) / (until - from)
  })
}

/** For each of `values`, the median of its neighbours. */
export function localMedians(values: Float64Array): Float64Array {
  const { length: count } = values
  return values.map((_, index) => {
    const from = firstNeighbour(index, count)
    const sorted = values.slice(from, from + neighbours).sort()
    return sorted[sorted.length >> 1]!
  })
}

/** The average number of concurrent runs during each run, including itself. */
export function runningAtOnce(runs: readonly RecordedRun[]): Float64Array {
  const sharedMs = Float64Array.from(runs, ({ ms }) => ms)
  const open: number[] = [] // ends of runs that may still be going on
  const byStart = [...runs.keys()].sort((a, b) => runs[a]!.atMs - runs[b]!.atMs)
  for (const index of byStart) {
    const { atMs, ms } = runs[index]!
    let kept = 0
    for (const other of open) {
      const { atMs: otherMs, ms: otherTook } = runs[other]!
      if (otherMs + otherTook <= atMs) continue
      const overlapMs = Math.min(atMs + ms, otherMs + otherTook) - atMs
      sharedMs[index]! += overlapMs
      sharedMs[other]! += overlapMs
      open[kept++] = other
    }
    open.length = kept
    open.push(index)
  }
  return sharedMs.map((shared, index) => (runs[index]!.ms === 0 ? 1 : shared / runs[index]!.ms))
}

/** Figures measured when a recording was made; latencies are `null` if nothing was answered. */
export interface RecordedFigures extends Pick<
  SimulationResult,
  | 'requests'
  | 'answered'
  | 'p50Ms'
  | 'p90Ms'
  | 'p95Ms'
  | 'p99Ms'
  | 'maxMs'
  | 'throughputPerSecond'
  | 'rowsPerSecond'
> {
  /** `null` if no runs were recorded. */
  readonly meanBatchRows: number | null
}

/** Summarises a recording like a simulation. */
export function recordedFigures(arrivals: readonly Arrival[]): RecordedFigures {
  const answered = arrivals.filter(({ latencyUs }) => latencyUs !== undefined)
  const sortedMs = Float64Array.from(answered, ({ latencyUs }) => latencyUs! / 1000).sort()
  const lastUs = answered.reduce((last, { atUs, latencyUs }) => Math.max(last, atUs + latencyUs!), 0)
  const perSecond = (count: number) => (lastUs === 0 ? 0 : (count * 1e6) / lastUs)
  const runs = arrivals.flatMap(({ runs = [] }) => runs)
  return {
    requests: arrivals.length,
    answered: answered.length,
    ...quantilesOf(sortedMs),
    throughputPerSecond: perSecond(answered.length),
    rowsPerSecond: perSecond(answered.reduce((sum, { rows }) => sum + rows, 0)),
    meanBatchRows: runs.length === 0 ? null : runs.reduce((sum, { rows }) => sum + rows, 0) / runs.length,
  }
}

/** Largest errors of a trusted prediction, as shares. */
export const trustedWithin = { p99: 0.15, throughput: 0.05 }

/** How well the simulation predicts a recording in the configuration and at the speed of the recording. */
export interface PredictionCheck {
  /** Error of the predicted p99, as a share of the recorded one; negative if it is too low. */
  readonly p99Off: number
  readonly throughputOff: number
  /**
   * Whether both errors are within {@link trustedWithin}, and the batch sizes ran often enough to know their
   * times.
   */
  readonly isTrusted: boolean
}

/**
 * Compares a prediction with its recording; `null` if nothing was answered.
 *
 * @param sizes of the prediction, looked up in the recording; `null` if run times come from elsewhere.
 */
export function checkPrediction(
  recorded: RecordedFigures,
  predicted: SimulationResult,
  sizes: SeldomSizes | null = null,
): PredictionCheck | null {
  if (recorded.answered === 0) return null
  const p99Off = shareOff(predicted.p99Ms ?? 0, recorded.p99Ms!)
  const throughputOff = shareOff(predicted.throughputPerSecond, recorded.throughputPerSecond)
  return {
    p99Off,
    throughputOff,
    isTrusted: isWithin({ p99Off, throughputOff }) && sizes?.isTrusted !== false,
  }
}

/** Whether a recording was predicted well enough. */
export function isWithin({
  p99Off,
  throughputOff,
}: Pick<PredictionCheck, 'p99Off' | 'throughputOff'>): boolean {
  return Math.abs(p99Off) <= trustedWithin.p99 && Math.abs(throughputOff) <= trustedWithin.throughput
}

/** Answers in no time, as from a cache, allow no share: then only equality counts. */
function shareOff(predicted: number, recorded: number): number {
  return predicted === recorded ? 0 : predicted / recorded - 1
}

/** A run, and the request that it is recorded with. */
interface NotedRun {
  readonly run: ArrivalRun
  readonly arrival: Arrival
  /** Number of the request. */
  readonly request: number
  /** Which of its runs, if it was split. */
  readonly part: number
}

/** Recorded times are rounded to a tenth of a microsecond, and several are added. */
const roundingUs = 0.3

/** What the application's thread did for the runs of a recording, and when. It does one thing at a time. */
class RecordedThread {
  readonly #cameUs: readonly number[]
  /** Times of answers, ascending. */
  readonly #answeredUs: readonly number[]
  /** Times in which it closed and gathered batches, and ran them if it did so itself. */
  readonly #taking: Spans
  /** Times in which it scattered outputs and gave answers. */
  readonly #giving: Spans

  constructor(arrivals: readonly Arrival[], runs: readonly NotedRun[]) {
    this.#cameUs = arrivals.map(({ atUs }) => atUs)
    this.#answeredUs = arrivals
      .flatMap(({ atUs, latencyUs }) => (latencyUs === undefined ? [] : [atUs + latencyUs]))
      .sort((a, b) => a - b)
    this.#taking = new Spans(
      runs.map(({ run }) => [run.takenAtUs, run.inline === true ? endUs(run) : run.takenAtUs + run.gatherUs]),
    )
    this.#giving = new Spans(
      runs.map((noted) => [endUs(noted.run) + noted.run.wakeUs, this.#lastGivenUs(noted)]),
    )
  }

  /** Batches in flight at a moment, as far as the thread knew. */
  outAt(atUs: number): number {
    return this.#taking.begunBy(atUs) - this.#giving.begunBy(atUs)
  }

  /**
   * How long it took to react to the end of a run, by taking the next batch or scattering outputs, apart from
   * other work.
   */
  wakeUs(run: ArrivalRun): number {
    const toldUs = this.#toldUs(run)
    return Math.max(
      0,
      toldUs - Math.max(endUs(run), this.#taking.lastEndUs(toldUs), this.#giving.lastEndUs(toldUs)),
    )
  }

  /** From there until the first answer, without the batches that it took in between. */
  scatterUs({ run, arrival }: NotedRun): number {
    const fromUs = this.#toldUs(run)
    const untilUs = firstGivenUs(arrival, run)
    return Math.max(0, untilUs - fromUs - this.#taking.withinUs(fromUs, untilUs))
  }

  /** From one answer of a run to the next; `null` for a single answer. */
  answerUs(noted: NotedRun): number | null {
    const { requests } = noted.run
    return requests === 1
      ? null
      : (this.#lastGivenUs(noted) - firstGivenUs(noted.arrival, noted.run)) / (requests - 1)
  }

  /**
   * From the request that filled a batch until the batch was closed; `null` if a request did not close it.
   */
  closingUs({ run, request }: NotedRun, instances: number): number | null {
    const { reason, takenAtUs, requests } = run
    const last = countUpTo(this.#cameUs, takenAtUs) - 1
    if ((reason !== 'full' && reason !== 'preferred') || last !== request + requests - 1) return null
    const cameUs = this.#cameUs[last]!
    return this.outAt(cameUs) < 2 * instances ? takenAtUs - cameUs : null
  }

  #toldUs(run: ArrivalRun): number {
    const ranUs = endUs(run)
    return run.inline === true ? ranUs : Math.min(ranUs + run.wakeUs, this.#taking.nextUs(ranUs))
  }

  /** All answers of a run are given before anything else is done. */
  #lastGivenUs({ run, arrival }: NotedRun): number {
    const firstUs = firstGivenUs(arrival, run)
    const lastUs =
      this.#answeredUs[countUpTo(this.#answeredUs, firstUs - roundingUs) + run.requests - 1] ?? firstUs
    return lastUs > this.#taking.nextUs(firstUs) ? firstUs : Math.max(firstUs, lastUs)
  }
}

/** Consecutive spans of a thread's work. */
class Spans {
  readonly #fromUs: readonly number[]
  readonly #untilUs: readonly number[]

  constructor(spans: readonly (readonly [fromUs: number, untilUs: number])[]) {
    const sorted = spans.toSorted(([a], [b]) => a - b)
    this.#fromUs = sorted.map(([fromUs]) => fromUs)
    this.#untilUs = sorted.map(([, untilUs]) => untilUs)
  }

  /** Number of spans begun by then. */
  begunBy(atUs: number): number {
    return countUpTo(this.#fromUs, atUs)
  }

  /** When the next span begins after a moment; `Infinity` for none. */
  nextUs(atUs: number): number {
    return this.#fromUs[this.begunBy(atUs)] ?? Infinity
  }

  /** When the last span ended that began before a moment; at most that moment. */
  lastEndUs(atUs: number): number {
    return Math.min(atUs, this.#untilUs[this.begunBy(atUs - roundingUs) - 1] ?? 0)
  }

  /** Total work between two moments. */
  withinUs(fromUs: number, untilUs: number): number {
    let us = 0
    for (
      let at = this.begunBy(fromUs - roundingUs);
      at < this.#fromUs.length && this.#fromUs[at]! < untilUs;
      at++
    )
      us += this.#untilUs[at]! - this.#fromUs[at]!
    return us
  }
}

function endUs({ takenAtUs, gatherUs, handOverUs, runUs }: ArrivalRun): number {
  return takenAtUs + gatherUs + handOverUs + runUs
}

/** Values seen at some requests of a recording. Each is used once, so that a single stall occurs once. */
export class RecordedMoments {
  readonly #requests: readonly number[]
  readonly #taken: Uint8Array
  readonly #random: Random
  /** Length in requests, after which the recording repeats, and the number of repetitions. */
  readonly #length: number
  #rounds = 0

  /**
   * @param requests their numbers, ascending, at least one.
   * @param length of the recording, in requests.
   */
  constructor(requests: readonly number[], length: number, random: Random) {
    this.#requests = requests
    this.#taken = new Uint8Array(requests.length)
    this.#random = random
    this.#length = length
  }

  /**
   * The unused value nearest to a request. When all are used, a random one, with `again`; it then does not
   * count as a stall.
   */
  take(request: number): { readonly index: number; readonly again: boolean } {
    const rounds = Math.floor(request / this.#length)
    if (rounds > this.#rounds) this.#taken.fill(0)
    this.#rounds = Math.max(rounds, this.#rounds)
    const wanted = request % this.#length
    const count = this.#requests.length
    const from = firstNeighbour(countUpTo(this.#requests, wanted - 1), count)
    const until = Math.min(count, from + neighbours)
    let nearest = -1
    for (let index = from; index < until; index++) {
      if (this.#taken[index] === 1) continue
      if (
        nearest === -1 ||
        Math.abs(this.#requests[index]! - wanted) < Math.abs(this.#requests[nearest]! - wanted)
      )
        nearest = index
    }
    if (nearest === -1) return { index: from + Math.floor(this.#random() * (until - from)), again: true }
    this.#taken[nearest] = 1
    return { index: nearest, again: false }
  }
}

/** The runs of a recording, in order of their starts. */
export function runsOf(arrivals: readonly Arrival[]): RecordedRun[] {
  const noted = arrivals.flatMap((arrival, request) =>
    (arrival.runs ?? []).map((run, part): NotedRun => ({ arrival, request, run, part })),
  )
  noted.sort((a, b) => startUs(a.run) - startUs(b.run))
  const thread = new RecordedThread(arrivals, noted)
  const config = configIn(arrivals)
  const instances = config?.instances ?? instancesIn(arrivals)
  const freeUs = new Map<string, number>()
  return noted.map((own) => {
    const { arrival, request, run, part } = own
    const { rows, runUs, instance, inline = false, handOverUs, gatherUs, takenAtUs } = run
    const endUs = freeUs.get(instance) ?? 0
    const wasFree = endUs <= takenAtUs + gatherUs
    freeUs.set(instance, startUs(run) + runUs)
    const waitedMs = part === 0 ? (takenAtUs - arrival.atUs) / 1000 : null
    return {
      atMs: startUs(run) / 1000,
      request,
      requests: run.requests,
      rows,
      ms: runUs / 1000,
      bucketKey: bucketOf(arrival),
      turnMs:
        thread.outAt(arrival.atUs) < instances && closedWhenSeen(run, config?.maxQueueDelayMs ?? 0)
          ? waitedMs
          : null,
      closingMs: toMs(thread.closingUs(own, instances)),
      timerMs:
        waitedMs !== null && run.reason === 'delay' && config !== null
          ? Math.max(0, waitedMs - config.maxQueueDelayMs)
          : null,
      handOverMs: wasFree && !inline ? handOverUs / 1000 : null,
      betweenMs: wasFree || inline ? null : (startUs(run) - endUs) / 1000,
      inlineMs: inline ? handOverUs / 1000 : null,
      wakeMs: inline ? null : thread.wakeUs(run) / 1000,
      gatherMs: gatherUs / 1000,
      scatterMs: thread.scatterUs(own) / 1000,
      answerMs: toMs(thread.answerUs(own)),
    }
  })
}

/** The configuration at the beginning of a recording; `null` if it has none. */
export function configIn(arrivals: readonly Arrival[]): NonNullable<Arrival['config']> | null {
  return arrivals.find(({ config }) => config !== undefined)?.config ?? null
}

/**
 * Whether a batch was closed as soon as an instance and the event loop were free, or before: it waited for
 * nothing else.
 */
function closedWhenSeen({ reason }: ArrivalRun, maxQueueDelayMs: number): boolean {
  return (
    reason === undefined ||
    reason === 'idle' ||
    reason === 'bucket' ||
    ((reason === 'full' || reason === 'preferred') && maxQueueDelayMs === 0)
  )
}

/** Number of instances that ran something in a recording. */
export function instancesIn(arrivals: readonly Arrival[]): number {
  return new Set(arrivals.flatMap(({ runs = [] }) => runs.map(({ instance }) => instance))).size
}

/** Whether the application's thread ran batches itself in a recording. */
export function inlineIn(arrivals: readonly Arrival[]): Overheads['inline'] {
  return arrivals.some(({ runs = [] }) => runs.some(({ inline }) => inline === true)) ? defaultInline : null
}

function startUs({ takenAtUs, gatherUs, handOverUs }: ArrivalRun): number {
  return takenAtUs + gatherUs + handOverUs
}

function toMs(us: number | null): number | null {
  return us === null ? null : us / 1000
}
