import { leftOfRunMs } from 'zerohop/internals'
import { FairTurns, type TurnCharge } from './fair-turns.ts'
import type { SimulatedRequest } from './simulated-request.ts'
import type { VirtualClock } from './virtual-clock.ts'

/** A batch on an instance. */
export interface Run {
  /** Later ones have greater numbers. */
  readonly number: number
  readonly model: number
  readonly requests: readonly SimulatedRequest[]
  readonly rows: number
  /** By what it takes its time: its rows, or what it costs. */
  readonly size: number
  readonly charge: TurnCharge
  /** What it is expected to take; 0 when nobody knows. */
  readonly expectedMs: number
  /** When it is gathered and handed over. */
  readyAtMs: number
  /** What it takes on the application's thread; `null` for one that was handed over. */
  readonly inlineMs: number | null
  /** Whether its queue reckons that it waits behind another. */
  readonly ahead: boolean
  startMs: number
}

/** What a {@link SimulatedInstance} tells its owner. */
export interface InstanceOwner {
  /** How long a run that starts now takes when nothing else runs, in milliseconds. */
  started(run: Run): number
  /** How long it takes from the end of a run until one starts that waited behind it. */
  betweenMs(run: Run): number
  ended(instance: SimulatedInstance, run: Run): void
}

/** One batch at a time, and at most one that waits behind it. */
export class SimulatedInstance {
  readonly turns: FairTurns
  running: Run | null = null
  behind: Run | null = null
  /** Runs that have ended, of which the application's thread was not told yet. */
  #untold = 0
  readonly #clock: VirtualClock
  readonly #owner: InstanceOwner
  #timer: unknown = null
  /** How many times as long as alone the run takes at present. */
  #factor = 1
  #leftMs = 0 // of the run, were it alone
  #asOfMs = 0

  constructor(models: number, clock: VirtualClock, owner: InstanceOwner) {
    this.turns = new FairTurns(models)
    this.#clock = clock
    this.#owner = owner
  }

  /** Whether it has nothing, as far as the application's thread knows. */
  get isIdle(): boolean {
    return this.#out === 0
  }

  /** Whether it may be given a batch: one that runs, and one behind it. */
  get hasRoom(): boolean {
    return this.#out < 2
  }

  get #out(): number {
    return this.#untold + (this.running === null ? 0 : 1) + (this.behind === null ? 0 : 1)
  }

  submit(run: Run): void {
    if (this.running === null) this.#next(run)
    else this.behind = run
  }

  /** The application's thread knows of the end of a run. */
  told(): void {
    this.#untold--
  }

  /** Takes what waits behind its run back. */
  takeBack(): Run | null {
    const { behind } = this
    this.behind = null
    if (behind !== null) this.turns.refund(behind.charge)
    return behind
  }

  /** How long until it could start something more, in milliseconds, as far as can be known. */
  freeInMs(): number {
    const { running, behind } = this
    if (running === null) return this.isIdle ? 0 : leftOfRunMs(0)
    const leftMs = running.startMs + running.expectedMs - this.#clock.nowMs()
    return leftOfRunMs(leftMs) + (behind?.expectedMs ?? 0)
  }

  /** From now on a run takes so many times as long as alone: also what is left of the one that runs. */
  slowBy(factor: number): void {
    if (factor === this.#factor) return
    const nowMs = this.#clock.nowMs()
    this.#leftMs = Math.max(0, this.#leftMs - (nowMs - this.#asOfMs) / this.#factor)
    this.#asOfMs = nowMs
    this.#factor = factor
    if (this.#timer === null) return
    this.#clock.clearTimer(this.#timer)
    this.#timer = this.#clock.setTimer(this.#onEnd, this.#leftMs * factor)
  }

  #next(run: Run): void {
    this.running = run
    run.startMs = Math.max(this.#clock.nowMs(), run.readyAtMs)
    if (run.readyAtMs > this.#clock.nowMs())
      this.#clock.setTimer(this.#start, run.readyAtMs - this.#clock.nowMs())
    else this.#start()
  }

  readonly #start = (): void => {
    const run = this.running!
    run.startMs = this.#asOfMs = this.#clock.nowMs()
    this.#leftMs = this.#owner.started(run)
    this.#timer = this.#clock.setTimer(this.#onEnd, this.#leftMs * this.#factor)
  }

  readonly #onEnd = (): void => {
    const { running, behind } = this
    const run = running!
    this.#timer = null
    this.running = this.behind = null
    this.#untold++
    this.turns.settle(run.charge, this.#clock.nowMs() - run.startMs)
    if (behind !== null) {
      behind.readyAtMs = Math.max(behind.readyAtMs, this.#clock.nowMs() + this.#owner.betweenMs(behind))
      this.#next(behind)
    }
    this.#owner.ended(this, run)
  }
}
