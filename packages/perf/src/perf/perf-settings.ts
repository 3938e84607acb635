import type { LevelRange } from './level-search.ts'
import type { ConcurrencySteps } from './load/periodic-concurrency.ts'
import type { MeasureSettings } from './measure-settings.ts'

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
