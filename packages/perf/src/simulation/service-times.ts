import { median, mulberry32, type Random } from 'zerohop/internals'
import {
  lengthOf,
  localMeans,
  localMedians,
  RecordedMoments,
  type RecordedRun,
  runningAtOnce,
} from './recorded-run.ts'
import type { SimulationResult } from './simulation-result.ts'
import { factorAt, type Step } from './traffic.ts'

/** Duration of a run with so many rows, alone on the machine. */
export interface ServiceTime {
  readonly rows: number
  /** On average. */
  readonly ms: number
  /** Measured runs of this size; single durations are drawn with their variation. */
  readonly samplesMs?: readonly number[]
  /**
   * The bucket, if requests of different shapes take different times; left out for the times of all other
   * buckets.
   */
  readonly bucketKey?: string
}

/** Ascending by rows. */
export type ServiceTable = readonly ServiceTime[]

/**
 * Duration of a run: interpolated between the table's sizes, equal to the first below it, and proportional
 * above the last.
 */
export function tableMs(table: ServiceTable, rows: number): number {
  return interpolated(table, rows, (last) => (last.ms * rows) / last.rows)
}

/** Interpolates between the two sizes around `rows`: the first size's time below it, and `beyond` above the last. */
function interpolated(
  points: readonly Pick<ServiceTime, 'rows' | 'ms'>[],
  rows: number,
  beyond: (last: Pick<ServiceTime, 'rows' | 'ms'>) => number,
): number {
  const above = points.findIndex((point) => point.rows >= rows)
  if (above === 0) return points[0]!.ms
  if (above === -1) return beyond(points.at(-1)!)
  const [low, high] = [points[above - 1]!, points[above]!]
  return low.ms + ((high.ms - low.ms) * (rows - low.rows)) / (high.rows - low.rows)
}

/** Most rows per second that one instance can serve with batches of up to `maxBatchSize`. */
export function capacityRowsPerSecond(table: ServiceTable, maxBatchSize: number): number {
  let best = 0
  for (let rows = 1; rows <= maxBatchSize; rows++) best = Math.max(best, rows / tableMs(table, rows))
  return best * 1000
}

/** Run times of one size: their mean, and the factors by which they vary. */
interface SizeTimes {
  readonly ms: number
  readonly factors: Float64Array
}

/** Draws the durations of runs. */
export interface RunDurations {
  /**
   * In milliseconds, alone on the machine.
   *
   * @param atMs when it starts.
   * @param request the number of its first request.
   */
  draw(bucketKey: string, rows: number, atMs: number, request: number): number
  /** The average duration. */
  expectedMs(bucketKey: string, rows: number): number
}

/** Draws durations from a table. */
export class ServiceTimes implements RunDurations {
  readonly #byBucket = new Map<string, (SizeTimes | undefined)[]>()
  readonly #table: ServiceTable
  readonly #jitter: number
  readonly #steps: readonly Step[]
  readonly #random: Random

  /**
   * @param jitter standard deviation of the logarithm, for sizes without measured runs: 0.1 for runs that
   * vary by about 10 %. The mean is not changed.
   */
  constructor(table: ServiceTable, jitter: number, steps: readonly Step[], seed: number) {
    this.#table = table
    this.#jitter = jitter
    this.#steps = steps
    this.#random = mulberry32(seed)
  }

