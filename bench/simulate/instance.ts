import { leftOfRunMs } from '../../src/workers/worker-time.ts'
import type { VirtualClock } from './virtual-clock.ts'
import { FairTurns, type TurnCharge } from './fair-turns.ts'
import type { SimulatedRequest } from './request.ts'

/** A batch on an instance. */
export interface Run {
  readonly model: number
  readonly requests: readonly SimulatedRequest[]
  readonly rows: number
  readonly charge: TurnCharge
  /** What it is expected to take; 0 when nobody knows. */
  readonly expectedMs: number
  startMs: number
}

/** What an {@link Instance} tells its owner. */
export interface InstanceOwner {
  /** How long a run that starts now takes, in milliseconds. */
  started(run: Run): number
  ended(instance: Instance, run: Run): void
}

/** One batch at a time, and at most one that waits behind it. */
export class Instance {
  readonly turns: FairTurns
  running: Run | null = null
  behind: Run | null = null
  readonly #clock: VirtualClock
  readonly #owner: InstanceOwner

  constructor(models: number, clock: VirtualClock, owner: InstanceOwner) {
    this.turns = new FairTurns(models)
    this.#clock = clock
    this.#owner = owner
  }

  submit(run: Run): void {
    if (this.running === null) this.#start(run)
    else this.behind = run
  }

  /** How long until it could start something more, in milliseconds, as far as can be known. */
  freeInMs(): number {
    const { running, behind } = this
    if (running === null) return 0
    const leftMs = running.startMs + running.expectedMs - this.#clock.nowMs()
    return leftOfRunMs(leftMs) + (behind?.expectedMs ?? 0)
  }

  #start(run: Run): void {
    this.running = run
    run.startMs = this.#clock.nowMs()
    this.#clock.setTimer(this.#onEnd, this.#owner.started(run))
  }

  readonly #onEnd = (): void => {
    const { running, behind } = this
    const run = running!
    this.running = this.behind = null
    this.turns.settle(run.charge, this.#clock.nowMs() - run.startMs)
    if (behind !== null) this.#start(behind)
    this.#owner.ended(this, run)
  }
}
