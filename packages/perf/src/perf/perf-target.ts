import type { Model } from 'zerohop'
import type { SampleSource } from './input/sample.ts'
import type { PerfResult } from './result.ts'

/** What is measured of a model; `Model` has all of it. */
export type PerfModel = Pick<Model, 'name' | 'version' | 'metadata' | 'infer' | 'stats'>

/** A model that others are made up of; it is looked at, not asked. */
export type ComposedModel = Pick<Model, 'name' | 'version' | 'stats'>

/** A model that is loaded, and what it is asked. */
export interface PerfTarget {
  readonly model: PerfModel
  readonly source: SampleSource
  /** The models of an ensemble's steps. Default: none. */
  readonly composingModels?: readonly ComposedModel[]
  /** Default: nothing is told of it. */
  readonly machine?: PerfResult['machine']
}
