export { InferenceEngine } from './engine.ts'
export type { CloseOptions, EngineStatistics } from './engine.ts'
export type { EngineOptions } from './engine-options.ts'
export { InferenceError } from './errors.ts'
export type { InferenceErrorCode, InferenceErrorDetails } from './errors.ts'
export { Model } from './model/model.ts'
export type { InferManyOptions, InferManyResult } from './model/infer-many.ts'
export type { ModelCapacity, ModelState } from './model/model.ts'
export type {
  AnySignature,
  BatchReport,
  DynamicBatchingConfig,
  Feeds,
  FeedValue,
  InferOptions,
  InstanceGroup,
  InstanceKind,
  ModelConfig,
  ModelSignature,
  Outputs,
  PaddingConfig,
  QueuePolicy,
  WarmupSample,
} from './model/config.ts'
export type { ModelMetadata, TensorMetadata } from './model/metadata.ts'
export type { BatchStatistics, ModelStatistics, StatisticDuration, RejectionReason } from './observability/model-stats.ts'
export type { WorkerOptions } from './pool/device-pool.ts'
export type { Capabilities } from './pool/devices.ts'
export type { RepositoryOptions } from './repository/load-repository.ts'
export type { StagingKind, StagingOptions, StagingStats } from './staging/staging-pool.ts'
export type { BatchReason, TimeoutAction } from './scheduling.ts'
export { Tensor } from './tensor.ts'
export type { TensorData, TensorType } from './tensor.ts'
