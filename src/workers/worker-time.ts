import type { Clock } from '../clock.ts'
import { FairShare, type Charge, type Share } from './fair-share.ts'
import type { Tenant } from './tenant.ts'

/** One batch runs, one waits behind it: the worker finds it without a wake-up. */
const maxOutstanding = 2
/** A busy worker is not an idle one: what its run is thought to need at least. */
const leastLeftMs = 1

/**
 * Where models share a worker, only batches as short as this are handed ahead. Behind the longer ones of one model a
 * request of another would wait for a second run, to save a wake-up that is nothing beside it.
 */
const handAheadBelowMs = 5

/**
 * What a run needs still that was reckoned to be done in `leftMs`, less than 0 when it is late: it is thought to be late
 * by as much again. Who takes it for done admits requests behind it that cannot be in time.
 */
export function leftOfRunMs(leftMs: number): number {
  return Math.max(leastLeftMs, Math.abs(leftMs))
}

/** The time of one worker: who has been given what of it, and when it will be free. */
export class WorkerTime {
  readonly shares = new FairShare<Tenant>()
  readonly #clock: Clock
  readonly #charges = new Map<number, Charge<Tenant>>() // by slot
  #runEndsAtMs = 0
  #behindMs = 0 // of what waits behind the run
  #aloneSlotId: number | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Batches handed over and not yet back. */
  get outstanding(): number {
    return this.#charges.size
  }

  /** Whether the worker may be given one more batch. */
  get hasRoom(): boolean {
    return this.#aloneSlotId === null && this.outstanding < maxOutstanding
  }

  /** When the worker is reckoned to be done with what it was given, in milliseconds from now. */
  get freeInMs(): number {
    return this.outstanding === 0 ? 0 : leftOfRunMs(this.#runEndsAtMs - this.#clock.nowMs()) + this.#behindMs
  }

  /** Whether the next batch of a tenant may be handed to the busy worker. */
  mayGoAhead({ lastMs }: Share<Tenant>): boolean {
    return this.shares.size === 1 || lastMs <= handAheadBelowMs
  }

  /**
   * Notes a batch that is handed over.
   *
   * @param runMs what it is reckoned to take; 0 when nobody knows.
   * @param alone whether nothing else may be on the worker meanwhile.
   */
  given(tenant: Tenant, slotId: number, runMs: number, alone: boolean): void {
    if (alone) this.#aloneSlotId = slotId
    const charge = this.shares.charge(tenant, runMs)
    if (this.outstanding === 0) this.#starts(charge)
    else this.#behindMs += charge.estimateMs
    this.#charges.set(slotId, charge)
  }

  /** Notes that a batch is back; returns whose it was, or `undefined` when nobody's. */
  back(slotId: number, tookMs: number): Tenant | undefined {
    const charge = this.#charges.get(slotId)
    if (charge === undefined) return undefined
    if (slotId === this.#aloneSlotId) this.#aloneSlotId = null
    this.#charges.delete(slotId)
    this.shares.settle(charge, tookMs)
    // What is still out, one batch at most, starts now, however well the last one was reckoned.
    for (const behind of this.#charges.values()) this.#starts(behind)
    return charge.share.tenant
  }

  /** Forgets what was handed over: the thread is gone. */
  lost(): void {
    this.#charges.clear()
    this.#aloneSlotId = null
  }

  #starts({ estimateMs }: Charge<Tenant>): void {
    this.#runEndsAtMs = this.#clock.nowMs() + estimateMs
    this.#behindMs = 0
  }
}
