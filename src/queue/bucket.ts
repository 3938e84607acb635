import { fullBatchRows, type BatchLimits } from '../config/batching.ts'
import { expiresAtMs, type WaitingRequest } from './waiting-request.ts'
import type { HeapItem, IndexedHeap } from '../indexed-heap.ts'
import { WaitingLine } from './waiting-line.ts'

/** The requests that may share a batch, by line and within a line first come first served. */
export class Bucket<E extends WaitingRequest> implements HeapItem {
  readonly key: string
  count = 0
  rows = 0
  /** Rows of a full batch. */
  fullRows: number
  #limits: BatchLimits
  /** The heap it is in and what it is ordered by there; kept by the queue's buckets. */
  heap: IndexedHeap<Bucket<E>> | null = null
  heapIndex = -1
  closeAtMs = Infinity
  urgentAtMs = Infinity
  urgentLevel = 0
  /** When its first request came. */
  headAtMs = 0
  /** When a batch was last taken from it and left some. */
  servedAtMs = 0
  /** Those with requests, in the order in which they are served: by priority level, within a level those not delayed first. */
  readonly #lines: WaitingLine<E, Bucket<E>>[] = []
  #spare: WaitingLine<E, Bucket<E>> | null = null // the last that became empty

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
    return this.#lines.length === 0 ? null : this.#lines[0]!.head
  }

  /** When the first request came of the line in which one has waited longest; `Infinity` for none. */
  get oldestAtMs(): number {
    let oldestMs = Infinity
    for (const { head } of this.#lines) oldestMs = Math.min(oldestMs, head.enqueuedAtMs)
    return oldestMs
  }

  /** Puts an entry behind all of its line; tells whether it is the first of the bucket now. */
  push(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.push(entry)
    this.count++
    this.rows += entry.rows
    return line.count === 1 && line === this.#lines[0]
  }

  /** Puts an entry before all of its line; tells whether it is the first of the bucket now. */
  unshift(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.unshift(entry)
    this.count++
    this.rows += entry.rows
    return line === this.#lines[0]
  }

  remove(entry: E): void {
    const line = entry.line as WaitingLine<E, Bucket<E>>
    line.remove(entry)
    this.count--
    this.rows -= entry.rows
    if (line.count === 0) this.#drop(line)
  }

  /** Takes out requests that are its first. */
  removeFirst(entries: readonly E[]): void {
    for (const { rows } of entries) this.rows -= rows
    this.count -= entries.length
    for (let index = 0; index < entries.length; ) {
      const line = this.#lines[0]!
      index = line.removeFirst(entries, index)
      if (line.count === 0) this.#drop(line)
    }
  }

  /** The requests to be served first, up to and with the one that is too much for `maxRows`. */
  front(maxRows: number): E[] {
    const entries: E[] = []
    let rows = 0
    for (let index = 0; index < this.#lines.length && rows <= maxRows; index++) {
      rows = this.#lines[index]!.collect(entries, rows, maxRows)
    }
    return entries
  }

  /**
   * Brings what buckets are compared by up to date; false when that did not change.
   *
   * @param patienceMs how soon a request should be served, its timeout and deadline aside. One that has waited longer when its
   * bucket is served counts as if it had just become so old: however much waits in the others, a bucket gets its turn.
   */
  refreshUrgency(patienceMs: number): boolean {
    const { head } = this
    if (head === null) return true
    const level = head.level.level
    const atMs = Math.min(expiresAtMs(head), Math.max(head.enqueuedAtMs + patienceMs, this.servedAtMs))
    if (level === this.urgentLevel && atMs === this.urgentAtMs && head.enqueuedAtMs === this.headAtMs) return false
    this.urgentLevel = level
    this.urgentAtMs = atMs
    this.headAtMs = head.enqueuedAtMs
    return true
  }

  #drop(line: WaitingLine<E, Bucket<E>>): void {
    if (this.#lines[0] === line) this.#lines.shift()
    else this.#lines.splice(this.#lines.indexOf(line), 1)
    this.#spare = line
  }

  /** The line where a request belongs. */
  #lineOf({ level: { level }, delayed }: E): WaitingLine<E, Bucket<E>> {
    const lines = this.#lines
    let low = 0
    let high = lines.length
    while (low < high) {
      const middle = (low + high) >> 1
      const line = lines[middle]!
      if (line.level === level && line.delayed === delayed) return line
      if (line.level < level || (line.level === level && delayed)) low = middle + 1
      else high = middle
    }
    const line = this.#spare ?? new WaitingLine<E, Bucket<E>>(this)
    this.#spare = null
    line.level = level
    line.delayed = delayed
    if (low === lines.length) lines.push(line)
    else lines.splice(low, 0, line)
    return line
  }
}

/** Whether `a` is to be served before `b` when both can be: by priority level, then by the oldest deadline, then by age. */
export function isMoreUrgent(a: Bucket<any>, b: Bucket<any>): boolean {
  if (a.urgentLevel !== b.urgentLevel) return a.urgentLevel < b.urgentLevel
  return a.urgentAtMs === b.urgentAtMs ? a.headAtMs < b.headAtMs : a.urgentAtMs < b.urgentAtMs
}
