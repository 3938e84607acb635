export { InferenceEngine } from './engine.ts'
export type { CloseOptions, EngineStatistics } from './engine.ts'
export type { EngineOptions } from './engine-options.ts'
export { InferenceError } from './errors.ts'
export type { InferenceErrorCode, InferenceErrorDetails } from './errors.ts'
export { Model } from './model/model.ts'
export type { ModelState } from './model/model.ts'
export type {
  AnySignature,
  DynamicBatchingConfig,
  Feeds,
  FeedValue,
  InferOptions,
  InstanceGroup,
  InstanceKind,
  ModelConfig,
  ModelSignature,
  Outputs,
  QueuePolicy,
  WarmupSample,
} from './model/config.ts'
export type { ModelMetadata, TensorMetadata } from './model/metadata.ts'
export type { BatchStatistics, ModelStatistics, StatisticDuration } from './observability/model-stats.ts'
export type { WorkerOptions } from './pool/device-pool.ts'
export type { Capabilities } from './pool/devices.ts'
export type { RepositoryOptions } from './repository/load-repository.ts'
export type { StagingKind, StagingOptions, StagingStats } from './staging/staging-pool.ts'
export { Tensor } from './tensor.ts'
export type { TensorData, TensorType } from './tensor.ts'
