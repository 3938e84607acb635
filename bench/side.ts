import type { Tensor } from 'zerohop'
import type { BenchModel } from './models.ts'

/** Ours, or onnxruntime-node as it comes. */
export type Side = 'ours' | 'plain'

/** A model and how it is loaded; what is left out takes its default. */
export interface LoadSettings {
  readonly model: BenchModel
  readonly intraOpNumThreads?: number
  /** Ours only. */
  readonly maxBatchSize?: number
}

/** A loaded model. */
export interface Loaded {
  infer(feeds: Record<string, Tensor>): Promise<unknown>
  /** Requests per run so far. */
  meanBatchRows(): number
}

/** Something that answers requests. */
export interface Server {
  load(settings: LoadSettings): Promise<Loaded>
  close(): Promise<void>
}
