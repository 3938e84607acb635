import type { Tensor } from 'onnxruntime-common'
import type { TensorData } from '../tensor.ts'

/** One input as a caller gives it: a tensor, or the bare data of exactly one row (or of the whole unbatched input). */
export type FeedValue = Tensor | TensorData | readonly string[]

/** Inputs by name, as for `InferenceSession.run`; dims include the batch dimension. */
export type Feeds = Readonly<Record<string, FeedValue>>

/** Outputs by name; each tensor holds the request's own rows and belongs to the caller. */
export type Outputs = Record<string, Tensor>

/** Names and types of a model's inputs and outputs, for `engine.load<M>()`. */
export interface ModelSignature {
  inputs: Record<string, FeedValue>
  outputs: Record<string, Tensor>
}

/** The signature of a model whose inputs and outputs are known only at run time. */
export interface AnySignature extends ModelSignature {
  inputs: Record<string, FeedValue>
  outputs: Record<string, Tensor>
}
