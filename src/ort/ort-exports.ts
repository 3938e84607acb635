import type { InferenceSession as CommonSession, InferenceSessionFactory } from 'onnxruntime-common'
import { ortOf, type Ort } from './create-ort.ts'
import { defaultEngine } from './default-engine.ts'

export { env, Tensor } from 'onnxruntime-common'
export type { OnnxValue, TypedTensor } from 'onnxruntime-common'
export { createOrt } from './create-ort.ts'
export type { Ort } from './create-ort.ts'

const ort: Ort = ortOf(defaultEngine)

export default ort

/** Opens sessions that are served by the default engine: `create(path | bytes, options?)`. */
export const InferenceSession: InferenceSessionFactory = ort.InferenceSession

/** A session: `run(feeds, fetches?, options?)`, `inputNames`, `outputNames`, `inputMetadata`, `outputMetadata`, `release()`. */
export type InferenceSession = CommonSession

/** The types of onnxruntime-common. */
export declare namespace InferenceSession {
  type OnnxValueMapType = CommonSession.OnnxValueMapType
  type NullableOnnxValueMapType = CommonSession.NullableOnnxValueMapType
  type FeedsType = CommonSession.FeedsType
  type FetchesType = CommonSession.FetchesType
  type ReturnType = CommonSession.ReturnType
  type SessionOptions = CommonSession.SessionOptions
  type RunOptions = CommonSession.RunOptions
  type ExecutionProviderConfig = CommonSession.ExecutionProviderConfig
  type ExecutionProviderName = CommonSession.ExecutionProviderName
  type ExecutionProviderOption = CommonSession.ExecutionProviderOption
  type ValueMetadata = CommonSession.ValueMetadata
  type TensorValueMetadata = CommonSession.TensorValueMetadata
  type NonTensorValueMetadata = CommonSession.NonTensorValueMetadata
}
