import type { ComputePrecision, EngineOptions, Tensor } from 'zerohop'
import type { BenchModel } from './models.ts'

/** Ours, by what is said to the engine: both executors of one build, and the native one without its short cut, or with all runs in it. */
export const ourSides = {
  native: { executor: 'native' },
  'native, inline: false': { executor: 'native', inline: false },
  'native, all inline': { executor: 'native', inline: { maxUs: 1_000_000, loopShare: 1 } },
  binding: { executor: 'binding' },
} as const satisfies Record<string, EngineOptions>

/** Those that most trials set beside each other. */
export const executors = ['native', 'binding'] as const

export type OurSide = keyof typeof ourSides

/**
 * zerohop, or an alternative to it: onnxruntime-node as it comes (`plain`); with requests joined on the application's thread, by
 * a few lines (`batcher`) or the package dataloader; or with a session in each thread of a Piscina.
 */
export type Side = OurSide | 'plain' | 'batcher' | 'dataloader' | 'piscina'

/** A model and how it is loaded; what is left out takes its default. */
export interface LoadSettings {
  readonly model: BenchModel
  readonly intraOpNumThreads?: number
  /** Ours only, on the CPU. Default: 1. */
  readonly instances?: number
  /** Of those that join requests. */
  readonly maxBatchSize?: number
  /** Of the sides without us: how long ONNX Runtime's threads spin before they sleep. Default: as it comes, which is a millisecond or so. */
  readonly spinUs?: number
  /** Runs it on the first GPU, by CUDA. Default: on the CPU. */
  readonly kind?: 'cuda'
  /** Ours only: a provider plugin to run on. */
  readonly plugin?: { readonly library: string; readonly precision: ComputePrecision } | undefined
}

/** Outputs by name. */
export type Answer = Readonly<
  Record<string, { readonly data: ArrayLike<unknown>; readonly dims: readonly number[] }>
>

/** A loaded model. */
export interface Loaded {
  infer(feeds: Record<string, Tensor>): Promise<Answer>
  /** Requests per run so far. */
  meanBatchRows(): number
}

/** Something that answers requests. */
export interface Server {
  load(settings: LoadSettings): Promise<Loaded>
  close(): Promise<void>
}
