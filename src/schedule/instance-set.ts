import { type Clock, nextTurn, stretchMs } from '../base/clock.ts'
import type { RowBlocks } from '../native/row-blocks.ts'
import type { SlotMemory, StagingBuffer } from '../native/staging-pool.ts'
import type { Arena, InstanceStatistics } from '../observe/model-statistics.ts'
import { expiresAtMs, type InferRequest } from '../request/infer-request.ts'
import type { Batch } from './batch.ts'
import type { BusyWorker } from './estimates.ts'

/** An instance of a model, as the scheduler sees it: what runs its batches lies a floor higher. */
export interface Instance {
  readonly name: string
  readonly worker: { readonly name: string } & BusyWorker
  readonly session: {
    readonly ready: boolean
    /** `null` where it is not known. */
    readonly arena: Arena | null
  }
  /** Where memory near it comes from. */
  readonly source: {
    /** The CUDA device for which it is page-locked; left out for none. */
    readonly device?: number | null
    acquire(byteLength: number): StagingBuffer
    acquireSpare?(byteLength: number): StagingBuffer | null
  }
  readonly use: { statistics(instance: string, worker: string): InstanceStatistics }
  /** Whether it would start a batch at once. */
  readonly idle: boolean
  /** The prefetched batch; `null` for none. */
  readonly prefetchedBatch: Batch | null
  /** Batches that it was given and are not back. */
  readonly batches: readonly Batch[]
  /** Has its worker ask for batches. */
  offer(): void
  /** Revokes the prefetched batch; false when there is none, or it has started. */
  revokePrefetched(): boolean
  /** Stops the run of a batch, if it is here; with `orDetach` a thread that does not stop is detached. */
  stopRun(batch: Batch, orDetach: boolean): void
  forgetLayouts(): void
  forgetMemory(memory: SlotMemory): void
}

/** The instances of a model: which of them is given what waits. */
export class InstanceSet implements Iterable<Instance> {
  #instances: Instance[] = []
  /** Those that are given nothing more and have something still. */
  #leaving: Instance[] = []
  /** Where callers write rows that can be run there; `null` until one does. */
  rowBlocks: RowBlocks | null = null
  /** Called when an instance was added. */
  onAdded: () => void = () => {}
  readonly #followUps: FollowUps
  /** The number of the turn of the event loop at whose end what waits is offered; 0 for none. */
  turn = 0
  #turns = 0

  constructor(clock: Clock) {
    this.#followUps = new FollowUps(clock)
  }

  get size(): number {
    return this.#instances.length
  }

  [Symbol.iterator](): Iterator<Instance> {
    return this.#instances[Symbol.iterator]()
  }

  add(instance: Instance): void {
    this.#instances.push(instance)
    this.onAdded()
  }

  /** Has an instance be given nothing more; what it was given can still be stopped, until it is removed. */
  retire(instance: Instance): void {
    this.remove(instance)
    this.#leaving.push(instance)
  }

  /** Takes an instance out; what it was given comes to its end. */
  remove(instance: Instance): void {
    this.#instances = this.#instances.filter((other) => other !== instance)
    this.#leaving = this.#leaving.filter((other) => other !== instance)
  }

  /** Whether one would start a batch at once. */
  get anyIdle(): boolean {
    return this.#instances.some(({ idle }) => idle)
  }

  /** When the oldest request of the prefetched batches became ready; `Infinity` for none. */
  get oldestAheadMs(): number {
    let oldestMs = Infinity
    for (const { prefetchedBatch } of this.#instances) {
      if (prefetchedBatch === null) continue
      const { readyAtMs, enqueuedAtMs } = prefetchedBatch.requests[0]!
      oldestMs = Math.min(oldestMs, readyAtMs ?? enqueuedAtMs)
    }
    return oldestMs
  }

  /** Those that serve; all of them when none does at present. */
  get serving(): readonly Instance[] {
    const serving = this.#instances.filter(({ session }) => session.ready)
    return serving.length > 0 ? serving : this.#instances
  }

  /** Offers what waits: first to each idle instance a batch to start, then to the others what may wait behind, the one that is free soonest first. */
  offer(): void {
    const instances = this.#instances
    if (instances.length === 1) return instances[0]!.offer()
    const busy: Instance[] = []
    for (const instance of instances) {
      if (instance.idle) instance.offer()
      else if (instance.session.ready) busy.push(instance)
    }
    if (busy.length > 1) busy.sort((a, b) => a.worker.freeInMs - b.worker.freeInMs)
    for (const instance of busy) instance.offer()
  }

  /** Offers what waits once no more calls are expected soon: those that come until then may still join. `nowMs` where it is known. */
  offerSoon(nowMs?: number): void {
    if (this.turn !== 0) return
    this.turn = ++this.#turns
    this.#followUps.whenComplete(this.#offerNow, nowMs)
  }

