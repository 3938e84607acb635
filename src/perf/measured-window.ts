import type { ModelStatistics } from '../index.ts'
import type { DurationHistogram } from './load/duration-histogram.ts'
import type { LoadWindow } from './load/load-window.ts'

/** What was seen between two moments: by the callers, in the engine, and of the process. */
export interface MeasuredWindow {
  readonly load: LoadWindow
  /** The model's statistics at its beginning and at its end. */
  readonly before: ModelStatistics
  readonly after: ModelStatistics
  readonly eventLoopDelay: DurationHistogram
  /** Sequences that were begun; `null` where there are none. */
  readonly sequences: number | null
  /** Processor time of the process. */
  readonly cpuSeconds: number
}
