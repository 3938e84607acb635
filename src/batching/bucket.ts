import type { BatchLimits } from '../scheduling.ts'
import { fullBatchRows } from './batch-policy.ts'
import { expiresAtMs } from './expiries.ts'
import { ranksBefore, ranksEqual, type QueueEntry } from './entry.ts'
import type { HeapItem, IndexedHeap } from '../indexed-heap.ts'

/** How soon a request without a deadline should be served: what it counts with where buckets are compared. */
const patienceMs = 1000

/**
 * The requests that may share a batch, in the order in which they are served: by priority level, within a level those
 * not delayed first, then first come first served. One list, linked through the entries themselves; where each rank
 * ends is remembered, so that a request finds its place without a walk.
 */
export class Bucket<E extends QueueEntry> implements HeapItem {
  readonly key: string
  head: E | null = null
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
  /** The last entry of each rank that is present, in order. */
  readonly #lasts: E[] = []

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

  /** Puts an entry behind all of its rank. */
  push(entry: E): void {
    const lasts = this.#lasts
    const end = lasts.length - 1
    if (end >= 0 && ranksEqual(lasts[end]!, entry)) {
      this.#link(entry, lasts[end]!)
      lasts[end] = entry
      return
    }
    const at = this.#rankAtOrBefore(entry)
    this.#link(entry, at < 0 ? null : lasts[at]!)
    if (at >= 0 && ranksEqual(lasts[at]!, entry)) lasts[at] = entry
    else lasts.splice(at + 1, 0, entry)
  }

  /** Puts an entry before all of its rank. */
  unshift(entry: E): void {
    const lasts = this.#lasts
    let at = this.#rankAtOrBefore(entry)
    const present = at >= 0 && ranksEqual(lasts[at]!, entry)
    if (present) at--
    this.#link(entry, at < 0 ? null : lasts[at]!)
    if (!present) lasts.splice(at + 1, 0, entry)
  }

  /** Takes the first `count` entries out. */
  takeFirst(count: number): E[] {
    const entries: E[] = []
    let ranks = 0 // of which nothing is left
    let entry = this.head
    while (entries.length < count) {
      const taken: E = entry!
      entries.push(taken)
      this.rows -= taken.rows
      if (taken === this.#lasts[ranks]) ranks++
      entry = taken.next
      taken.bucket = taken.previous = taken.next = null
    }
    this.head = entry
    if (entry !== null) entry.previous = null
    this.count -= count
    if (ranks > 0) this.#lasts.splice(0, ranks)
    return entries
  }

  remove(entry: E): void {
    const { previous, next } = entry
    if (next === null || !ranksEqual(next, entry)) {
      const at = this.#rankAtOrBefore(entry)
      if (previous !== null && ranksEqual(previous, entry)) this.#lasts[at] = previous
      else this.#lasts.splice(at, 1)
    }
    if (previous === null) this.head = next
    else previous.next = next
    if (next !== null) next.previous = previous
    entry.bucket = entry.previous = entry.next = null
    this.count--
    this.rows -= entry.rows
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

  #link(entry: E, previous: E | null): void {
    const next = previous === null ? this.head : (previous.next as E | null)
    entry.bucket = this
    entry.previous = previous
    entry.next = next
    if (previous === null) this.head = entry
    else previous.next = entry
    if (next !== null) next.previous = entry
    this.count++
    this.rows += entry.rows
  }

  /** Index of the last rank that is not after the entry's; -1 when all are. */
  #rankAtOrBefore(entry: E): number {
    const lasts = this.#lasts
    let low = 0
    let high = lasts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (ranksBefore(entry, lasts[middle]!)) high = middle
      else low = middle + 1
    }
    return low - 1
  }
}

/** Whether `a` is to be served before `b` when both can be: by priority level, then by the oldest deadline. */
export function isMoreUrgent(a: Bucket<any>, b: Bucket<any>): boolean {
  return a.urgentLevel === b.urgentLevel ? a.urgentAtMs < b.urgentAtMs : a.urgentLevel < b.urgentLevel
}
