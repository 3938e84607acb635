import type { LevelRange } from './perf-run.ts'
import type { ConcurrencySteps } from './load/closed-loop.ts'
import type { StabilityRule } from './windows.ts'

/** The kind of load. */
export type LoadSettings =
  | { readonly mode: 'concurrency'; readonly range: LevelRange }
  | {
      readonly mode: 'request-rate'
      readonly range: LevelRange
      readonly distribution: 'constant' | 'poisson'
    }
  | { readonly mode: 'request-intervals'; readonly intervalsUs: readonly number[] }
  | { readonly mode: 'periodic-concurrency'; readonly steps: ConcurrencySteps }

/** What to measure of a model, and how. */
export interface PerfSettings extends MeasureSettings {
  readonly load: LoadSettings
  readonly binarySearch: boolean
  /** Seed of randomness in a load. */
  readonly seed: number
  /** Callers of a scheduled load, each with its own sequence; `null` for a model without sequences. */
  readonly sequences: { readonly count: number; readonly serial: boolean } | null
}

/** How to measure a level, under perf_analyzer's names. */
export interface MeasureSettings extends StabilityRule {
  /** A window ends after a time, or after so many requests. */
  readonly measurementMode: 'time_windows' | 'count_windows'
  /** Of windows by time, in milliseconds. Windows last 1.2 times as long, as in perf_analyzer. */
  readonly measurementIntervalMs: number
  /** Requests per window, for windows by count. */
  readonly measurementRequestCount: number
  /** Most windows until three have to agree. */
  readonly maxTrials: number
  /** Requests before the first window. */
  readonly warmupRequestCount: number
  /** Above 0: measures exactly so many requests, as one window. */
  readonly requestCount: number
  /** Answers within so many milliseconds count as goodput; `null` for no such count. */
  readonly goodputMs: number | null
}

/** The defaults of perf_analyzer. */
export const measureDefaults: MeasureSettings = {
  measurementMode: 'time_windows',
  measurementIntervalMs: 5000,
  measurementRequestCount: 50,
  stability: 0.1,
  percentile: null,
  latencyThresholdMs: 0,
  maxTrials: 10,
  warmupRequestCount: 0,
  requestCount: 0,
  goodputMs: null,
}
