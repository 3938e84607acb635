import { aloneKey, type BatchLimits } from '../options/batching.ts'
import type { BatchSizer } from './batch-cap.ts'
import { Bucket, isMoreUrgent } from './bucket.ts'
import type { WaitingRequest } from '../request/infer-request.ts'
import { IndexedHeap } from '../base/indexed-heap.ts'

const longestPatienceMs = 1000
const shortestPatienceMs = 20
/** Runs of others that a request is reckoned to be able to wait for. */
const patienceRuns = 4

/**
 * The buckets of one queue. Every bucket with requests is in one of three heaps, so that neither many requests nor many
 * buckets make a decision slower: those with a full batch, those that an idle instance should look at, and those that
 * wait for their delay.
 */
export class Buckets<E extends WaitingRequest> {
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

  /** When the request came that has waited longest; `Infinity` for none. */
  get oldestAtMs(): number {
    let oldestMs = Infinity
    for (const bucket of this.#byKey.values()) oldestMs = Math.min(oldestMs, bucket.oldestAtMs)
    return oldestMs
  }

  /** Whether a bucket holds a batch that may be handed to a busy instance too. */
  isFull(bucket: Bucket<E>): boolean {
    return bucket.heap === this.#full
  }

  /** Whether a bucket holds a batch that is to be handed over at once; what requests cost is best joined with all that come in the same turn. */
  isReady(bucket: Bucket<E>): boolean {
    return bucket.heap === this.#full && bucket.limits.cost === undefined
  }

  /** Reckons patience in runs as long as this one; 0 when that is unknown. */
  reckonPatience(runMs: number): void {
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
    const limits = this.#sizer?.limits(key) ?? this.#limits
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
