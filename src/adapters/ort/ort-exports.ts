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
  /** Values by their names, or null for one that the run creates. */
  type NullableOnnxValueMapType = CommonSession.NullableOnnxValueMapType
  /** Inputs of a run. */
  type FeedsType = CommonSession.FeedsType
  /** Outputs that a run asks for. */
  type FetchesType = CommonSession.FetchesType
  /** Outputs of a run. */
  type ReturnType = CommonSession.ReturnType
  /** Options of `create`. */
  type SessionOptions = CommonSession.SessionOptions
  /** Options of `run`. */
  type RunOptions = CommonSession.RunOptions
  /** An execution provider, by name or with its options. */
  type ExecutionProviderConfig = CommonSession.ExecutionProviderConfig
  /** The name of an execution provider. */
  type ExecutionProviderName = CommonSession.ExecutionProviderName
  /** The options of an execution provider. */
  type ExecutionProviderOption = CommonSession.ExecutionProviderOption
  /** Metadata of an input or output. */
  type ValueMetadata = CommonSession.ValueMetadata
  /** Metadata of a tensor. */
  type TensorValueMetadata = CommonSession.TensorValueMetadata
  /** Metadata of a sequence, map or optional. */
  type NonTensorValueMetadata = CommonSession.NonTensorValueMetadata
}
