import type { Clock } from '../base/clock.ts'
import type { ModelInstance } from './model-instance.ts'
import { IndexedHeap, type HeapItem } from '../base/indexed-heap.ts'

/** The least estimate of what a run still takes, in milliseconds: a busy worker is not an idle one. */
const leastLeftMs = 1
/** After so long a busy time counts for a third of what it did. */
const busyMemoryMs = 5000

/**
 * Estimates what a run still takes that was to be done in `leftMs`, which is negative when it is late: it will be late by as
 * much again. Taking it for done would admit requests behind it that cannot be in time.
 */
export function leftOfRunMs(leftMs: number): number {
  return Math.max(leastLeftMs, Math.abs(leftMs))
}

/** A batch that was handed to a worker. */
interface HandedOver {
  readonly slotId: number
  readonly source: ModelInstance
  readonly charge: Charge<ModelInstance>
  /** Whether nothing else may be on the worker meanwhile. */
  readonly alone: boolean
}

/** The time of one worker: who has been given what of it, and when it will be free. */
export class WorkerTime {
  readonly shares = new FairShare<ModelInstance>()
  readonly #clock: Clock
  readonly #handedOver: HandedOver[] = [] // the first of them runs
  #runBeganAtMs = 0
  #runEndsAtMs = 0
  #behindMs = 0 // of what waits behind the run
  #busyMs = 0
  #busyAtMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What was handed over and is not back, in its order. */
  get handedOver(): readonly HandedOver[] {
    return this.#handedOver
  }

  /** The estimated time until the worker is done with what it was given, in milliseconds. */
  get freeInMs(): number {
    return this.#handedOver.length === 0
      ? 0
      : leftOfRunMs(this.#runEndsAtMs - this.#clock.nowMs()) + this.#behindMs
  }

  /** For how long the first of what it has runs, in milliseconds; 0 for nothing. */
  get runningMs(): number {
    return this.#handedOver.length === 0 ? 0 : this.#clock.nowMs() - this.#runBeganAtMs
  }

  /** The part of the last seconds in which it ran something, what runs included. */
  get busyShare(): number {
    const before = this.#busyMs * Math.exp((this.#busyAtMs - this.#clock.nowMs()) / busyMemoryMs)
    return Math.min(1, (before + remembered(this.runningMs)) / busyMemoryMs)
  }

  /**
   * Notes a batch that is handed over.
   *
   * @param runMs the estimate of its run; 0 when unknown.
   */
  given(source: ModelInstance, slotId: number, runMs: number, alone: boolean): void {
    const charge = this.shares.charge(source, runMs)
    if (this.#handedOver.length === 0) this.#starts(charge)
    else this.#behindMs += charge.estimateMs
    this.#handedOver.push({ slotId, source, charge, alone })
  }

  /** Notes that a batch is done; returns it, or `null` when it is none of those handed over. */
  done(slotId: number, tookMs: number): HandedOver | null {
    const done = this.#remove(slotId)
    if (done === null) return null
    this.shares.settle(done.charge, tookMs)
    this.#worked(tookMs)
    // What is still out, one batch at most, starts now, however good the estimate of the last one was.
    if (this.#handedOver.length > 0) this.#starts(this.#handedOver[0]!.charge)
    return done
  }

  /** Notes that a batch was revoked: it did not start and is not on the worker any more. */
  takenBack(slotId: number): HandedOver | null {
    const back = this.#remove(slotId)
    if (back === null) return null
    this.shares.refund(back.charge)
    this.#behindMs = Math.max(0, this.#behindMs - back.charge.estimateMs)
    return back
  }

  /** Takes the account of a thread that is gone: nothing is on it any more. */
  clear(): HandedOver[] {
    this.#worked(this.runningMs)
    this.#behindMs = 0
    return this.#handedOver.splice(0)
  }

  /** Whose turn it is. */
  next(): Share<ModelInstance> | null {
    return this.shares.next()
  }

  #remove(slotId: number): HandedOver | null {
    const index = this.#handedOver.findIndex((handed) => handed.slotId === slotId)
    return index === -1 ? null : this.#handedOver.splice(index, 1)[0]!
  }

  #starts({ estimateMs }: Charge<ModelInstance>): void {
    this.#runBeganAtMs = this.#clock.nowMs()
    this.#runEndsAtMs = this.#runBeganAtMs + estimateMs
    this.#behindMs = 0
  }

  #worked(ms: number): void {
    const nowMs = this.#clock.nowMs()
    this.#busyMs = this.#busyMs * Math.exp((this.#busyAtMs - nowMs) / busyMemoryMs) + remembered(ms)
    this.#busyAtMs = nowMs
  }
}

/** What is remembered of a run at its end: its first part is half forgotten by then, if it was long. */
function remembered(ms: number): number {
  return -busyMemoryMs * Math.expm1(-ms / busyMemoryMs)
}

/** One source's account. */
interface Share<T> extends HeapItem {
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
 * where a batch is charged by its estimate and corrected when it is done. What a source used beyond its
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

  /** The share whose turn it is, or `null` when none has work. */
  next(): Share<T> | null {
    return this.#active.peek()
  }

  /**
   * Charges a batch about to be handed over.
   *
   * @param estimateMs the estimate of its run; 0 when unknown, for what the last one took.
   */
  charge(source: T, estimateMs = 0): Charge<T> {
    const share = this.#shares.get(source)!
    const chargedMs = estimateMs > 0 ? estimateMs : share.lastMs
    this.#virtualMs = Math.max(this.#virtualMs, share.finishMs)
    this.#finish(share, this.#virtualMs + chargedMs / share.weight)
    return { share, estimateMs: chargedMs }
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
