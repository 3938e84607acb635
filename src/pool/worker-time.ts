import type { Clock } from '../clock.ts'
import { FairShare, type Charge } from './fair-share.ts'
import type { Tenant } from './tenant.ts'

/** The time of one worker: who has been given what of it, and when it will be free. */
export class WorkerTime {
  readonly shares = new FairShare<Tenant>()
  readonly #clock: Clock
  readonly #charges = new Map<number, Charge<Tenant>>() // by slot
  #busyUntilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Batches handed over and not yet back. */
  get outstanding(): number {
    return this.#charges.size
  }

  /** When the worker is reckoned to be done with what it was given, in milliseconds from now. */
  get freeInMs(): number {
    return this.outstanding === 0 ? 0 : Math.max(0, this.#busyUntilMs - this.#clock.nowMs())
  }

  /** Notes a batch that is handed over and reckoned to take `runMs`, 0 when nobody knows. */
  given(tenant: Tenant, slotId: number, runMs: number): void {
    const charge = this.shares.charge(tenant, runMs)
    const nowMs = this.#clock.nowMs()
    this.#busyUntilMs = (this.outstanding === 0 ? nowMs : Math.max(nowMs, this.#busyUntilMs)) + charge.estimateMs
    this.#charges.set(slotId, charge)
  }

  /** Notes that a batch is back; returns whose it was, or `undefined` when nobody's. */
  back(slotId: number, tookMs: number): Tenant | undefined {
    const charge = this.#charges.get(slotId)
    if (charge === undefined) return undefined
    this.#charges.delete(slotId)
    this.shares.settle(charge, tookMs)
    // What is still out, one batch at most, starts now, however well the last one was reckoned.
    for (const { estimateMs } of this.#charges.values()) this.#busyUntilMs = this.#clock.nowMs() + estimateMs
    return charge.share.tenant
  }

  /** Forgets what was handed over: the thread is gone. */
  lost(): void {
    this.#charges.clear()
  }
}
