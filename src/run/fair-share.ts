import { IndexedHeap, type HeapItem } from '../base/indexed-heap.ts'

/** One source's account. */
export interface Share<T> extends HeapItem {
  readonly source: T
  readonly weight: number
  /** Virtual time at which what it was given so far is used up, in milliseconds divided by its weight. */
  finishMs: number
  /** What its last batch took, in milliseconds. */
  lastMs: number
  /** Whether it may have work. */
  active: boolean
}

/** A batch that was charged to a share before its time was known. */
export interface Charge<T> {
  readonly share: Share<T>
  readonly estimateMs: number
}

/**
 * Divides a worker among its sources by measured milliseconds and weight: start-time fair queueing (Goyal et al. 1996),
 * where a batch is charged with what it is reckoned to take and corrected when it is done. What a source used beyond its
 * share it pays back at once and exactly, where deficit round robin would do so over many rounds; a source that was idle
 * gets no credit for it. Only sources that may have work are looked at, so a hundred idle ones cost nothing.
 */
export class FairShare<T> {
  readonly #shares = new Map<T, Share<T>>()
  readonly #active = new IndexedHeap<Share<T>>((a, b) => a.finishMs < b.finishMs)
  #virtualMs = 0
  #activeWeight = 0

  get size(): number {
    return this.#shares.size
  }

  /** Weights of the sources that may have work, summed. */
  get activeWeight(): number {
    return this.#activeWeight
  }

  get sources(): T[] {
    return [...this.#shares.keys()]
  }

  join(source: T, weight = 1): void {
    this.#shares.set(source, {
      source,
      weight,
      finishMs: this.#virtualMs,
      lastMs: 0,
      active: false,
      heapIndex: -1,
    })
  }

  part(source: T): void {
    this.deactivate(source)
    this.#shares.delete(source)
  }

  /** Says that a source may have work; true when that is new. */
  activate(source: T): boolean {
    const share = this.#shares.get(source)
    if (share === undefined || share.active) return false
    share.active = true
    this.#activeWeight += share.weight
    this.#active.push(share)
    return true
  }

  /** Says that a source has no work. */
  deactivate(source: T): void {
    const share = this.#shares.get(source)
    if (share === undefined || !share.active) return
    share.active = false
    this.#activeWeight -= share.weight
    this.#active.remove(share)
  }

  /** The share whose turn it is, or `null` when nobody has work. */
  next(): Share<T> | null {
    return this.#active.peek()
  }

  /**
   * Charges a batch about to be handed over.
   *
   * @param estimateMs what it is reckoned to take; 0 when that is unknown, for what the last one took.
   */
  charge(source: T, estimateMs = 0): Charge<T> {
    const share = this.#shares.get(source)!
    const reckonedMs = estimateMs > 0 ? estimateMs : share.lastMs
    this.#virtualMs = Math.max(this.#virtualMs, share.finishMs)
    this.#finish(share, this.#virtualMs + reckonedMs / share.weight)
    return { share, estimateMs: reckonedMs }
  }

  /** Corrects a charge by what the batch really took. */
  settle({ share, estimateMs }: Charge<T>, tookMs: number): void {
    share.lastMs = tookMs
    this.#finish(share, share.finishMs + (tookMs - estimateMs) / share.weight)
  }

  /** Takes a charge back: its batch was not run. */
  refund({ share, estimateMs }: Charge<T>): void {
    this.#finish(share, share.finishMs - estimateMs / share.weight)
  }

  #finish(share: Share<T>, finishMs: number): void {
    share.finishMs = finishMs
    if (share.active) this.#active.update(share)
  }
}
