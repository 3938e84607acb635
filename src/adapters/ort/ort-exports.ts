import type { InferenceSession as CommonSession, InferenceSessionFactory } from 'onnxruntime-common'
import { defaultEngine, type Ort, ortOf } from './create-ort.ts'

export { env, Tensor } from 'onnxruntime-common'
export type { OnnxValue, TypedTensor } from 'onnxruntime-common'
export { createOrt } from './create-ort.ts'
export type { Ort } from './create-ort.ts'

/** The API of onnxruntime-node, served by the default engine. */
const ort: Ort = ortOf(defaultEngine)

export default ort

/** Opens sessions that are served by the default engine: `create(path | bytes, options?)`. */
export const InferenceSession: InferenceSessionFactory = ort.InferenceSession

/** A session: `run(feeds, fetches?, options?)`, `inputNames`, `outputNames`, `inputMetadata`, `outputMetadata`, `release()`. */
export type InferenceSession = CommonSession

/** The types of onnxruntime-common. */
export declare namespace InferenceSession {
  /** Values by their names. */
  type OnnxValueMapType = CommonSession.OnnxValueMapType
  /** Values by their names, or null where one is to be made. */
  type NullableOnnxValueMapType = CommonSession.NullableOnnxValueMapType
  /** Inputs of a run. */
  type FeedsType = CommonSession.FeedsType
  /** Outputs that a run is asked for. */
  type FetchesType = CommonSession.FetchesType
  /** Outputs of a run. */
  type ReturnType = CommonSession.ReturnType
  /** What `create` takes. */
  type SessionOptions = CommonSession.SessionOptions
  /** What `run` takes. */
  type RunOptions = CommonSession.RunOptions
  /** An execution provider, by name or with its options. */
  type ExecutionProviderConfig = CommonSession.ExecutionProviderConfig
  /** The name of one. */
  type ExecutionProviderName = CommonSession.ExecutionProviderName
  /** The options of one. */
  type ExecutionProviderOption = CommonSession.ExecutionProviderOption
  /** What is known of an input or output. */
  type ValueMetadata = CommonSession.ValueMetadata
  /** Of a tensor. */
  type TensorValueMetadata = CommonSession.TensorValueMetadata
  /** Of a sequence, map or optional. */
  type NonTensorValueMetadata = CommonSession.NonTensorValueMetadata
}