  readonly #offerNow = (): void => {
    this.turn = 0
    this.offer()
  }

  /** Answers have been given at `nowMs`: calls that follow from them are expected. */
  answered(nowMs: number): void {
    this.#followUps.answered(nowMs)
  }

  /** Whether a batch is prefetched that another instance could start at once were it idle. */
  get anyPrefetched(): boolean {
    return (
      this.#instances.length > 1 && this.#instances.some(({ prefetchedBatch }) => prefetchedBatch !== null)
    )
  }

  /** Whether a request is to be served before a prefetched batch. */
  isOvertakenBy(request: InferRequest): boolean {
    for (const { prefetchedBatch } of this.#instances) {
      if (prefetchedBatch === null) continue
      const first = prefetchedBatch.requests[0]!
      if (request.level.level < first.level.level) return true
      if (request.bucketKey !== first.bucketKey && expiresAtMs(request) < expiresAtMs(first)) return true
    }
    return false
  }

  /** Revokes the batch of which a request is a part; false when that has started. */
  revokeBatchOf(request: InferRequest): boolean {
    const instance = this.#instances.find(({ prefetchedBatch }) =>
      prefetchedBatch?.requests.includes(request),
    )
    return instance?.revokePrefetched() ?? false
  }

  get statistics(): InstanceStatistics[] {
    return this.#instances.map(({ use, name, worker }) => use.statistics(name, worker.name))
  }

  /** What the arenas of their sessions hold together; `null` when that is not known. */
  get arena(): Omit<Arena, 'id'> | null {
    const arenas = new Map(
      this.#instances.flatMap(({ session: { arena } }) => (arena === null ? [] : [[arena.id, arena]])),
    )
    if (arenas.size === 0) return null
    const sum = { totalBytes: 0, inUseBytes: 0, mostInUseBytes: 0 }
    for (const arena of arenas.values()) {
      sum.totalBytes += arena.totalBytes
      sum.inUseBytes += arena.inUseBytes
      sum.mostInUseBytes += arena.mostInUseBytes
    }
    return sum
  }

  /** Batches that instances were given and are not back. */
  get batches(): Batch[] {
    return this.#all().flatMap(({ batches }) => batches)
  }

  /** Stops the run of a batch; with `orDetach` a thread that does not stop is detached. */
  stopRun(batch: Batch, orDetach: boolean): void {
    for (const instance of this.#all()) instance.stopRun(batch, orDetach)
  }

  /** Has all instances let go of memory that is given back. */
  forgetMemory(memory: SlotMemory): void {
    for (const instance of this.#all()) instance.forgetMemory(memory)
  }

  #all(): readonly Instance[] {
    return this.#leaving.length === 0 ? this.#instances : [...this.#instances, ...this.#leaving]
  }

  /** Revokes all prefetched batches that have not started, the last formed first; true when there was any. */
  revokePrefetched(): boolean {
    const withAhead = this.#instances.filter(({ prefetchedBatch }) => prefetchedBatch !== null)
    if (withAhead.length > 1) withAhead.sort((a, b) => b.prefetchedBatch!.formed - a.prefetchedBatch!.formed)
    return withAhead.filter((instance) => instance.revokePrefetched()).length > 0
  }
}

const resolved = Promise.resolve()

/**
 * Tells calls that follow from an answer, before the event loop goes on, from those that the event loop brings. The first are
 * complete when their promises have run; of the others more may come in the same turn, one callback after the other.
 */
export class FollowUps {
  readonly #clock: Clock
  #open = false
  #sinceMs = 0
  #looks = 0
  #awaited = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Answers have been given at `nowMs`: what is called from now until all promises have run follows from them. */
  answered(nowMs: number): void {
    if (!this.#open) this.#sinceMs = nowMs
    this.#open = true
    this.#looks++
    void resolved.then(this.#afterPromises)
  }

  /** Has `send` called when no more is to be expected soon: after the promises that run now, or at the end of this turn of the event loop. */
  whenComplete(send: () => void, nowMs?: number): void {
    if (this.#open && (nowMs ?? this.#clock.nowMs()) - this.#sinceMs < stretchMs) {
      this.#awaited++
      process.nextTick(this.#send, send)
    } else nextTurn(send)
  }

  readonly #send = (send: () => void): void => {
    this.#awaited--
    send()
  }

  // All promises that can run have run before the next tick.
  readonly #afterPromises = (): void => process.nextTick(this.#look)

  readonly #look = (): void => {
    if (--this.#looks > 0) return // there were answers since
    if (this.#awaited === 0) this.#open = false
    else {
      this.#looks++
      process.nextTick(this.#look) // what is about to be sent may be answered at once
    }
  }
}
