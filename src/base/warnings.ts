/** The codes of warnings, and when each is emitted. All warnings have the type `ZerohopWarning`. */
interface Warnings {
  /**
   * `maxBatchSize` was given, but rows depend on each other: by the graph (the message names the node) or by test runs
   * (it has the largest difference).
   */
  ZEROHOP_DEPENDENT_ROWS: string
  /**
   * Neither the graph nor test runs show whether rows depend on each other, so requests run one by one. The message says
   * what would settle it.
   */
  ZEROHOP_ROWS_UNKNOWN: string
  /**
   * A run has shown that an output does not have one entry per row. Requests run one by one from now on. An output's
   * `rows` says how its entries are divided ([Detectors](../guide/detectors.md)). Not emitted where
   * `ZEROHOP_DEPENDENT_ROWS` said so at load, by the graph.
   */
  ZEROHOP_NOT_BATCHABLE: string
  /**
   * The values by which a run assigns entries to rows (`rows` of an output) cannot be right. The requests run again in
   * halves.
   */
  ZEROHOP_NOT_DIVIDED: string
  /** An output of a loaded model has a different number of `labels` than of classes. */
  ZEROHOP_LABELS: string
  /** A request has a `priority` above `priorityLevels`. */
  ZEROHOP_PRIORITY_IGNORED: string
  /** A request has a `timeoutMs` that the queue policy ignores. */
  ZEROHOP_TIMEOUT_IGNORED: string
  /**
   * Slots are in memory beyond `staging.limitBytes`, or in memory that is not page-locked for their CUDA device; with
   * the reason.
   */
  ZEROHOP_STAGING_FALLBACK: string
  /** Another engine of the process asks for a larger `staging.limitBytes`. */
  ZEROHOP_STAGING_LIMIT: string
  /** An execution provider cannot be used; with the reason. Models run without it. */
  ZEROHOP_PROVIDER_FALLBACK: string
  /** No child process can be started to try models; with the reason. They are loaded untried. */
  ZEROHOP_VERIFY_FALLBACK: string
  /**
   * A model is not in the cache of compiled models, to which nothing can be written; with the reason, such as another
   * processor, version or option. It is tried and optimised at each start. Emitted once per model.
   */
  ZEROHOP_NOT_COMPILED: string
  /** `executor: 'auto'` is `binding`, because the addon is not available; with the reason. */
  ZEROHOP_EXECUTOR_FALLBACK: string
  /**
   * `memory.shrink` or `memory.limitBytes` was given but has no effect: with the binding, or for a model with an input
   * that is not a tensor.
   */
  ZEROHOP_MEMORY_IGNORED: string
  /** ONNX Runtime before 1.27 leaks memory in convolutions on arm64. */
  ZEROHOP_ARM64_LEAK: string
  /**
   * A model that scales automatically could not add an instance; with the reason. It tries again after
   * `scaleDownAfterMs`.
   */
  ZEROHOP_NOT_SCALED: string
  /** A trace file cannot be written; with the reason. Emitted once per file. */
  ZEROHOP_TRACE_FAILED: string
  /** An option of a session or run of `zerohop/ort` has no effect; with the reason. */
  ZEROHOP_ORT_IGNORED: string
  /** A session of a pipeline of transformers.js is not accelerated; with the reason. */
  ZEROHOP_NOT_ACCELERATED: string
  /** An inspector's page cannot read its engine; with the reason. */
  ZEROHOP_INSPECTOR: string
  /** An engine was garbage-collected without `close()`. */
  ZEROHOP_ENGINE_DROPPED: string
}

/** The code of a warning. */
export type WarningCode = keyof Warnings

/** Emits a warning of this process. */
export function warn(code: WarningCode, message: string): void {
  process.emitWarning(message, { type: 'ZerohopWarning', code })
}