  draw(bucketKey: string, rows: number, atMs: number): number {
    const { ms: meanMs, factors } = this.#of(bucketKey, rows)
    const ms = meanMs * factorAt(this.#steps, atMs)
    if (factors.length > 0) return ms * factors[Math.floor(this.#random() * factors.length)]!
    const jitter = this.#jitter
    return jitter === 0 ? ms : ms * Math.exp(jitter * this.#gaussian() - (jitter * jitter) / 2)
  }

  expectedMs(bucketKey: string, rows: number): number {
    return this.#of(bucketKey, rows).ms
  }

  #of(bucketKey: string, rows: number): SizeTimes {
    let sizes = this.#byBucket.get(bucketKey)
    if (sizes === undefined) this.#byBucket.set(bucketKey, (sizes = []))
    return (sizes[rows] ??= this.#estimate(bucketKey, rows))
  }

  #estimate(bucketKey: string, rows: number): SizeTimes {
    const own = this.#table.filter((point) => point.bucketKey === bucketKey)
    const table = own.length > 0 ? own : this.#table.filter((point) => point.bucketKey === undefined)
    if (table.length === 0)
      throw new RangeError(
        `No service time is given for requests of the shape ${bucketKey}; give one, or one without a bucketKey.`,
      )
    const measured = table.filter(({ samplesMs = [] }) => samplesMs.length > 0)
    const nearest = measured.find((point) => point.rows >= rows) ?? measured.at(-1)
    return { ms: tableMs(table, rows), factors: factorsOf(nearest?.samplesMs ?? []) }
  }

  #gaussian(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random())
  }
}

function factorsOf(samplesMs: readonly number[]): Float64Array {
  const meanMs = samplesMs.reduce((sum, ms) => sum + ms, 0) / samplesMs.length
  return Float64Array.from(samplesMs, (ms) => ms / meanMs)
}

/** With fewer runs of a size their times say nothing, as one of them may have been delayed. */
export const fewestRuns = 3

/** Run times of a size, and their number. */
interface Seen {
  readonly rows: number
  readonly ms: number
  readonly runs: number
}

/**
 * Median run times by rows. Between sizes that ran often enough it interpolates; above them it follows a line
 * fitted to all of these, weighted by their runs. Times never fall with more rows. If only one size ran often
 * enough, others are proportional.
 */
export class SizeMedians {
  readonly #seen: readonly Seen[]
  readonly #msPerRow: number
  readonly #byRows: (number | undefined)[] = []

  /** @param msByRows at least one size. */
  constructor(msByRows: ReadonlyMap<number, readonly number[]>) {
    const all = [...msByRows]
      .map(([rows, ms]): Seen => ({ rows, ms: median(ms), runs: ms.length }))
      .sort((a, b) => a.rows - b.rows)
    const telling = all.filter(({ runs }) => runs >= fewestRuns)
    this.#seen = rising(telling.length > 0 ? telling : all)
    // If only one size ran often enough, the others at least show whether more rows take longer.
    this.#msPerRow = slopeOf(telling.length === 1 ? rising(all) : this.#seen, this.#seen.at(-1)!)
  }

  of(rows: number): number {
    return (this.#byRows[rows] ??= interpolated(
      this.#seen,
      rows,
      (last) => last.ms + this.#msPerRow * (rows - last.rows),
    ))
  }
}

/** Merges neighbours of which the larger took less: both get their average, weighted by their runs. */
function rising(seen: readonly Seen[]): Seen[] {
  const levels: { ms: number; runs: number; sizes: number }[] = []
  for (const { ms, runs } of seen) {
    let level = { ms, runs, sizes: 1 }
    for (let before = levels.at(-1); before !== undefined && before.ms > level.ms; before = levels.at(-1)) {
      levels.pop()
      const both = before.runs + level.runs
      level = {
        ms: (before.ms * before.runs + level.ms * level.runs) / both,
        runs: both,
        sizes: before.sizes + level.sizes,
      }
    }
    levels.push(level)
  }
  const times = levels.flatMap(({ ms, sizes }) => Array.from({ length: sizes }, () => ms))
  return seen.map(({ rows, runs }, index) => ({ rows, runs, ms: times[index]! }))
}

/** The slope of the least squares line. It is not negative, and the line is not negative at no rows. */
function slopeOf(seen: readonly Seen[], last: Seen): number {
  const inProportion = last.ms / last.rows
  const runs = seen.reduce((sum, size) => sum + size.runs, 0)
  const meanOf = (read: (size: Seen) => number) =>
    seen.reduce((sum, size) => sum + read(size) * size.runs, 0) / runs
  const meanRows = meanOf(({ rows }) => rows)
  const spread = meanOf(({ rows }) => (rows - meanRows) ** 2)
  if (spread === 0) return inProportion
  return Math.min(inProportion, Math.max(0, meanOf(({ rows, ms }) => (rows - meanRows) * ms) / spread))
}

/** A trusted prediction may have up to this share of its batches in sizes that hardly ran. */
export const trustedSeldomShare = 0.1

/**
 * The share of predicted batches whose sizes hardly ran in a recording, so that their times are estimated
 * from other sizes.
 */
export interface SeldomSizes {
  readonly batches: number
  /** Of sizes that never ran. */
  readonly neverRan: number
  /** Of sizes that ran fewer than {@link fewestRuns} times. */
  readonly seldomRan: number
  /** Whether both together are at most {@link trustedSeldomShare} of the batches. */
  readonly isTrusted: boolean
}

/** Looks up the sizes of a prediction among the runs that it was made from. */
export function seldomSizes(
  runs: readonly { readonly rows: number }[],
  { batches }: Pick<SimulationResult, 'batches'>,
): SeldomSizes {
  const ran = new Map<number, number>()
  for (const { rows } of runs) ran.set(rows, (ran.get(rows) ?? 0) + 1)
  const sizes = Object.entries(batches).map(([rows, count]) => ({ count, times: ran.get(Number(rows)) ?? 0 }))
  const total = (of: typeof sizes) => of.reduce((sum, { count }) => sum + count, 0)
  const all = total(sizes)
  const neverRan = total(sizes.filter(({ times }) => times === 0))
  const seldomRan = total(sizes.filter(({ times }) => times > 0 && times < fewestRuns))
  return { batches: all, neverRan, seldomRan, isTrusted: neverRan + seldomRan <= all * trustedSeldomShare }
}

/** Iterations of estimating sizes, times and slowdown from each other; they converge within fewer. */
const refinements = 12

/** A run takes at least the resolution of recordings, a tenth of a microsecond. */
const leastMs = 0.0001

/**
 * Run times of a recording: by size, by how fast the machine was at the time, and by the number of concurrent
 * runs. A run's duration is taken from recorded runs near the same request. A shared machine has slow phases,
 * with their queues, and single stalls; runs drawn from the whole recording would not reproduce these.
 */
export class RecordedDurations implements RunDurations {
  /** By what share each further concurrent run slows the others. */
  slowing = 0
  readonly #runs: readonly RecordedRun[]
  readonly #atOnce: Float64Array
  readonly #moments: RecordedMoments
  /** Estimated durations alone on the machine. */
  #aloneMs: Float64Array
  #usual = new Map<string, SizeMedians>()
  /** How slow runs were near each, as a factor of the usual time. */
  #local: Float64Array

