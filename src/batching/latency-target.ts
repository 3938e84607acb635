import { estimatedAnswerMs } from './admission.ts'
import type { BatchLimits } from '../scheduling.ts'
import type { BatchSizer } from './batch-policy.ts'
import type { RunTimes } from './run-times.ts'

/** A smaller batch is as good as the best one when it reaches this share of its rows per second ... */
const asGood = 0.98
/** ... and the present choice stays as long as it reaches this one, so that noise moves nothing. */
const goodEnough = 0.95
/** Buckets whose choice is remembered. */
const maxBuckets = 256

/**
 * The batch size with which a bucket serves most rows per second while its requests stay within `targetMs`: one that has
 * just missed a batch, and waits until the next instance is done with a run of that size, must still be admitted. Of
 * sizes that are about as good the smallest is taken. When no size is as quick as that, those count for as much as the
 * share of a run's time in which a request may come and be admitted.
 *
 * @param sizes candidates in rows, ascending.
 * @param present the size in use, kept while it still fits and is good enough.
 */
export function chooseBatchSize(
  sizes: readonly number[],
  bucketKey: string,
  runTimes: RunTimes,
  targetMs: number,
  instances: number,
  present?: number,
): number {
  const shares = sizes.map((rows) => admittedShare(rows, bucketKey, runTimes, targetMs, instances))
  const enough = shares.includes(1) ? 1 : Number.MIN_VALUE
  const rates = sizes.map((rows, index) =>
    shares[index]! >= enough ? (shares[index]! * rows) / runTimes.medianMs(bucketKey, rows) : 0,
  )
  const best = Math.max(...rates)
  if (present !== undefined && best > 0 && (rates[sizes.indexOf(present)] ?? 0) >= goodEnough * best) return present
  return sizes[rates.findIndex((rate) => rate >= asGood * best)]!
}

/** The part of the requests that come while all instances are busy with runs of `rows` rows and can be admitted. */
function admittedShare(rows: number, bucketKey: string, runTimes: RunTimes, targetMs: number, instances: number): number {
  const waitMs = runTimes.presentMs(bucketKey, rows) / instances
  const missed = { rowsAhead: 0, batchRows: rows, joiningRowsPerMs: Infinity, instances, freeInMs: waitMs, sharing: 1 }
  const lateMs = estimatedAnswerMs(runTimes, bucketKey, rows, missed) - targetMs
  return lateMs <= 0 ? 1 : Math.max(0, 1 - lateMs / waitMs)
}

/** Keeps a model's requests within a latency by the size of its batches; see {@link chooseBatchSize}. */
export class LatencyTarget implements BatchSizer {
  readonly #limits: BatchLimits
  readonly #sizes: readonly number[]
  readonly #targetMs: number
  readonly #runTimes: RunTimes
  readonly #instances: number
  readonly #chosen = new Map<string, BatchLimits>()

  /**
   * @param limits the model's own; preferred sizes in them are the only ones chosen from.
   * @param instances on how many it runs.
   */
  constructor(limits: BatchLimits, targetMs: number, runTimes: RunTimes, instances: number) {
    const { maxBatchSize, preferredBatchSizes } = limits
    this.#limits = limits
    this.#sizes = preferredBatchSizes.length > 0 ? preferredBatchSizes : Array.from({ length: maxBatchSize }, (_, index) => index + 1)
    this.#targetMs = targetMs
    this.#runTimes = runTimes
    this.#instances = instances
  }

  limits(bucketKey: string): BatchLimits {
    let limits = this.#chosen.get(bucketKey)
    if (limits === undefined) {
      limits = this.#runTimes.knows(bucketKey) ? this.#choose(bucketKey) : this.#limits
      if (this.#chosen.size >= maxBuckets) this.#chosen.delete(this.#chosen.keys().next().value!)
      this.#chosen.set(bucketKey, limits)
    }
    return limits
  }

  /** Looks again after runs were observed; true when the choice is another now. */
  review(bucketKey: string): boolean {
    const before = this.#chosen.get(bucketKey)
    const after = this.#choose(bucketKey, before?.preferredBatchSizes[0])
    if (before !== undefined && before.preferredBatchSizes.length === 1 && before.preferredBatchSizes[0] === after.preferredBatchSizes[0]) return false
    this.#chosen.set(bucketKey, after)
    return true
  }

  #choose(bucketKey: string, present?: number): BatchLimits {
    const size = chooseBatchSize(this.#sizes, bucketKey, this.#runTimes, this.#targetMs, this.#instances, present)
    return { ...this.#limits, preferredBatchSizes: [size] }
  }
}
