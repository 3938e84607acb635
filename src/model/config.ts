import type { InferenceSession, Tensor } from 'onnxruntime-common'
import type { TensorData } from '../tensor.ts'

/** One input as a caller gives it: a tensor, or the bare data of exactly one row (or of the whole unbatched input). */
export type FeedValue = Tensor | TensorData | readonly string[]

/** Inputs by name, as for `InferenceSession.run`; dims include the batch dimension. */
export type Feeds = Readonly<Record<string, FeedValue>>

/** Outputs by name; each tensor holds the request's own rows and belongs to the caller. */
export type Outputs = Record<string, Tensor>

/** Names and types of a model's inputs and outputs, for `engine.load<M>()`. */
export interface ModelSignature {
  inputs: Record<string, FeedValue>
  outputs: Record<string, Tensor>
}

/** The signature of a model whose inputs and outputs are known only at run time. */
export interface AnySignature extends ModelSignature {
  inputs: Record<string, FeedValue>
  outputs: Record<string, Tensor>
}

/** Options of one `infer()`. */
export interface InferOptions<Output extends string = string> {
  /**
   * Withdraws the request: while it is queued it leaves the queue at once; while it runs its result is dropped.
   * Either way the call rejects with the signal's own reason.
   */
  signal?: AbortSignal
  /** Longest time in the queue, in milliseconds; then `ERR_TIMEOUT`. A request that has started is not stopped. */
  timeoutMs?: number
  /** Names of the outputs wanted. Default: all that can be served. */
  outputs?: readonly Output[]
  /** Free text carried into errors of this request. */
  requestId?: string
}

/** Limits of a model's queue; Triton's `ModelQueuePolicy`. */
export interface QueuePolicy {
  /** Most requests waiting; one more is refused with `ERR_QUEUE_FULL`. Default 0: no limit. */
  maxQueueSize?: number
  /** `timeoutMs` of requests that give none, in milliseconds. Default 0: none. */
  defaultTimeoutMs?: number
}

/** How requests are gathered into batches; Triton's `dynamic_batching`. */
export interface DynamicBatchingConfig {
  /** Batch sizes in rows worth closing early for. Default: `maxBatchSize` alone. */
  preferredBatchSize?: number | readonly number[]
  /**
   * How long an idle instance waits for a batch to grow, in milliseconds from the arrival of its oldest request.
   * Default 0: an idle instance takes at once what there is.
   */
  maxQueueDelayMs?: number
  defaultQueuePolicy?: QueuePolicy
}

/** Where instances of a model run. */
export type InstanceKind = 'auto' | 'cpu' | 'cuda' | 'webgpu'

/** A group of like instances; Triton's `instance_group`. */
export interface InstanceGroup {
  /** Default `'auto'`: CUDA where driver and provider are found, else the CPU. */
  kind?: InstanceKind
  /** Instances (per GPU for `cuda`). Default 1. */
  count?: number
  /** CUDA device ordinals. Default `[0]`; only for `cuda`. */
  gpus?: readonly number[]
}

/** A request sent to each instance before the model is ready. */
export interface WarmupSample {
  feeds: Feeds
  /** How often. Default 1. */
  count?: number
}

/** Configuration of one model. */
export interface ModelConfig {
  /** Path of the `.onnx` (or `.ort`) file. External data files are looked for beside it. */
  path: string
  /**
   * Most rows in one run. 0: the model has no batch dimension, every request is its own run. Left out: found from
   * the model (32 when all inputs and outputs share one symbolic first dimension, else 0).
   */
  maxBatchSize?: number
  /** `false`: requests are never joined, though one request may still hold several rows. Default: `{}`. */
  dynamicBatching?: DynamicBatchingConfig | false
  /** Default: one instance of kind `'auto'`. */
  instanceGroup?: readonly InstanceGroup[]
  /** Passed to ONNX Runtime, after this library's defaults. */
  sessionOptions?: InferenceSession.SessionOptions
  /** Execution providers in order of preference; overrides what `instanceGroup` implies. */
  executionProviders?: readonly InferenceSession.ExecutionProviderConfig[]
  /**
   * `true`: one run on zeros per instance, where all inputs are floating point with known row shapes; `false`: none;
   * or samples to run. A sample that fails makes the load fail. Default `true`.
   */
  warmup?: boolean | readonly WarmupSample[]
}
