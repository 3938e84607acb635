import type { WorkerOptions } from './engine-options.ts'
import type { ModelFunction } from './function-module.ts'
import type { FunctionDeclaration, FunctionInput, FunctionOutput } from './function-tensor.ts'
import type { InstanceGroup } from './instance-group.ts'
import type { ModelOptions } from './model-config.ts'

/** Options that functions have in common with models, with the same meaning. */
type SharedOptions = Pick<
  ModelOptions,
  | 'version' | 'dynamicBatching' | 'latencyTargetMs' | 'maxRunMs' | 'rejectNonFinite' | 'splitOversized' | 'responseCache' | 'coalesce'
> // prettier-ignore

/** A group of like instances of a function; see {@link InstanceGroup}. */
export type FunctionInstanceGroup = Pick<
  InstanceGroup,
  'count' | 'minInstances' | 'maxInstances' | 'scaleUpAfterMs' | 'scaleDownAfterMs'
>

/** Options of the threads of a function; those left out are the engine's. */
export type FunctionWorkerOptions = Omit<WorkerOptions, 'niceIncrement'>

/** A function in a module, which is run on threads of its own. */
export interface FunctionOfModule {
  /**
   * The file of its module, as a path or a `file:` URL: `new URL('./tokenizer.js', import.meta.url)`, `import.meta.resolve('...')`.
   * Its default export is the {@link ModelFunction}; it may export `setup(context)`, whose result is the `state` of its
   * {@link FunctionContext}, and `teardown(context)`. TypeScript where Node strips types (22.18 and newer, or
   * `workers: { execArgv: ['--experimental-strip-types'] }`).
   */
  readonly module: string | URL
  readonly run?: never
  readonly graph?: never
}

/** A function that is run by the application's thread: for what takes less than to hand it to another one, some ten microseconds. */
export interface FunctionHere<I extends readonly FunctionInput[], O extends readonly FunctionOutput[]> {
  readonly module?: never
  readonly graph?: never
  /** It is not stopped by `maxRunMs`, unless it waits for something, and nothing else runs meanwhile. */
  readonly run: ModelFunction<FunctionDeclaration<I, O>, undefined>
}

/** A function that ONNX Runtime runs: those that are built in. */
export interface FunctionOfGraph {
  readonly module?: never
  readonly run?: never
  /** The bytes of an ONNX model with these inputs and outputs, whose first dimensions count rows. */
  readonly graph: Uint8Array
}

/** Configuration of a function of the user's that is served as a model. */
export type FunctionConfig<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
> = FunctionOptions<I, O> & (FunctionOfModule | FunctionHere<I, O> | FunctionOfGraph)

/** What may be said of a function, wherever it runs. */
export interface FunctionOptions<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
>
  extends SharedOptions, FunctionDeclaration<I, O> {
  /**
   * Most rows in one call. 0: each request is a call of its own, and `dims` are those of the whole. Rows are believed to be
   * independent. Default 32.
   */
  maxBatchSize?: number
  /** One group. Each instance is a thread with a state of its own. Default: one instance. */
  instanceGroup?: readonly [FunctionInstanceGroup]
  /** How many batches an instance may be called with at the same time; for functions that wait for something. Default 1. */
  concurrency?: number
  /** What `context.parameters` has, as Triton's `parameters`: anything that can be posted to a thread. Default `{}`. */
  parameters?: Readonly<Record<string, unknown>>
  /**
   * Whether requests are run again, once and each by itself, when the thread has ended over their batch: only whose own run ends it again
   * is rejected (`ERR_INSTANCE_CRASHED`). `false` for a function that does more than to answer. Default `true`.
   */
  rerunAfterCrash?: boolean
  /** Samples to be run on each instance before it takes batches; one that fails makes the load fail. Default: none. */
  warmup?: ModelOptions['warmup'] & readonly unknown[]
  /** Settings of its threads. Default, also of what is left out: the engine's `workers`. */
  workers?: FunctionWorkerOptions
}
