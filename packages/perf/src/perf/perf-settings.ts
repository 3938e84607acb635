import type { LevelRange } from './perf-run.ts'
import type { ConcurrencySteps } from './load/closed-loop.ts'
import type { StabilityRule } from './windows.ts'

/** How load is made. */
export type LoadSettings =
  | { readonly mode: 'concurrency'; readonly range: LevelRange }
  | {
      readonly mode: 'request-rate'
      readonly range: LevelRange
      readonly distribution: 'constant' | 'poisson'
    }
  | { readonly mode: 'request-intervals'; readonly intervalsUs: readonly number[] }
  | { readonly mode: 'periodic-concurrency'; readonly steps: ConcurrencySteps }

/** What is measured of a model, and how. */
export interface PerfSettings extends MeasureSettings {
  readonly load: LoadSettings
  readonly binarySearch: boolean
  /** Of what is random in a load. */
  readonly seed: number
  /** Callers of a load that is sent by a schedule, each with a sequence of its own; `null` for a model without sequences. */
  readonly sequences: { readonly count: number; readonly serial: boolean } | null
}

/** How a level is measured, under the names of perf_analyzer. */
export interface MeasureSettings extends StabilityRule {
  /** What ends a window: time, or so many requests. */
  readonly measurementMode: 'time_windows' | 'count_windows'
  /** Of windows by time, in milliseconds. Windows last 1.2 times as long, as perf_analyzer's. */
  readonly measurementIntervalMs: number
  /** Of windows by count. */
  readonly measurementRequestCount: number
  /** Windows until three have to agree. */
  readonly maxTrials: number
  /** Requests before the first window. */
  readonly warmupRequestCount: number
  /** Above 0: exactly so many requests are measured, as one window. */
  readonly requestCount: number
  /** Answers within so many milliseconds count as goodput; `null`: no such count. */
  readonly goodputMs: number | null
}

/** As perf_analyzer has them. */
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
