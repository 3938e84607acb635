import type { InstanceKind, ModelOptions } from 'zerohop'
import type { Clock } from 'zerohop/internals'
import type { SearchSpace } from './configuration.ts'
import { firstWarmupMs, longestTimerMs, type MeasuringSettings } from './measuring-process.ts'
import type { Measurement } from './outcome.ts'

/** What is tuned, and for what. */
export interface TuneSettings {
  /** The model's file. */
  readonly path: string
  /** What else the model is loaded with; of it the tuner changes what it searches. */
  readonly options: ModelOptions
  readonly kind: InstanceKind
  readonly measuring: MeasuringSettings
  readonly space: SearchSpace
  /** Callers that each wait for their answer. Default: as many as keep two full batches per instance. */
  readonly concurrency?: number | undefined
  /** Requests a second, instead. */
  readonly rate?: number | undefined
  /** Bound of the 99th of 100 latencies. */
  readonly p99Ms?: number | undefined
  /** Bound of the memory of the process. */
  readonly memoryBytes?: number | undefined
  /** Longest time of all together, in milliseconds ... */
  readonly budgetMs: number
  /** ... since then, by the clock of what it is measured with. Default: now. */
  readonly startedAtMs?: number | undefined
  /** Where what was measured is kept, for the next call. */
  readonly statePath: string
  /** Whether what is kept there is forgotten. */
  readonly fresh: boolean
}

/** Told of what goes on; each is called at once. */
export interface TuneListener {
  /** What is done now, in words. */
  onPhase?(phase: string): void
  /** Something worth knowing. */
  onNote?(note: string): void
  /** A measurement is over. */
  onMeasured?(what: string): void
}

/** Where the load is free it is so low that the bound on latency is kept by so much, as the next process is never quite like the last. */
const latencyMargin = 0.95

/** The same of memory: a heap grows for longer than is measured. */
const memoryMargin = 0.97

/** What the best configuration is best at, and what it must keep. */
export interface Goal {
  /** 99 of 100 requests are answered within so many milliseconds. */
  readonly p99Ms?: number | undefined
  /** Most memory of the process. */
  readonly memoryBytes?: number | undefined
  /** Rows a second that are asked for: those who keep up are compared by their p99, and not by how much more they could do. */
  readonly rowsPerSecond?: number | undefined
}

/** What is asked for, with what bounds are kept by. */
export function goalOf({ p99Ms, memoryBytes, rate, concurrency, measuring }: TuneSettings): Goal {
  const isLoadFree = rate === undefined && concurrency === undefined
  return {
    p99Ms: p99Ms === undefined || !isLoadFree ? p99Ms : p99Ms * latencyMargin,
    memoryBytes: memoryBytes === undefined ? undefined : memoryBytes * memoryMargin,
    rowsPerSecond: rate === undefined ? undefined : rate * measuring.requests.rows,
  }
}

/** Of a rate that is asked for, what has to be answered in a window that cuts some requests at its ends. */
const keptUp = 0.97

/** By how much a measurement is worse than what has to be kept: up to 1 it is kept. */
export function excessOf({ p99Ms, memoryBytes, rowsPerSecond }: Goal, measured: Measurement): number {
  if (measured.failures > 0) return Infinity
  return Math.max(
    p99Ms === undefined ? 0 : measured.p99Ms / p99Ms,
    memoryBytes === undefined ? 0 : measured.memoryBytes / memoryBytes,
    rowsPerSecond === undefined ? 0 : (rowsPerSecond * keptUp) / measured.rowsPerSecond,
  )
}

/** How good a measurement is, beside others: twice as good has twice the value. */
export function valueOf({ rowsPerSecond }: Goal, measured: Measurement): number {
  return rowsPerSecond === undefined ? measured.rowsPerSecond : 1 / Math.max(measured.p99Ms, 1e-3)
}

/** The default, one batch size, and two candidates beside each other: with less nothing is found out. */
const fewestMeasurements = 4

/** Of models whose runs are short. */
const usualWindowMs = 300

/** A budget that did not do is not enough, whatever was reckoned. */
const leastGrowth = 2

/**
 * With how many seconds a call that had no time to measure anything is worth while.
 *
 * @param beganMs what went by until there was something to measure.
 * @param startMs what a process takes from its start until its model is loaded.
 */
export function leastBudgetSeconds(beganMs: number, startMs: number, budgetMs: number): number {
  const neededMs = beganMs + fewestMeasurements * (startMs + firstWarmupMs + usualWindowMs)
  return Math.ceil(Math.max(neededMs, leastGrowth * budgetMs) / 1000)
}

/** The time that everything together may take. */
export class TimeBudget {
  readonly #clock: Clock
  readonly #fromMs: number
  readonly totalMs: number

  /** @param fromMs since when it runs, by that clock. */
  constructor(clock: Clock, totalMs: number, fromMs = clock.nowMs()) {
    this.#clock = clock
    this.#fromMs = fromMs
    this.totalMs = totalMs
  }

  /** What has gone by, also beyond the end. */
  get spentMs(): number {
    return this.#clock.nowMs() - this.#fromMs
  }

  /** Not below 0. */
  get leftMs(): number {
    return Math.max(0, this.totalMs - this.spentMs)
  }

  /** Aborts when it is over, by the clock of the system. */
  overSignal(): AbortSignal {
    return AbortSignal.timeout(Math.min(longestTimerMs, Math.ceil(this.leftMs)))
  }

  /** Part of what is left, as a budget of its own. */
  part(share: number): TimeBudget {
    return new TimeBudget(this.#clock, this.leftMs * share)
  }
}
