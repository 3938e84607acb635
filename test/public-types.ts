// The types that each entry of the package exports: a lost one does not compile (npm run typecheck).
export type {
  BatchInput,
  FunctionBatch,
  FunctionConfig,
  FunctionContext,
  FunctionDeclaration,
  FunctionFeed,
  FunctionHere,
  FunctionInput,
  FunctionInstance,
  FunctionInstanceGroup,
  FunctionOfGraph,
  FunctionOfModule,
  FunctionOptions,
  FunctionOutput,
  FunctionOutputs,
  FunctionResult,
  FunctionSignature,
  FunctionWorkerOptions,
  LabelledTopKOptions,
  ModelFunction,
  NonMaxSuppressionOptions,
  TopKOptions,
  classification,
  defineFunction,
  nonMaxSuppression,
  softmax,
  topK,
} from 'zerohop/function'
export type {
  ArrayTarget,
  ImageChannels,
  ImageCrop,
  ImageDataType,
  ImageFit,
  ImageFormat,
  ImageKernel,
  ImageLayout,
  ImageLimits,
  ImageOptions,
  ImageSource,
  ImageTarget,
  LeaseTarget,
  PixelArray,
  decodeImage,
  imageConcurrency,
  imageDims,
} from 'zerohop/image'
export type {
  ConnectOptions,
  EngineServer,
  RemoteEngine,
  RemoteModel,
  RemoteModelStatus,
  ServeOptions,
  ServerInfo,
  ServerStatistics,
  SpawnOptions,
  connect,
  serve,
} from 'zerohop/processes'
export type { KserveHandler, KserveOptions, kserve } from 'zerohop/kserve'
export type { MeasuredEngine, PrometheusOptions, prometheusMetrics } from 'zerohop/prometheus'
export type { Inspector, InspectorOptions, inspector } from 'zerohop/inspector'
export type { InstrumentOptions, Instrumentation, instrument } from 'zerohop/opentelemetry'
export type { InferenceSession, OnnxValue, Ort, Tensor, TypedTensor, createOrt, env } from 'zerohop/ort'
export type { AccelerateOptions, AcceleratedModelOptions, accelerate } from 'zerohop/transformers'
