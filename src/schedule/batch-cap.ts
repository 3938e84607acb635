import type { BatchLimits } from '../options/batching.ts'

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
