import type { DurationHistogram } from './load/duration-histogram.ts'
import type { LoadWindow } from './load/load-window.ts'
import type { StatisticsSpan } from 'zerohop/internals'

/** What was seen between two moments: by the callers, in the engine, and of the process. */
export interface MeasuredWindow {
  readonly load: LoadWindow
  /** The model's statistics. */
  readonly server: StatisticsSpan
  /** Those of the models of an ensemble's steps, in their order. */
  readonly composing: readonly StatisticsSpan[]
  readonly eventLoopDelay: DurationHistogram
  /** Sequences that were begun; `null` where there are none. */
  readonly sequences: number | null
  /** Processor time of the process. */
  readonly cpuSeconds: number
}
