export { InferenceEngine } from './engine.ts'
export type { EngineStatistics, NamedStatistics, VersionStatistics } from './engine-statistics.ts'
export type { ArrivalRecording } from './arrivals/arrival-recording.ts'
export type { RecordingOptions } from './config/recording-options.ts'
export type { CloseOptions } from './config/close-options.ts'
export type { EngineOptions } from './config/engine-options.ts'
export type { CacheCapability, CacheOptions, ModelOrigin, VerifyChoice } from './config/cache-options.ts'
export type {
  FunctionConfig,
  FunctionHere,
  FunctionInstanceGroup,
  FunctionOfGraph,
  FunctionOfModule,
  FunctionOptions,
  FunctionWorkerOptions,
} from './config/function-config.ts'
export type {
  BatchInput,
  FunctionBatch,
  FunctionContext,
  FunctionInstance,
  FunctionOutputs,
  FunctionResult,
  ModelFunction,
} from './config/function-module.ts'
export type {
  FunctionDeclaration,
  FunctionFeed,
  FunctionInput,
  FunctionOutput,
  FunctionSignature,
} from './config/function-tensor.ts'
export type { ConfiguredSignature, LiteralConfig, SignatureOf } from './config/configured-signature.ts'
export type {
  PipelineConfig,
  PipelineInput,
  PipelineInputs,
  PipelineOutput,
  PipelineOutputs,
  PipelineSignature,
  PipelineStep,
  PipelineTensors,
} from './config/pipeline-config.ts'
export type { EngineTrace } from './engine-trace.ts'
export type {
  ResolvedTraceSettings,
  TraceLevel,
  TraceOptions,
  TraceSettings,
} from './config/trace-options.ts'
export type { TraceStatistics } from './tracing/trace-account.ts'
export { InferenceError } from './errors.ts'
export type { InferenceErrorCode, InferenceErrorDetails } from './errors.ts'
export { Model } from './model.ts'
export type { InferManyOptions, InferManyResult } from './request/infer-many.ts'
export type { ItemSource } from './request/item-source.ts'
export type { ModelCapacity } from './observability/model-capacity.ts'
export type { ModelState, ModelVersionStatus } from './model-state.ts'
export type { Classification } from './classification.ts'
export type { InputConfig, OutputConfig, TensorConfig } from './config/tensor-config.ts'
export type {
  DirectSequences,
  OldestSequences,
  SequenceConfig,
  SequenceControl,
  SequenceState,
} from './config/sequence-config.ts'
export type { SequenceId, SequenceInferOptions } from './config/sequence-options.ts'
export { SequenceStream } from './sequence-stream.ts'
export type { StreamInferOptions, StreamOptions } from './sequence-stream.ts'
export type { InstanceGroup, InstanceKind } from './config/instance-group.ts'
export type { AutoTuneOptions } from './config/auto-tune-options.ts'
export type {
  MemoryOptions,
  ModelConfig,
  ModelOptions,
  PaddingConfig,
  ProviderOptions,
  ResponseCacheOptions,
  RunOptions,
  SessionOptions,
  WarmupOptions,
  WarmupSample,
} from './config/model-config.ts'
export type { CostedRequest, OverCostAction, RequestCost } from './config/batch-cost.ts'
export type { DynamicBatchingConfig, QueuePolicy } from './config/batching-config.ts'
export type { BatchReport, InferOptions, ReportedOutputs, StepReport } from './config/infer-options.ts'
export type {
  AnySignature,
  Feeds,
  FeedValue,
  ModelSignature,
  Outputs,
  StructuredFeed,
} from './config/model-signature.ts'
export type { ImageInput } from './config/image-input.ts'
export type { LeaseOptions } from './config/lease-options.ts'
export type { Lease, LeasedInputs } from './lease/lease.ts'
export type { BatchMessage, RequestMessage } from './observability/channel-observer.ts'
export type { BatchMoments } from './observability/request-observer.ts'
export type {
  AutoTuneDecision,
  AutoTuneFinalTurns,
  AutoTuneStatistics,
} from './observability/auto-tune-stats.ts'
export type { LeaseStatistics } from './observability/lease-stats.ts'
export type { LoadOptions } from './config/load-options.ts'
export type { ScaleOptions } from './config/scale-options.ts'
export type { EngineInferOptions, UnloadOptions } from './config/version-options.ts'
export type {
  EngineEvents,
  ModelEvent,
  RepositoryEvent,
  SequenceEvent,
  TraceEvent,
  WorkerEvent,
} from './observability/engine-events.ts'
export type {
  ModelMetadata,
  ModelProperties,
  ModelProvider,
  OutputRows,
  RowJoining,
  TensorMetadata,
  ValueMetadata,
} from './metadata.ts'
export type { MapEntry, MapValue, OutputValue } from './values.ts'
export type { StructuredType } from './value-type.ts'
export type { EventLoopDelayStatistics } from './observability/event-loop-delay.ts'
export type { InstanceStatistics } from './observability/instance-statistics.ts'
export type {
  LatencyBucket,
  LatencyDistribution,
  LatencyPercentiles,
} from './observability/latency-histogram.ts'
export type { WorkerStatistics } from './observability/worker-statistics.ts'
export type { BatchStatistics, ModelStatistics } from './observability/model-statistics.ts'
export type { RefusalReason, RejectionReason } from './observability/rejections.ts'
export type { StatisticDuration } from './observability/statistic-duration.ts'
export type { StepStatistics } from './observability/step-statistics.ts'
export type { ResponseCacheStatistics } from './observability/response-stats.ts'
export type { WorkerOptions } from './config/engine-options.ts'
export type { ProviderCapability, ProviderDevice } from './workers/provider-capabilities.ts'
export type { ComputePrecision, ProviderPlugin } from './config/provider-options.ts'
export type { Capabilities } from './workers/devices.ts'
export type {
  RepositoryOptions,
  RepositoryProblem,
  RepositoryReport,
} from './triton-repository/repository-options.ts'
export { defineModelConfig } from './config/repository-model-config.ts'
export type { RepositoryModelConfig, RepositoryOutputConfig } from './config/repository-model-config.ts'
export type { StagingKind, StagingStats } from './memory/staging-pool.ts'
export type { ExecutorChoice, InlineOptions, StagingOptions } from './config/engine-options.ts'
export type { BatchReason, TimeoutAction } from './config/batching.ts'
export { Tensor } from './tensor.ts'
export type { ElementType, RawTensor, RawType, TensorData, TensorType } from './tensor.ts'
