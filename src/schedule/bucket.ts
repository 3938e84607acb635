import { fullBatchRows, type BatchLimits, type BatchReason } from '../options/batching.ts'
import { chooseByCost, inServingOrder } from './choose-by-cost.ts'
import { expiresAtMs, type WaitingRequest } from '../request/infer-request.ts'
import type { HeapItem, IndexedHeap } from '../base/indexed-heap.ts'
import { WaitingLine } from './waiting-line.ts'

/** The requests that may share a batch, by line and within a line first come first served. */
export class Bucket<E extends WaitingRequest> implements HeapItem {
  readonly key: string
  count = 0
  rows = 0
  /** What its requests cost. */
  cost = 0
  /** Rows of a full batch. */
  fullRows: number
  /** Why the last {@link next} holds no more although more wait; `null` where it is what is served first, in that order. */
  nextClosedBy: BatchReason | null = null
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

  /** Whether so much waits that it need not wait for more. */
  get isFull(): boolean {
    const { joinRequests, cost } = this.#limits
    return (
      this.rows >= this.fullRows || !joinRequests || (cost !== undefined && this.cost >= cost.maxBatchCost)
    )
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
    this.#came(entry)
    return line.count === 1 && line === this.#lines[0]
  }

  /** Puts an entry before all of its line; tells whether it is the first of the bucket now. */
  unshift(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.unshift(entry)
    this.#came(entry)
    return line === this.#lines[0]
  }

  /** Puts an entry before those of its line that came later; tells whether it is the first of the bucket now. */
  insert(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.insert(entry)
    this.#came(entry)
    return line === this.#lines[0] && line.head === entry
  }

  remove(entry: E): void {
    const line = entry.line as WaitingLine<E, Bucket<E>>
    line.remove(entry)
    this.#left(entry)
    if (line.count === 0) this.#drop(line)
  }

  /** Takes out the first requests of its {@link next}, and has them in the order of their lines. */
  removeNext(entries: E[]): void {
    if (this.#limits.cost !== undefined && entries.length > 1) entries.sort(inServingOrder)
    for (const entry of entries) this.#left(entry)
    for (let index = 0; index < entries.length;) {
      const line = entries[index]!.line as WaitingLine<E, Bucket<E>>
      index = line.removeThose(entries, index)
      if (line.count === 0) this.#drop(line)
    }
  }

  /**
   * The requests to be served first, up to and with the one that is too much for a batch. Where requests cost something: those
   * of which a batch is best made, each after those with which it goes.
   */
  next(): E[] {
    const { joinRequests, maxBatchSize, cost } = this.#limits
    if (cost === undefined || !joinRequests) return this.front(joinRequests ? maxBatchSize : 0)
    const { entries, closedBy } = chooseByCost(this.#lines, maxBatchSize, cost)
    if (closedBy === 'cost' || closedBy === 'full') this.nextClosedBy = closedBy
    // What has only too little in common with the rest waits for more of its own kind, unless enough waits anyway.
    else if (!this.isFull) this.nextClosedBy = null
    else this.nextClosedBy = closedBy ?? (this.rows >= this.fullRows ? null : 'cost')
    return entries
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
    if (level === this.urgentLevel && atMs === this.urgentAtMs && head.enqueuedAtMs === this.headAtMs)
      return false
    this.urgentLevel = level
    this.urgentAtMs = atMs
    this.headAtMs = head.enqueuedAtMs
    return true
  }

  #came({ rows, cost }: E): void {
    this.count++
    this.rows += rows
    if (cost !== null) this.cost += cost.units
  }

  #left({ rows, cost }: E): void {
    this.count--
    this.rows -= rows
    if (cost !== null) this.cost = this.count === 0 ? 0 : this.cost - cost.units // fractions add up to no exact 0
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
