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

/** Names of the outputs of a model. */
export type OutputName<M extends ModelSignature> = keyof M['outputs'] & string

/**
 * What a request answers with that names the outputs it wants: those; all of them where it names none (`never`), or where
 * the names of the model's outputs are known only at run time.
 */
export type WantedOutputs<M extends ModelSignature, Name extends OutputName<M>> =
  [Name] extends [never] ? M['outputs'] : string extends keyof M['outputs'] ? M['outputs'] : Pick<M['outputs'], Name>
