import type { BatchLimits } from './batch-policy.ts'
import { admissionMarginMs } from './admission.ts'
import type { BatchSizer } from './batcher.ts'
import type { RunTimes } from './run-times.ts'

/** A smaller batch is as good as the best one when it reaches this share of its rows per second ... */
const asGood = 0.98
/** ... and the present choice stays as long as it reaches this one, so that noise moves nothing. */
const goodEnough = 0.95
/** Buckets whose choice is remembered. */
const maxBuckets = 256

/** What is known of the runs of one bucket, by rows. */
export type RunTable = Pick<RunTimes, 'p99Ms' | 'medianMs'>

/**
 * The batch size with which a bucket serves most rows per second while its requests stay within `targetMs`: a request
 * that has just missed a batch waits for that one and runs in the next, so two runs must fit. Of sizes that are about
 * as good the smallest is taken; when not even the smallest fits, that one.
 *
 * @param sizes candidates in rows, ascending.
 * @param present the size in use, kept while it still fits and is good enough.
 */
export function chooseBatchSize(sizes: readonly number[], bucketKey: string, runs: RunTable, targetMs: number, instances: number, present?: number): number {
  const rate = (rows: number) => rows / runs.medianMs(bucketKey, rows)
  const fits = (rows: number) => (1 + 1 / instances) * runs.p99Ms(bucketKey, rows) + admissionMarginMs <= targetMs
  let best = 0
  for (const rows of sizes) if (fits(rows)) best = Math.max(best, rate(rows))
  if (present !== undefined && fits(present) && rate(present) >= goodEnough * best) return present
  return sizes.find((rows) => fits(rows) && rate(rows) >= asGood * best) ?? sizes[0]!
}

/** Keeps a model's requests within a latency by the size of its batches; see {@link chooseBatchSize}. */
export class LatencyTarget implements BatchSizer {
  readonly #limits: BatchLimits
  readonly #sizes: readonly number[]
  readonly #targetMs: number
  readonly #instances: number
  readonly #runTimes: RunTimes
  readonly #chosen = new Map<string, BatchLimits>()

  /** @param limits the model's own; preferred sizes in them are the only ones chosen from. */
  constructor(limits: BatchLimits, targetMs: number, runTimes: RunTimes, instances = 1) {
    this.#instances = instances
    const { maxBatchSize, preferredBatchSizes } = limits
    this.#limits = limits
    this.#sizes = preferredBatchSizes.length > 0 ? preferredBatchSizes : Array.from({ length: maxBatchSize }, (_, index) => index + 1)
    this.#targetMs = targetMs
    this.#runTimes = runTimes
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
