import type { StabilityRule } from './stability.ts'

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