  /** @param runs at least one. */
  constructor(runs: readonly RecordedRun[], seed: number) {
    this.#runs = runs
      .map((run) => ({ ...run, ms: Math.max(leastMs, run.ms) }))
      .sort((a, b) => a.request - b.request)
    this.#atOnce = runningAtOnce(this.#runs)
    this.#moments = new RecordedMoments(
      this.#runs.map(({ request }) => request),
      lengthOf(this.#runs),
      mulberry32(seed),
    )
    this.#local = new Float64Array(runs.length).fill(1)
    this.#aloneMs = this.#local
    for (let round = 0; round < refinements; round++) this.#refine()
  }

  /** Factors by which runs get slower when 1, 2, ... run at once. */
  slowdown(instances: number): number[] {
    return Array.from({ length: instances }, (_, others) => 1 + this.slowing * others)
  }

  expectedMs(bucketKey: string, rows: number): number {
    return (this.#usual.get(bucketKey) ?? this.#usual.values().next().value!).of(rows)
  }

  draw(bucketKey: string, rows: number, _atMs: number, request: number): number {
    const { index: near, again } = this.#moments.take(request)
    const { bucketKey: itsKey, rows: itsRows } = this.#runs[near]!
    const local = this.#local[near]!
    const itsMs = this.expectedMs(itsKey, itsRows) * local
    const ms = this.expectedMs(bucketKey, rows) * local
    const moreMs = Math.min(this.#aloneMs[near]! - itsMs, again ? itsMs : Infinity)
    // A blocked thread is blocked for the same time whatever it runs; a fast one is faster in proportion.
    return moreMs > 0 ? ms + moreMs : (ms * this.#aloneMs[near]!) / itsMs
  }

  #refine(): void {
    const { slowing } = this
    this.#aloneMs = Float64Array.from(
      this.#runs,
      ({ ms }, index) => ms / (1 + slowing * (this.#atOnce[index]! - 1)),
    )
    const byBucket = new Map<string, Map<number, number[]>>()
    for (const [index, { bucketKey, rows }] of this.#runs.entries()) {
      let sizes = byBucket.get(bucketKey)
      if (sizes === undefined) byBucket.set(bucketKey, (sizes = new Map()))
      const ms = this.#aloneMs[index]! / this.#local[index]!
      const seen = sizes.get(rows)
      if (seen === undefined) sizes.set(rows, [ms])
      else seen.push(ms)
    }
    this.#usual = new Map([...byBucket].map(([bucketKey, sizes]) => [bucketKey, new SizeMedians(sizes)]))
    const ratios = Float64Array.from(
      this.#runs,
      ({ bucketKey, rows }, index) => this.#aloneMs[index]! / this.expectedMs(bucketKey, rows),
    )
    this.#local = localMedians(ratios)
    this.slowing = this.#estimateSlowing(ratios)
  }

  /**
   * By what share a run took longer than its neighbours when more ran at once than beside them. Only
   * neighbours are compared: when the machine is slow, runs take long and more of them overlap, without one
   * causing the other.
   */
  #estimateSlowing(ratios: Float64Array): number {
    const usual = localMeans(this.#atOnce)
    let [both, own] = [0, 0]
    for (const [index, atOnce] of this.#atOnce.entries()) {
      const more = atOnce - usual[index]!
      both += more * (ratios[index]! / this.#local[index]!) * (1 + this.slowing * (atOnce - 1))
      own += more * more
    }
    // Concurrency never makes a run faster, and two concurrent runs never take longer than one after the
    // other.
    return own === 0 ? 0 : Math.min(1, Math.max(0, both / own))
  }
}
