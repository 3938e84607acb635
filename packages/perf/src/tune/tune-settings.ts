import type { InstanceKind, ModelOptions } from 'zerohop'
import type { MeasuringSettings } from './measuring-messages.ts'
import type { SearchSpace } from './search-space.ts'

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
