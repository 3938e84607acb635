import type { BatchLimits } from '../scheduling.ts'
import { fullBatchRows } from './batch-policy.ts'
import { expiresAtMs } from './expiries.ts'
import type { QueueEntry } from './entry.ts'
import type { HeapItem, IndexedHeap } from '../indexed-heap.ts'
import { Rank } from './rank.ts'

/** How soon a request without a deadline should be served: what it counts with where buckets are compared. */
const patienceMs = 1000

/** The requests that may share a batch, by rank and within a rank first come first served. */
export class Bucket<E extends QueueEntry> implements HeapItem {
  readonly key: string
  count = 0
  rows = 0
  /** Rows of a full batch. */
  fullRows: number
  #limits: BatchLimits
  /** The heap it is in and what it is ordered by there; kept by the batcher. */
  heap: IndexedHeap<Bucket<E>> | null = null
  heapIndex = -1
  closeAtMs = Infinity
  urgentAtMs = Infinity
  urgentLevel = 0
  /** Those with requests, in the order in which they are served: by priority level, within a level those not delayed first. */
  readonly #ranks: Rank<E>[] = []
  #spare: Rank<E> | null = null // the last that became empty

  constructor(key: string, limits: BatchLimits) {
    this.key = key
    this.#limits = limits
    this.fullRows = fullBatchRows(limits)
  }

  /** What limits its batches. */
  get limits(): BatchLimits {
    return this.#limits
  }

  set limits(limits: BatchLimits) {
    this.#limits = limits
    this.fullRows = fullBatchRows(limits)
  }

  /** The request to be served first; `null` for none. */
  get head(): E | null {
    return this.#ranks.length === 0 ? null : this.#ranks[0]!.head
  }

  /** Puts an entry behind all of its rank; tells whether it is the first of the bucket now. */
  push(entry: E): boolean {
    const rank = this.#rankOf(entry)
    rank.push(entry)
    this.count++
    this.rows += entry.rows
    return rank.count === 1 && rank === this.#ranks[0]
  }

  /** Puts an entry before all of its rank; tells whether it is the first of the bucket now. */
  unshift(entry: E): boolean {
    const rank = this.#rankOf(entry)
    rank.unshift(entry)
    this.count++
    this.rows += entry.rows
    return rank === this.#ranks[0]
  }

  remove(entry: E): void {
    const rank: Rank<E> = entry.rank!
    rank.remove(entry)
    this.count--
    this.rows -= entry.rows
    if (rank.count === 0) this.#drop(rank)
  }

  /** Takes out requests that are its first. */
  removeFirst(entries: readonly E[]): void {
    for (const { rows } of entries) this.rows -= rows
    this.count -= entries.length
    for (let index = 0; index < entries.length; ) {
      const rank = this.#ranks[0]!
      index = rank.removeFirst(entries, index)
      if (rank.count === 0) this.#drop(rank)
    }
  }

  /** The requests to be served first, up to and with the one that is too much for `maxRows`. */
  front(maxRows: number): E[] {
    const entries: E[] = []
    let rows = 0
    for (let index = 0; index < this.#ranks.length && rows <= maxRows; index++) {
      rows = this.#ranks[index]!.collect(entries, rows, maxRows)
    }
    return entries
  }

  /** Brings what buckets are compared by up to date; false when that did not change. */
  refreshUrgency(): boolean {
    const { head } = this
    if (head === null) return true
    const level = head.level.level
    const atMs = Math.min(expiresAtMs(head), head.enqueuedAtMs + patienceMs)
    if (level === this.urgentLevel && atMs === this.urgentAtMs) return false
    this.urgentLevel = level
    this.urgentAtMs = atMs
    return true
  }

  #drop(rank: Rank<E>): void {
    if (this.#ranks[0] === rank) this.#ranks.shift()
    else this.#ranks.splice(this.#ranks.indexOf(rank), 1)
    this.#spare = rank
  }

  /** The rank where a request belongs. */
  #rankOf({ level: { level }, delayed }: E): Rank<E> {
    const ranks = this.#ranks
    let low = 0
    let high = ranks.length
    while (low < high) {
      const middle = (low + high) >> 1
      const rank = ranks[middle]!
      if (rank.level === level && rank.delayed === delayed) return rank
      if (rank.level < level || (rank.level === level && delayed)) low = middle + 1
      else high = middle
    }
    const rank = this.#spare ?? new Rank<E>(this)
    this.#spare = null
    rank.level = level
    rank.delayed = delayed
    if (low === ranks.length) ranks.push(rank)
    else ranks.splice(low, 0, rank)
    return rank
  }
}

/** Whether `a` is to be served before `b` when both can be: by priority level, then by the oldest deadline. */
export function isMoreUrgent(a: Bucket<any>, b: Bucket<any>): boolean {
  return a.urgentLevel === b.urgentLevel ? a.urgentAtMs < b.urgentAtMs : a.urgentLevel < b.urgentLevel
}
