import { mulberry32, type Random } from 'zerohop/internals'
import { factorAt, type Step } from './factor-steps.ts'

/** What a run of so many rows takes, alone on the machine. */
export interface ServiceTime {
  readonly rows: number
  /** On average. */
  readonly ms: number
  /** Measured runs of this size: what single ones take is drawn as they differ. */
  readonly samplesMs?: readonly number[]
  /** Of which bucket, where requests of different shapes take different times; left out for all that have none of their own. */
  readonly bucketKey?: string
}

/** Ascending by rows. */
export type ServiceTable = readonly ServiceTime[]

/** What a run takes: on the lines between the sizes of the table, as the first below it, in proportion above the last. */
export function tableMs(table: ServiceTable, rows: number): number {
  const above = table.findIndex((point) => point.rows >= rows)
  if (above === 0) return table[0]!.ms
  if (above === -1) {
    const last = table.at(-1)!
    return (last.ms * rows) / last.rows
  }
  const low = table[above - 1]!
  const high = table[above]!
  return low.ms + ((high.ms - low.ms) * (rows - low.rows)) / (high.rows - low.rows)
}

/** Most rows a second that one instance can serve with batches of up to `maxBatchSize`. */
export function capacityRowsPerSecond(table: ServiceTable, maxBatchSize: number): number {
  let best = 0
  for (let rows = 1; rows <= maxBatchSize; rows++) best = Math.max(best, rows / tableMs(table, rows))
  return best * 1000
}

/** What runs of one size take: their mean, and by which factors they differ from it. */
interface SizeTimes {
  readonly ms: number
  readonly factors: Float64Array
}

/** Draws what single runs take. */
export interface RunDurations {
  /**
   * In milliseconds, alone on the machine.
   *
   * @param atMs when it starts.
   * @param request the number of its first request.
   */
  draw(bucketKey: string, rows: number, atMs: number, request: number): number
  /** What one takes on average. */
  expectedMs(bucketKey: string, rows: number): number
}

/** By a table. */
export class ServiceTimes implements RunDurations {
  readonly #byBucket = new Map<string, (SizeTimes | undefined)[]>()
  readonly #table: ServiceTable
  readonly #jitter: number
  readonly #steps: readonly Step[]
  readonly #random: Random

  /** @param jitter standard deviation of the logarithm, for sizes without measured runs: 0.1 for runs that differ by about 10 %. Their mean stays. */
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
    return (sizes[rows] ??= this.#reckon(bucketKey, rows))
  }

  #reckon(bucketKey: string, rows: number): SizeTimes {
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
