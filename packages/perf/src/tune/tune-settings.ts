import type { InstanceKind, ModelOptions } from 'zerohop'
import type { Clock } from 'zerohop/internals'
import type { SearchSpace } from './configuration.ts'
import { firstWarmupMs, longestTimerMs, type MeasuringSettings } from './measuring-process.ts'
import type { Measurement } from './outcome.ts'

/** What to tune, and for which goal. */
export interface TuneSettings {
  /** Path of the model file. */
  readonly path: string
  /** Other options of the model. The tuner replaces those that it searches. */
  readonly options: ModelOptions
  readonly kind: InstanceKind
  readonly measuring: MeasuringSettings
  readonly space: SearchSpace
  /** Callers that each wait for their answers. Default: as many as keep two full batches per instance. */
  readonly concurrency?: number | undefined
  /** Requests per second, instead of callers. */
  readonly rate?: number | undefined
  /** Bound of the 99th percentile of latency. */
  readonly p99Ms?: number | undefined
  /** Bound of the process's memory. */
  readonly memoryBytes?: number | undefined
  /** Longest total time, in milliseconds. */
  readonly budgetMs: number
  /** Since when the budget counts, on the clock used for measuring. Default: now. */
  readonly startedAtMs?: number | undefined
  /** Path of the file that keeps measurements for the next call. */
  readonly statePath: string
  /** Whether to discard the measurements in it. */
  readonly fresh: boolean
}

/** Callbacks for progress, called synchronously. */
export interface TuneListener {
  /** The current phase, in words. */
  onPhase?(phase: string): void
  /** A measurement has ended. */
  onMeasured?(what: string): void
}

/**
 * If the load is free, it is chosen so low that latency stays below this fraction of the bound, as processes
 * vary.
 */
const latencyMargin = 0.95

/** The same for memory: the heap may grow for longer than the measurement. */
const memoryMargin = 0.97

/** What the configuration is optimised for, and its bounds. */
export interface Goal {
  /** 99 of 100 requests are answered within so many milliseconds. */
  readonly p99Ms?: number | undefined
  /** Most memory of the process. */
  readonly memoryBytes?: number | undefined
  /**
   * The requested rows per second. Candidates that keep up are compared by their p99, not by their spare
   * capacity.
   */
  readonly rowsPerSecond?: number | undefined
}

/** The goal of the settings, with margins on the bounds. */
export function goalOf({ p99Ms, memoryBytes, rate, concurrency, measuring }: TuneSettings): Goal {
  const isLoadFree = rate === undefined && concurrency === undefined
  return {
    p99Ms: p99Ms === undefined || !isLoadFree ? p99Ms : p99Ms * latencyMargin,
    memoryBytes: memoryBytes === undefined ? undefined : memoryBytes * memoryMargin,
    rowsPerSecond: rate === undefined ? undefined : rate * measuring.requests.rows,
  }
}

/**
 * Fraction of a requested rate that must be answered in a window, as the window cuts some requests at its
 * ends.
 */
const keptUp = 0.97

/** By how much a measurement exceeds the bounds: up to 1 they are met. */
export function excessOf({ p99Ms, memoryBytes, rowsPerSecond }: Goal, measured: Measurement): number {
  if (measured.failures > 0) return Infinity
  return Math.max(
    p99Ms === undefined ? 0 : measured.p99Ms / p99Ms,
    memoryBytes === undefined ? 0 : measured.memoryBytes / memoryBytes,
    rowsPerSecond === undefined ? 0 : (rowsPerSecond * keptUp) / measured.rowsPerSecond,
  )
}

/** The value of a measurement for comparison: twice as good has twice the value. */
export function valueOf({ rowsPerSecond }: Goal, measured: Measurement): number {
  return rowsPerSecond === undefined ? measured.rowsPerSecond : 1 / Math.max(measured.p99Ms, 1e-3)
}

/** The default, one batch size, and two candidates side by side: fewer measurements give no result. */
const fewestMeasurements = 4

/** For models with short runs. */
const usualWindowMs = 300

/** A budget that was not enough must at least grow by this factor, whatever the estimate. */
const leastGrowth = 2

/**
 * The smallest useful budget in seconds, for a call that had no time to measure anything.
 *
 * @param beganMs time until there was something to measure.
 * @param startMs time from the start of a process until its model is loaded.
 */
export function leastBudgetSeconds(beganMs: number, startMs: number, budgetMs: number): number {
  const neededMs = beganMs + fewestMeasurements * (startMs + firstWarmupMs + usualWindowMs)
  return Math.ceil(Math.max(neededMs, leastGrowth * budgetMs) / 1000)
}

/** The time budget of a whole call. */
export class TimeBudget {
  readonly #clock: Clock
  readonly #fromMs: number
  readonly totalMs: number

  /** @param fromMs its start, on that clock. */
  constructor(clock: Clock, totalMs: number, fromMs = clock.nowMs()) {
    this.#clock = clock
    this.#fromMs = fromMs
    this.totalMs = totalMs
  }

  /** Time spent, also beyond the end. */
  get spentMs(): number {
    return this.#clock.nowMs() - this.#fromMs
  }

  /** At least 0. */
  get leftMs(): number {
    return Math.max(0, this.totalMs - this.spentMs)
  }

  /** Aborts when the budget is over, by the system's clock. */
  overSignal(): AbortSignal {
    return AbortSignal.timeout(Math.min(longestTimerMs, Math.ceil(this.leftMs)))
  }

  /** A share of what is left, as a budget of its own. */
  part(share: number): TimeBudget {
    return new TimeBudget(this.#clock, this.leftMs * share)
  }
}
