import { aloneKey, type BatchLimits, type BatchReason } from '../options/batching.ts'
import type { BatchSizer } from './batch-sizer.ts'
import { expiresAtMs, type InferRequest } from '../request/infer-request.ts'
import { IndexedHeap, type HeapItem } from '../base/indexed-heap.ts'
import { chooseByCost, inServingOrder } from './batch-by-cost.ts'

const longestPatienceMs = 1000
const shortestPatienceMs = 20
/** Runs of others for which a request can wait. */
const patienceRuns = 4

/**
 * The buckets of one queue. Every bucket with requests is in one of three heaps, so that neither many requests nor many
 * buckets make a decision slower: those with a full batch, those that an idle instance should look at, and those that
 * wait for their delay.
 */
export class Buckets<E extends InferRequest> {
  #patienceMs = longestPatienceMs
  readonly #limits: BatchLimits
  readonly #sizer: BatchSizer | null
  readonly #byKey = new Map<string, Bucket<E>>()
  readonly #full = new IndexedHeap<Bucket<E>>(isMoreUrgent)
  readonly #open = new IndexedHeap<Bucket<E>>(isMoreUrgent)
  readonly #waiting = new IndexedHeap<Bucket<E>>((a, b) => a.closeAtMs < b.closeAtMs)
  #last: Bucket<E> // of the last request: with fixed shapes, the only one
  #joinRequests: boolean
  /** The keys of those whose requests are joined; `null` for all. */
  #joined: { has(key: string): boolean } | null = null
  /** See `RequestQueue.joinUpTo`. */
  mostRows = 0

  constructor(limits: BatchLimits, sizer: BatchSizer | null) {
    this.#limits = limits
    this.#sizer = sizer
    this.#joinRequests = limits.joinRequests
    this.#last = this.#make('')
  }

  /** Whether any bucket holds a full batch. */
  get hasFull(): boolean {
    return this.#full.size > 0
  }

