/** One tenant's account. */
export interface Share<T> {
  readonly tenant: T
  /** Virtual time at which what it was given so far is used up, in milliseconds. */
  finishMs: number
  /** What its last batch took. */
  lastMs: number
}

/** A batch that was charged to a share before its time was known. */
export interface Charge<T> {
  readonly share: Share<T>
  readonly estimateMs: number
}

/**
 * Divides a worker among its tenants by measured milliseconds: start-time fair queueing, where a batch is charged with
 * what the last one took and corrected when it is done. A tenant that was idle gets no credit for it.
 */
export class FairShare<T> {
  readonly #shares: Share<T>[] = []
  #virtualMs = 0

  get size(): number {
    return this.#shares.length
  }

  get tenants(): T[] {
    return this.#shares.map(({ tenant }) => tenant)
  }

  join(tenant: T): void {
    this.#shares.push({ tenant, finishMs: this.#virtualMs, lastMs: 0 })
  }

  part(tenant: T): void {
    const index = this.#shares.findIndex((share) => share.tenant === tenant)
    if (index !== -1) this.#shares.splice(index, 1)
  }

  /** The shares, least served first. */
  leastServedFirst(): readonly Share<T>[] {
    return this.#shares.length > 1 ? this.#shares.toSorted((a, b) => a.finishMs - b.finishMs) : this.#shares
  }

  /** Charges a batch about to be handed over. */
  charge(tenant: T): Charge<T> {
    const share = this.#shares.find((candidate) => candidate.tenant === tenant)!
    this.#virtualMs = Math.max(this.#virtualMs, share.finishMs)
    share.finishMs = this.#virtualMs + share.lastMs
    return { share, estimateMs: share.lastMs }
  }

  /** Corrects a charge by what the batch really took. */
  settle({ share, estimateMs }: Charge<T>, tookMs: number): void {
    share.finishMs += tookMs - estimateMs
    share.lastMs = tookMs
  }
}
