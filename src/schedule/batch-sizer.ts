import type { BatchLimits } from '../options/batching.ts'
import { estimatedAnswerMs } from './answer-estimate.ts'
import type { RunTimes } from './estimates.ts'

/** Chooses the limits of batches, bucket by bucket. */
export interface BatchSizer {
  limits(bucketKey: string): BatchLimits
}

/** How many rows a batch is to have, whatever its bucket; a request of more is a batch of its own. */
export class BatchCap implements BatchSizer {
  readonly #own: BatchLimits
  #limits: BatchLimits

  /** @param own limits of the model, which hold until another number is set. */
  constructor(own: BatchLimits) {
    this.#own = own
    this.#limits = own
  }

  set rows(rows: number) {
    this.#limits = rows >= this.#own.maxBatchSize ? this.#own : { ...this.#own, preferredBatchSizes: [rows] }
  }

  limits(): BatchLimits {
    return this.#limits
  }
}

/** A smaller batch is as good as the best one when it reaches this share of its rows per second ... */
const asGood = 0.98
/** ... and the present choice stays as long as it reaches this one, so that noise moves nothing. */
const goodEnough = 0.95
/** Buckets whose choice is remembered. */
const maxBuckets = 256
/** Up to so many rows every size is looked at; above, so many between one power of two and the next. */
const everyUpTo = 64
const perDoubling = 16

/** What the size of a bucket's batches is chosen by. */
interface SizeChoice {
  readonly bucketKey: string
  readonly runTimes: RunTimes
  readonly targetMs: number
  readonly instances: number
  /** What comes; `null`, or left out, for just as much as can be worked off. */
  readonly arrivingRowsPerMs?: number | null
  /** The size in use, kept while it is good enough; left out for none. */
  readonly present?: number | undefined
}

/**
 * The batch size with which a bucket answers most rows per second within `targetMs`. A size does so for every request
 * when one that has just missed a batch, and waits until the next instance is done with a run of that size, is admitted
 * still. Where only those are that come later in a run, a size is worth what comes and is admitted, if that is less than
 * it can work off: under overload enough is left to fill larger batches. Of sizes about as good the smallest is taken.
 *
 * @param sizes candidates in rows, ascending.
 */
export function chooseBatchSize(sizes: readonly number[], choice: SizeChoice): number {
  const { bucketKey, runTimes, instances, arrivingRowsPerMs = null, present } = choice
  const rates = sizes.map((rows) => {
    const share = admittedShare(rows, choice)
    const rowsPerMs = (instances * rows) / runTimes.of(bucketKey).usualMs(rows)
    return share === 1 ? rowsPerMs : Math.min(rowsPerMs, share * (arrivingRowsPerMs ?? rowsPerMs))
  })
  const best = rates.reduce((most, rate) => Math.max(most, rate))
  if (present !== undefined && best > 0 && (rates[sizes.indexOf(present)] ?? 0) >= goodEnough * best)
    return present
  return sizes[rates.findIndex((rate) => rate >= asGood * best)]!
}

/** Sizes to choose from, ascending: so few that looking at all of them costs no more than a run, whatever the largest is. */
export function candidateSizes(maxBatchSize: number): number[] {
  const sizes: number[] = []
  let step = 1
  for (let size = 1; size < maxBatchSize; size += step) {
    sizes.push(size)
    if (size >= everyUpTo) step = 2 ** Math.floor(Math.log2(size)) / perDoubling
  }
  return [...sizes, maxBatchSize]
}

/** The part of the requests that come while all instances are busy with runs of `rows` rows and can be admitted. */
function admittedShare(rows: number, { bucketKey, runTimes, targetMs, instances }: SizeChoice): number {
  const waitMs = runTimes.of(bucketKey).presentMs(rows) / instances
  const missed = {
    rowsAhead: 0,
    batchRows: rows,
    joiningRowsPerMs: Infinity,
    instances,
    freeInMs: waitMs,
    sharing: 1,
    keepsTarget: true,
  }
  const lateMs = estimatedAnswerMs(runTimes, bucketKey, rows, missed) - targetMs
  return lateMs <= 0 ? 1 : Math.max(0, 1 - lateMs / waitMs)
}

/** Keeps a model's requests within a latency by the size of its batches; see {@link chooseBatchSize}. */
export class LatencyTarget {
  /** On how many it runs; what follows from a change is seen with the next review. */
  instances: number
  readonly #limits: BatchLimits
  readonly #sizes: readonly number[]
  readonly #targetMs: number
  readonly #runTimes: RunTimes
  readonly #chosen = new Map<string, BatchLimits>()

  /**
   * @param limits the model's own; preferred sizes in them are the only ones chosen from.
   * @param instances on how many it runs.
   */
  constructor(limits: BatchLimits, targetMs: number, runTimes: RunTimes, instances: number) {
    const { maxBatchSize, preferredBatchSizes } = limits
    this.#limits = limits
    this.#sizes = preferredBatchSizes.length > 0 ? preferredBatchSizes : candidateSizes(maxBatchSize)
    this.#targetMs = targetMs
    this.#runTimes = runTimes
    this.instances = instances
  }

  limits(bucketKey: string): BatchLimits {
    let limits = this.#chosen.get(bucketKey)
    if (limits === undefined) {
      limits = this.#runTimes.knows(bucketKey) ? this.#choose(bucketKey, null) : this.#limits
      if (this.#chosen.size >= maxBuckets) this.#chosen.delete(this.#chosen.keys().next().value!)
      this.#chosen.set(bucketKey, limits)
    }
    return limits
  }

  /** Looks again after runs were observed, while so many rows come; true when the choice is another now. */
  review(bucketKey: string, arrivingRowsPerMs: number): boolean {
    const before = this.#chosen.get(bucketKey)
    const after = this.#choose(bucketKey, arrivingRowsPerMs, before?.preferredBatchSizes[0])
    if (
      before !== undefined &&
      before.preferredBatchSizes.length === 1 &&
      before.preferredBatchSizes[0] === after.preferredBatchSizes[0]
    )
      return false
    this.#chosen.set(bucketKey, after)
    return true
  }

  #choose(bucketKey: string, arrivingRowsPerMs: number | null, present?: number): BatchLimits {
    const size = chooseBatchSize(this.#sizes, {
      bucketKey,
      runTimes: this.#runTimes,
      targetMs: this.#targetMs,
      instances: this.instances,
      arrivingRowsPerMs,
      present,
    })
    return { ...this.#limits, preferredBatchSizes: [size] }
  }
}

/** Arrivals that the rate is taken from. */
const arrivalWindow = 32

/** How many rows arrive per millisecond, by the last requests. */
export class ArrivalRate {
  readonly #atMs = new Float64Array(arrivalWindow)
  readonly #rows = new Float64Array(arrivalWindow)
  #sum = 0
  #count = 0
  #next = 0

  arrived(rows: number, nowMs: number): void {
    this.#sum += rows - this.#rows[this.#next]!
    this.#rows[this.#next] = rows
    this.#atMs[this.#next] = nowMs
    this.#next = (this.#next + 1) % arrivalWindow
    this.#count = Math.min(arrivalWindow, this.#count + 1)
  }

  /** 0 before the first two. */
  rowsPerMs(nowMs: number): number {
    if (this.#count < 2) return 0
    const oldestMs = this.#atMs[(this.#next + arrivalWindow - this.#count) % arrivalWindow]!
    // As many as came in one moment may come in the next one.
    return this.#sum / Math.max(1, nowMs - oldestMs)
  }
}