  /** When the request that has waited longest became ready; `Infinity` for none. */
  get oldestAtMs(): number {
    let oldestMs = Infinity
    for (const bucket of this.#byKey.values()) oldestMs = Math.min(oldestMs, bucket.oldestAtMs)
    return oldestMs
  }

  /** Whether a bucket holds a batch that may be given to a busy instance too. */
  isFull(bucket: Bucket<E>): boolean {
    return bucket.heap === this.#full
  }

  /** Whether a bucket holds a batch to dispatch at once. With costs, batches are best formed from all requests of a turn. */
  isReady(bucket: Bucket<E>): boolean {
    return bucket.heap === this.#full && bucket.limits.cost === undefined
  }

  /** Sets the patience of requests by how long a run takes; 0 when that is unknown. */
  setPatience(runMs: number): void {
    if (runMs > 0)
      this.#patienceMs = Math.min(longestPatienceMs, Math.max(shortestPatienceMs, patienceRuns * runMs))
  }

  /** Finds or makes a bucket. */
  of(key: string): Bucket<E> {
    const last = this.#last
    if (key === last.key) return last
    // A bucket of a shape that comes once must not stay for ever; the one in use does.
    if (last.count === 0) this.#byKey.delete(last.key)
    return (this.#last = this.#byKey.get(key) ?? this.#make(key))
  }

  all(): Bucket<E>[] {
    return [...this.#byKey.values()]
  }

  /** Puts a request into a bucket: before all of its line, behind them, or behind those that came before it. */
  put(bucket: Bucket<E>, entry: E, where: 'first' | 'last' | 'byArrival'): void {
    if (
      where === 'first' ? bucket.unshift(entry) : where === 'last' ? bucket.push(entry) : bucket.insert(entry)
    )
      this.place(bucket)
    else this.placeBehind(bucket)
  }

  /** Brings a bucket to the heap where it belongs after its requests changed. */
  place(bucket: Bucket<E>): void {
    const headChanged = bucket.refreshUrgency(this.#patienceMs)
    if (bucket.count === 0) {
      bucket.servedAtMs = 0
      this.#move(bucket, null)
      if (bucket !== this.#last) this.#byKey.delete(bucket.key)
      return
    }
    const heap = bucket.isFull ? this.#full : this.#open
    if (bucket.heap !== heap) this.#move(bucket, heap)
    else if (headChanged) heap.update(bucket)
  }

  /** As {@link place}, after a request was put behind others: what is first has not changed. */
  placeBehind(bucket: Bucket<E>): void {
    if (bucket.heap === this.#full || (bucket.heap === this.#open && !bucket.isFull)) return
    this.place(bucket)
  }

  /** From now on every request is a batch of its own. */
  stopJoining(): void {
    this.#joinRequests = false
    for (const bucket of this.all()) {
      bucket.limits = { ...bucket.limits, joinRequests: false }
      this.place(bucket)
    }
  }

  /** From now on only requests of these buckets are joined, those that wait as well; `null` for all. */
  joinOnly(joined: { has(key: string): boolean } | null): void {
    this.#joined = joined
    this.resize()
  }

  /** See `RequestQueue.joinUpTo`. */
  joinUpTo(rows: number): void {
    if (rows === this.mostRows) return
    this.mostRows = rows
    this.resize('')
  }

  /** The limits of a bucket, or of all, are no longer what they were. */
  resize(key: string | null = null): void {
    for (const bucket of key === null ? this.all() : [this.#byKey.get(key) ?? []].flat()) {
      bucket.limits = this.#limitsOf(bucket.key)
      this.place(bucket)
    }
  }

  /** The bucket to serve first: a full one, or one that an idle instance should look at. */
  mostUrgent(): Bucket<E> | null {
    const full = this.#full.peek()
    const open = this.#open.peek()
    if (full === null || open === null) return full ?? open
    return isMoreUrgent(open, full) ? open : full
  }

  /** Has a bucket wait until its requests change or `closeAtMs` comes. */
  wait(bucket: Bucket<E>, closeAtMs: number): void {
    bucket.closeAtMs = closeAtMs
    this.#move(bucket, this.#waiting)
  }

  /** Lets an idle instance look again at buckets whose time has come. */
  reopen(nowMs: number): void {
    for (let due = this.#waiting.peek(); due !== null && due.closeAtMs <= nowMs; due = this.#waiting.peek()) {
      this.#move(due, this.#open)
    }
  }

  /** When the next waiting bucket is to be looked at; `Infinity` for none. */
  get nextCloseAtMs(): number {
    return this.#waiting.peek()?.closeAtMs ?? Infinity
  }

  #make(key: string): Bucket<E> {
    const bucket = new Bucket<E>(key, this.#limitsOf(key))
    this.#byKey.set(key, bucket)
    return bucket
  }

  #limitsOf(key: string): BatchLimits {
    let limits = this.#sizer?.limits(key) ?? this.#limits
    const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs } = limits
    // Not while a load is divided or gathered: its limits say how.
    if (
      key === '' &&
      this.mostRows > maxBatchSize &&
      preferredBatchSizes.length === 0 &&
      maxQueueDelayMs === 0
    )
      limits = { ...limits, maxBatchSize: this.mostRows }
    return this.#joinRequests && !key.startsWith(aloneKey) && this.#joined?.has(key) !== false
      ? limits
      : { ...limits, joinRequests: false }
  }

  #move(bucket: Bucket<E>, heap: IndexedHeap<Bucket<E>> | null): void {
    bucket.heap?.remove(bucket)
    bucket.heap = heap
    heap?.push(bucket)
  }
}

/**
 * The same limits in an object of the one shape that V8 has compiled code for. Each place that copies by spreading makes another shape,
 * and V8 would throw the code away when a load is divided, say.
 */
function ofOneShape(limits: BatchLimits): BatchLimits {
  const { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, delayEndsAtMs, joinRequests, cost } = limits
  return { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, delayEndsAtMs, joinRequests, cost }
}

/** The requests that may share a batch, by line and within a line first come first served. */
export class Bucket<E extends InferRequest> implements HeapItem {
  readonly key: string
  count = 0
  rows = 0
  /** What its requests cost. */
  cost = 0
  /** Rows of a full batch. */
  fullRows: number
  /** Why the last {@link next} ended before the bucket did; `null` where it has the requests in the order of service. */
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
  readonly #lines: WaitingLine<E>[] = []
  #spare: WaitingLine<E> | null = null // the last that became empty

  constructor(key: string, limits: BatchLimits) {
    this.key = key
    this.#limits = ofOneShape(limits)
    this.fullRows = fullBatchRows(limits)
  }

  /** What limits its batches. */
  get limits(): BatchLimits {
    return this.#limits
  }

  set limits(limits: BatchLimits) {
    this.#limits = ofOneShape(limits)
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

  /** When the first request became ready, of the line that has waited longest; `Infinity` for none. */
  get oldestAtMs(): number {
    let oldestMs = Infinity
    for (const { head } of this.#lines) oldestMs = Math.min(oldestMs, head.readyAtMs ?? head.enqueuedAtMs)
    return oldestMs
  }

  /** Puts an entry behind all of its line; returns whether it is the first of the bucket now. */
  push(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.push(entry)
    this.#came(entry)
    return line.count === 1 && line === this.#lines[0]
  }

  /** Puts an entry before all of its line; returns whether it is the first of the bucket now. */
  unshift(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.unshift(entry)
    this.#came(entry)
    return line === this.#lines[0]
  }

  /** Puts an entry before those of its line that came later; returns whether it is the first of the bucket now. */
  insert(entry: E): boolean {
    const line = this.#lineOf(entry)
    line.insert(entry)
    this.#came(entry)
    return line === this.#lines[0] && line.head === entry
  }

  remove(entry: E): void {
    const line = entry.line as WaitingLine<E>
    line.remove(entry)
    this.#left(entry)
    if (line.count === 0) this.#drop(line)
  }

  /** Takes out the first requests of its {@link next}, and has them in the order of their lines. */
  removeNext(entries: E[]): void {
    if (this.#limits.cost !== undefined && entries.length > 1) entries.sort(inServingOrder)
    for (const entry of entries) this.#left(entry)
    for (let index = 0; index < entries.length;) {
      const line = entries[index]!.line as WaitingLine<E>
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
    // Requests that would make the others cost more wait for more of their own kind, unless a full batch waits.
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

  #drop(line: WaitingLine<E>): void {
    if (this.#lines[0] === line) this.#lines.shift()
    else this.#lines.splice(this.#lines.indexOf(line), 1)
    this.#spare = line
  }

  /** The line where a request belongs. */
  #lineOf({ level: { level }, delayed }: E): WaitingLine<E> {
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
    const line = this.#spare ?? new WaitingLine<E>(this)
    this.#spare = null
    line.level = level
    line.delayed = delayed
    if (low === lines.length) lines.push(line)
    else lines.splice(low, 0, line)
    return line
  }
}

/** Whether `a` is to be served before `b` when both can be: by priority level, then by the oldest deadline, then by age. */
function isMoreUrgent(a: Bucket<any>, b: Bucket<any>): boolean {
  if (a.urgentLevel !== b.urgentLevel) return a.urgentLevel < b.urgentLevel
  return a.urgentAtMs === b.urgentAtMs ? a.headAtMs < b.headAtMs : a.urgentAtMs < b.urgentAtMs
}

const fewestPlaces = 8
/** A ring of so many places is kept although few or none of them are taken. */
const placesKept = 512
const holesAllowed = 64

/**
 * The requests of a bucket that are served in the order in which they came: one priority level, delayed or not. A ring
 * and not a linked list, because closing a batch then reads its requests side by side, where in a list each has to come
 * from far memory before the next one is known.
 */
export class WaitingLine<E extends InferRequest> {
  readonly owner: Bucket<E>
  level = 0
  delayed = false
  /** Requests in it. */
  count = 0
  // Positions count on and wrap around as 32-bit integers; a position is in the ring at its lowest bits.
  #ring: (E | null)[] = ringOf(fewestPlaces)
  #first = 0
  #end = 0

  constructor(owner: Bucket<E>) {
    this.owner = owner
  }

  /** The request to be served first; there is one. */
  get head(): E {
    return this.#ring[this.#first & (this.#ring.length - 1)]!
  }

  /** Puts a request behind all others. */
  push(entry: E): void {
    if (this.#span() === this.#ring.length) this.#resize()
    this.#put(entry, this.#end)
    this.#end = (this.#end + 1) | 0
  }

  /** Puts a request before all others. */
  unshift(entry: E): void {
    if (this.#span() === this.#ring.length) this.#resize()
    this.#first = (this.#first - 1) | 0
    this.#put(entry, this.#first)
  }

  /** Puts a request before all that came later. */
  insert(entry: E): void {
    this.push(entry)
    const ring = this.#ring
    const mask = ring.length - 1
    let at = entry.position
    for (; at !== this.#first; at = (at - 1) | 0) {
      const before = ring[(at - 1) & mask]!
      if (before !== null && before.came < entry.came) break
      ring[at & mask] = before
      if (before !== null) before.position = at
    }
    ring[at & mask] = entry
    entry.position = at
  }

  remove(entry: E): void {
    this.#ring[entry.position & (this.#ring.length - 1)] = null
    entry.line = null
    this.count--
    this.#trim()
  }

  /** Takes out those of `entries` from `index` on that are in it; returns the index after them. */
  removeThose(entries: readonly E[], index: number): number {
    const ring = this.#ring
    const mask = ring.length - 1
    const start = index
    for (; index < entries.length && entries[index]!.line === this; index++) {
      const entry = entries[index]!
      ring[entry.position & mask] = null
      entry.line = null
    }
    this.count -= index - start
    this.#trim()
    return index
  }

  /** Adds its first requests to `entries`, up to and with the one by which `rows` exceeds `maxRows`; returns the rows there are then. */
  collect(entries: E[], rows: number, maxRows: number): number {
    const ring = this.#ring
    const mask = ring.length - 1
    for (
      let position = this.#first;
      position !== this.#end && rows <= maxRows;
      position = (position + 1) | 0
    ) {
      const entry = ring[position & mask]!
      if (entry === null) continue // withdrawn
      entries.push(entry)
      rows += entry.rows
    }
    return rows
  }

  /** Of its first requests those that came less than so many after the oldest of them, the oldest first: what was put back may lie before older ones. */
  within(window: number): E[] {
    const ring = this.#ring
    const entries: E[] = []
    for (
      let position = this.#first;
      position !== this.#end && entries.length < window;
      position = (position + 1) | 0
    ) {
      const entry = ring[position & (ring.length - 1)]!
      if (entry !== null) entries.push(entry) // else withdrawn
    }
    entries.sort((a, b) => a.cost!.order - b.cost!.order)
    const before = entries[0]!.cost!.order + window
    while (entries.at(-1)!.cost!.order >= before) entries.pop()
    return entries
  }

  /** Places that it takes up in the ring, with those of requests that were withdrawn. */
  #span(): number {
    return (this.#end - this.#first) | 0
  }

  #put(entry: E, position: number): void {
    this.#ring[position & (this.#ring.length - 1)] = entry
    entry.line = this
    entry.position = position
    this.count++
  }

  /** Lets go of places that are not needed any more. */
  #trim(): void {
    const ring = this.#ring
    const mask = ring.length - 1
    while (this.#first !== this.#end && ring[this.#first & mask] === null) this.#first = (this.#first + 1) | 0
    if (this.#span() > 2 * this.count + holesAllowed || ring.length > Math.max(16 * this.count, placesKept))
      this.#resize()
  }

  /** Moves its requests together, into a ring of two to four times as many places. */
  #resize(): void {
    const ring = this.#ring
    const [first, end] = [this.#first, this.#end]
    let places = fewestPlaces
    while (places < 2 * this.count) places *= 2
    this.#ring = ringOf(places)
    this.#first = this.#end = this.count = 0
    for (let position = first; position !== end; position = (position + 1) | 0) {
      const entry = ring[position & (ring.length - 1)]!
      if (entry !== null) this.push(entry)
    }
  }
}

function ringOf(places: number): null[] {
  return Array.from({ length: places }, () => null)
}

/** Rows at which a batch is dispatched, idle instance or not: the largest preferred size. */
export function fullBatchRows({
  maxBatchSize,
  preferredBatchSizes,
}: Pick<BatchLimits, 'maxBatchSize' | 'preferredBatchSizes'>): number {
  return preferredBatchSizes.at(-1) ?? maxBatchSize
}
