import type { BatchReason } from './batching.ts'
import type { SequenceInferOptions } from './sequence-options.ts'

/**
 * Options of one `infer()`. `Report` is whether a report may be asked for: `InferOptions<string, boolean>` is the type of
 * options that are made elsewhere and may say either.
 */
export interface InferOptions<
  Output extends string = string,
  Report extends boolean = false,
> extends SequenceInferOptions {
  /**
   * Withdraws the request: while it is queued it leaves the queue at once; while it runs its result is dropped.
   * Either way the call rejects with the signal's own reason.
   */
  signal?: AbortSignal | undefined
  /**
   * Longest time in the queue, in milliseconds; then `ERR_TIMEOUT`. For a request that has started, see `maxRunMs`. Where the
   * model has a `defaultTimeoutMs` it counts only if it is shorter and `allowTimeoutOverride` is set; where it does not
   * count, a warning says so once.
   */
  timeoutMs?: number | undefined
  /**
   * Longest time of a run that the request is part of, in milliseconds; then `ERR_TIMEOUT`. The run is stopped, and others
   * that were part of it are run again without this one. Default: the model's `maxRunMs`.
   */
  maxRunMs?: number | undefined
  /**
   * Within how many milliseconds from this call the answer is of use. A request that by the times of earlier runs cannot
   * be answered in time is refused at once with `ERR_DEADLINE`, and one that cannot any more leaves the queue with it; a
   * run that has started is delivered, late or not. Default: the model's `latencyTargetMs`.
   */
  deadlineMs?: number | undefined
  /**
   * Priority level, 1 served first. 0, and any number above the model's `priorityLevels`, means its
   * `defaultPriorityLevel`; of the latter a warning tells once.
   */
  priority?: number | undefined
  /** Names of the outputs wanted, each once. Default: all that can be served. */
  outputs?: readonly Output[] | undefined
  /** Free text carried into errors of this request. */
  requestId?: string | undefined
  /** Answers with `{ outputs, report }`, where the {@link BatchReport} tells how the request was batched. Default false. */
  report?: Report
  /** As the model's `splitOversized`, for this request. */
  splitOversized?: boolean | undefined
}

/** What a request answers with that asks for a report. */
export interface ReportedOutputs<O> {
  /** As without a report. */
  outputs: O
  /** How the request was batched and run. */
  report: BatchReport
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
  /** Whether the application's thread ran it, rather than a worker. */
  inline: boolean
  /** The instance that ran it: the model's name and a number. */
  instance: string
  /** Runs the request took part in: more than 1 after a batchmate or a worker had failed. */
  attempts: number
  /** For a request that was split: a report of each of its parts, the first of which is repeated above. */
  parts?: BatchReport[]
  /**
   * Of a pipeline: a report of each step that was run, in the order in which they ended. Above, `batchId` is the number of the request,
   * `batchSize` its rows, `queuedMs` and `computeMs` the sums of the steps', and `reason` the last step's.
   */
  steps?: StepReport[]
  /** The answer was kept from an earlier run, which the rest tells of; `queuedMs` and `computeMs` are 0. Only with a `responseCache`. */
  cached?: true
  /** The run was begun for an equal request, which came before. Only with `coalesce`. */
  coalesced?: true
}

/** How a step of a pipeline was batched and run. */
export interface StepReport extends BatchReport {
  /** Its name in the pipeline. */
  step: string
  /** The name of its model, and the version that answered. */
  model: string
  version: number
  /** The number of the pipeline's request, counted per pipeline: the same for all its steps. */
  parentId: number
  /** From the pipeline's `infer()` to when the step could begin, in milliseconds. */
  beganMs: number
}
