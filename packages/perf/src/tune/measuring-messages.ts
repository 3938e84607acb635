import type { EngineOptions, InferenceErrorCode, ModelConfig } from 'zerohop'
import type { Load } from './configuration.ts'
import type { Measurement } from './measurement.ts'

/** What requests are made of. */
export interface RequestSettings {
  /** Rows of a request. */
  readonly rows: number
  /** Dims of inputs that the model leaves open, without the batch dimension. */
  readonly shapes: readonly (readonly [input: string, dims: readonly number[]])[]
  /** `random`, `zero`, or folders and files of JSON. */
  readonly inputData: readonly string[]
}

/** What a process that measures is started with. */
export interface MeasuringSettings {
  readonly requests: RequestSettings
  readonly engine: EngineOptions
}

/** A model is loaded, beside those that are. */
export interface LoadTask {
  readonly type: 'load'
  readonly name: string
  readonly config: ModelConfig
}

/** One that was loaded is measured. */
export interface MeasureTask {
  readonly type: 'measure'
  readonly name: string
  readonly load: Load
  /** How long requests are sent before what is counted, and how long it is counted, in milliseconds; longer for a run that is under way. */
  readonly warmupMs: number
  readonly windowMs: number
}

export interface UnloadTask {
  readonly type: 'unload'
  readonly name: string
}

/** What a process that measures is asked; it answers each task before it is asked the next. */
export type MeasuringTask = LoadTask | MeasureTask | UnloadTask

/** What is known of a model that was loaded. */
export interface LoadedWord {
  readonly type: 'loaded'
  readonly instances: number
  readonly maxBatchSize: number
  /** Why requests share runs, or do not. */
  readonly joining: string
  /** Whether it runs on the CPU alone. */
  readonly isOnCpu: boolean
  readonly loadMs: number
}

export interface MeasuredWord {
  readonly type: 'measured'
  readonly measurement: Measurement
  /** Why requests failed; `null` where all were answered. */
  readonly failure: string | null
  /** What a run took of one instance's time, with all that is around it, in milliseconds; 0 without a run. */
  readonly runMs: number
  readonly tookMs: number
}

export interface FailedWord {
  readonly type: 'failed'
  readonly code: InferenceErrorCode | 'ERR_CRASHED' | 'ERR_TOO_LONG'
  readonly message: string
}

export interface UnloadedWord {
  readonly type: 'unloaded'
}

export type MeasuringWord = LoadedWord | MeasuredWord | UnloadedWord | FailedWord
