export { InferenceEngine } from './engine.ts'
export type { EngineStatistics, NamedStatistics, VersionStatistics } from './engine/engine-resources.ts'
export type { ArrivalRecording } from './observe/arrival-recording.ts'
export type { RecordingOptions } from './options/method-options.ts'
export type { CloseOptions } from './options/method-options.ts'
export type { EngineOptions } from './options/engine-options.ts'
export type { CacheCapability, CacheOptions, ModelOrigin, VerifyChoice } from './options/engine-options.ts'
export type {
  FunctionConfig,
  FunctionHere,
  FunctionInstanceGroup,
  FunctionOfGraph,
  FunctionOfModule,
  FunctionOptions,
  FunctionWorkerOptions,
} from './options/function-config.ts'
export type {
  BatchInput,
  FunctionBatch,
  FunctionContext,
  FunctionInstance,
  FunctionOutputs,
  FunctionResult,
  ModelFunction,
} from './options/function-module.ts'
export type {
  FunctionDeclaration,
  FunctionFeed,
  FunctionInput,
  FunctionOutput,
  FunctionSignature,
} from './options/function-module.ts'
export type { ConfiguredSignature, LiteralConfig, SignatureOf } from './options/model-signature.ts'
export type {
  PipelineConfig,
  PipelineInput,
  PipelineInputs,
  PipelineOutput,
  PipelineOutputs,
  PipelineSignature,
  PipelineStep,
  PipelineTensors,
} from './options/pipeline-config.ts'
export type { EngineTrace } from './engine.ts'
export type {
  ResolvedTraceSettings,
  TraceLevel,
  TraceOptions,
  TraceSettings,
} from './options/trace-options.ts'
export type { TraceStatistics } from './observe/trace-writer.ts'
export { InferenceError } from './errors.ts'
export type { InferenceErrorCode, InferenceErrorDetails } from './errors.ts'
export { Model } from './model.ts'
export type { InferManyOptions, InferManyResult } from './request/infer-many.ts'
export type { ItemSource } from './request/infer-many.ts'
export type {
  ModelCapacity,
  AutoTuneDecision,
  AutoTuneFinalTurns,
  AutoTuneStatistics,
  LeaseStatistics,
  EventLoopDelayStatistics,
  InstanceStatistics,
  LatencyBucket,
  LatencyDistribution,
  LatencyPercentiles,
  WorkerStatistics,
  BatchStatistics,
  ModelStatistics,
  StatisticDuration,
  StepStatistics,
  ResponseCacheStatistics,
} from './observe/model-statistics.ts'
export type { ModelState, ModelVersionStatus } from './engine/loaded.ts'
export type { Classification } from './engine/classification.ts'
export type { InputConfig, OutputConfig, TensorConfig } from './options/tensor-config.ts'
export type {
  DirectSequences,
  OldestSequences,
  SequenceConfig,
  SequenceControl,
  SequenceState,
} from './options/sequence-config.ts'
export type { SequenceId, SequenceInferOptions } from './options/infer-options.ts'
export { SequenceStream } from './engine/sequence-stream.ts'
export type { StreamInferOptions, StreamOptions } from './engine/sequence-stream.ts'
export type { InstanceGroup, InstanceKind } from './options/instance-groups.ts'
export type { AutoTuneOptions } from './options/instance-groups.ts'
export type { MemoryOptions, RunOptions, SessionOptions } from './options/session-options.ts'
export type {
  ModelConfig,
  ModelOptions,
  PaddingConfig,
  ProviderOptions,
  ResponseCacheOptions,
} from './options/model-config.ts'
export type { WarmupOptions, WarmupSample } from './options/warmup-options.ts'
export type { CostedRequest, OverCostAction, RequestCost } from './options/batching.ts'
export type { DynamicBatchingConfig, QueuePolicy } from './options/batching.ts'
export type { BatchReport, InferOptions, ReportedOutputs, StepReport } from './options/infer-options.ts'
export type {
  AnySignature,
  Feeds,
  FeedValue,
  ModelSignature,
  Outputs,
  StructuredFeed,
} from './options/model-signature.ts'
export type { ImageInput } from './options/image-options.ts'
export type { LeaseOptions } from './options/method-options.ts'
export type { Lease, LeasedInputs } from './features/leases/lease.ts'
export type { BatchMessage, RequestMessage } from './observe/request-observer.ts'
export type { BatchMoments } from './observe/request-observer.ts'
export type { LoadOptions } from './options/method-options.ts'
export type { ScaleOptions } from './options/method-options.ts'
export type { EngineInferOptions, UnloadOptions } from './options/method-options.ts'
export type {
  EngineEvents,
  ModelEvent,
  RepositoryEvent,
  SequenceEvent,
  TraceEvent,
  WorkerEvent,
} from './observe/engine-events.ts'
export type {
  ModelMetadata,
  ModelProperties,
  ModelProvider,
  OutputRows,
  RowJoining,
  TensorMetadata,
  ValueMetadata,
} from './tensor/metadata.ts'
export type { MapEntry, MapValue, OutputValue } from './tensor/values.ts'
export type { StructuredType } from './tensor/values.ts'
export type { RefusalReason, RejectionReason } from './observe/rejections.ts'
export type { WorkerOptions } from './options/engine-options.ts'
export type { ProviderCapability, ProviderDevice } from './run/engine-providers.ts'
export type { ComputePrecision, ProviderPlugin } from './options/engine-options.ts'
export type { Capabilities } from './run/devices.ts'
export type {
  RepositoryOptions,
  RepositoryProblem,
  RepositoryReport,
} from './features/triton-repository/repository-options.ts'
export { defineModelConfig } from './options/model-config.ts'
export type { RepositoryModelConfig, RepositoryOutputConfig } from './options/model-config.ts'
export type { StagingKind, StagingStats } from './native/staging-pool.ts'
export type { ExecutorChoice, InlineOptions, StagingOptions } from './options/engine-options.ts'
export type { BatchReason, TimeoutAction } from './options/batching.ts'
export { Tensor } from './tensor/tensor.ts'
export type { ElementType, RawTensor, RawType, TensorData, TensorType } from './tensor/tensor.ts'
