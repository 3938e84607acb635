import type { InstanceUse } from './autoscaler.ts'

/** What is measured of a model. */
export interface Measured {
  /** Rows and runs so far. */
  readonly done: { readonly rows: number; readonly runs: number }
  readonly uses: readonly InstanceUse[]
}

/** Without anything to do for so long, a model was idle; less is what callers take between an answer and their next request. */
const leastGapMs = 20
/** Part of a window that may be idle: else it says more of the load than of the settings. */
const idleShare = 0.15

/** What a model does from a moment on, as it is looked at when runs end. */
export class ThroughputWindow {
  readonly #model: Measured
  readonly #fromMs: number
  readonly #from: Measured['done']
  readonly #busyBeforeMs: number
  #seenMs: number
  #seenBusyMs: readonly number[]
  #idleMs = 0

  constructor(model: Measured, nowMs: number) {
    this.#model = model
    this.#fromMs = this.#seenMs = nowMs
    this.#from = model.done
    this.#seenBusyMs = model.uses.map(({ busyMs }) => busyMs)
    this.#busyBeforeMs = sum(this.#seenBusyMs)
  }

  /** A run ended. */
  see(nowMs: number): void {
    const busyMs = this.#model.uses.map((use) => use.busyMs)
    const most = busyMs.reduce(
      (longest, ms, index) => Math.max(longest, ms - (this.#seenBusyMs[index] ?? 0)),
      0,
    )
    const gapMs = nowMs - this.#seenMs - most
    if (gapMs >= leastGapMs) this.#idleMs += gapMs
    this.#seenMs = nowMs
    this.#seenBusyMs = busyMs
  }

  tookMs(nowMs: number): number {
    return nowMs - this.#fromMs
  }

  get runs(): number {
    return this.#model.done.runs - this.#from.runs
  }

  rowsPerSecond(nowMs: number): number {
    return ((this.#model.done.rows - this.#from.rows) * 1000) / Math.max(1, this.tookMs(nowMs))
  }

  /** For how long instances were busy, all together. */
  get busyMs(): number {
    return sum(this.#model.uses.map(({ busyMs }) => busyMs)) - this.#busyBeforeMs
  }

  /** Whether there was nothing to do for part of it. */
  isIdle(nowMs: number): boolean {
    return this.#idleMs > idleShare * this.tookMs(nowMs)
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0)
}
