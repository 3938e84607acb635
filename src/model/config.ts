import type { InferenceSession, Tensor } from 'onnxruntime-common'
import type { BatchReason, TimeoutAction } from '../scheduling.ts'
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
  /**
   * Within how many milliseconds from this call the answer is of use. A request that by the times of earlier runs cannot
   * be answered in time is refused at once with `ERR_DEADLINE`, and one that cannot any more leaves the queue with it; a
   * run that has started is delivered, late or not. Default: the model's `latencyTargetMs`.
   */
  deadlineMs?: number
  /**
   * Priority level, 1 served first. 0, and any number above the model's `priorityLevels`, means its
   * `defaultPriorityLevel`.
   */
  priority?: number
  /** Names of the outputs wanted. Default: all that can be served. */
  outputs?: readonly Output[]
  /** Free text carried into errors of this request. */
  requestId?: string
  /** Answers with `{ outputs, report }`, where the {@link BatchReport} tells how the request was batched. Default false. */
  report?: boolean
  /** As the model's `splitOversized`, for this request. */
  splitOversized?: boolean
}

/** How a request was batched and run. */
export interface BatchReport {
  /** Number of the run, counted per model; equal for all that shared it. */
  batchId: number
  /** Rows of the run. */
  batchSize: number
  /** The length to which the padded dimension was filled up; `null` for a model without padding. */
  paddedTo: number | null
  /** Index of the request's first row in the run. */
  position: number
  /** From `infer()` to the start of the run, in milliseconds. */
  queuedMs: number
  /** ONNX Runtime's run, in milliseconds. */
  computeMs: number
  /** Why the batch was closed. */
  reason: BatchReason
  /** The instance that ran it: the model's name and a number. */
  instance: string
  /** Runs the request took part in: more than 1 after a batchmate or a worker had failed. */
  attempts: number
  /** For a request that was split: a report of each of its parts, the first of which is repeated above. */
  parts?: BatchReport[]
}

/** Limits of one priority level's queue; Triton's `ModelQueuePolicy`. */
export interface QueuePolicy {
  /**
   * `'REJECT'`: it rejects with `ERR_TIMEOUT`. `'DELAY'`: it waits on without a timeout, behind the others of its level.
   * Default `'REJECT'`.
   */
  timeoutAction?: TimeoutAction
  /** Longest time in the queue, in milliseconds. Default 0: no limit. */
  defaultTimeoutMs?: number
  /**
   * Whether a request's `timeoutMs` may shorten `defaultTimeoutMs`; as in Triton it can't lengthen it. Without a default
   * a request's own timeout always counts. Default `false`.
   */
  allowTimeoutOverride?: boolean
  /** Most requests of the level that may wait; one more is refused with `ERR_QUEUE_FULL`. Default 0: no limit. */
  maxQueueSize?: number
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
  /**
   * Whether responses come in the order of their requests also over several instances. Refusals, timeouts and aborts
   * are not held back. Default `false`.
   */
  preserveOrdering?: boolean
  /** Number of priority levels, 1 the highest. Default 0: all requests are equal. */
  priorityLevels?: number
  /** Level of requests that name none. Default: `priorityLevels`, the lowest. */
  defaultPriorityLevel?: number
  /** Limits of every level that `priorityQueuePolicy` does not name. */
  defaultQueuePolicy?: QueuePolicy
  /** Limits by level. */
  priorityQueuePolicy?: Readonly<Record<number, QueuePolicy>>
  /**
   * For tests: nothing is run until so many requests have waited at once, so that what is batched together does not
   * depend on time. Default 0: no hold.
   */
  holdUntilQueued?: number
}

/**
 * How rows of different lengths share a run: they are filled up to a common length along one dimension, and outputs are
 * cut back to the request's own. The model must give the same for the real part whatever it was filled up with, which
 * usually takes an attention mask among the padded inputs.
 */
export interface PaddingConfig {
  /** The input to pad. */
  input: string
  /** The dimension to pad: an index into the input's dims, batch dimension included. */
  dim: number
  /**
   * Lengths to fill up to: each request goes to the bucket of the smallest that holds it, and one longer than all runs
   * with its own length. `'longest'`: all lengths share batches, filled up to the longest in each. Default `'longest'`.
   */
  sizes?: readonly number[] | 'longest'
  /** What to fill with. Default 0. */
  value?: number
  /** Outputs that have the padded length, and their dimension that has it. Default: none. */
  outputs?: readonly { name: string; dim: number }[]
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
  /**
   * Latency in milliseconds that 99 of 100 requests should keep: batch size and closing time are chosen by the times of
   * recent runs (measured first during the load) to serve as many rows per second as possible within it, and requests
   * that cannot be answered in time are refused at once with `ERR_DEADLINE`. Default: none.
   */
  latencyTargetMs?: number
  /**
   * Inputs that a request may leave out. The graph must be able to do without: it asks with `OptionalHasElement`, or no
   * node reads them; where one does, ONNX Runtime fails the run (`ERR_EXECUTION`). Requests batch together only when they
   * give the same inputs. Default: none.
   */
  optionalInputs?: readonly string[]
  /** Share of a worker's time relative to other models on it when all have work. Default 1. */
  weight?: number
  /** Lets requests of different lengths share a run; several entries for several inputs. Default: none. */
  padding?: PaddingConfig | readonly PaddingConfig[]
  /**
   * Whether requests that were lost with a worker may be run again: once, and each by itself. Only for models whose runs
   * leave no trace. Default `false`: they reject with `ERR_INSTANCE_CRASHED`.
   */
  rerunAfterCrash?: boolean
  /**
   * Guards against NaN and infinity: `'inputs'` refuses a request that has any (`ERR_INVALID_ARG`), `'outputs'` rejects
   * the request whose own rows have any (`ERR_EXECUTION`). Costs a look at every element. Default: neither.
   */
  rejectNonFinite?: 'inputs' | 'outputs'
  /** Whether a request of more than `maxBatchSize` rows is run in several batches and joined again. Default `false`: refused. */
  splitOversized?: boolean
}
