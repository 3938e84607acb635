import type { Tensor } from 'onnxruntime-common'
import type { RawTensor, TensorData } from '../tensor/tensor.ts'
import type { MapEntry, OutputValue } from '../tensor/values.ts'

/** One input as a caller gives it: a tensor, or the bare data of exactly one row (or of the whole unbatched input): strings in an array, or one by itself. */
export type FeedValue = Tensor | RawTensor | TensorData | string | readonly string[] | StructuredFeed

/**
 * An input that is no tensor: a sequence as an array, a map as an object (or a `Map` where keys are integers), an optional
 * one that is not given as `null`.
 */
export type StructuredFeed =
  | readonly FeedValue[]
  | ReadonlyMap<bigint | number, MapEntry>
  | { readonly [key: string]: MapEntry }
  | null

/** Inputs by name, as for `InferenceSession.run`; dims include the batch dimension. */
export type Feeds = Readonly<Record<string, FeedValue>>

/** Outputs by name; each holds the request's own rows and belongs to the caller. */
export type AnyOutputs = Record<string, OutputValue>

/** The same of a model without a signature: see {@link AnySignature}. */
export type Outputs = Record<string, Tensor>

/** Names and types of a model's inputs and outputs, for `engine.load<M>()`. */
export interface ModelSignature {
  /** What requests give, by name. */
  inputs: Record<string, FeedValue>
  /** What they are answered with, by name. */
  outputs: AnyOutputs
}

/**
 * The signature of a model whose inputs and outputs are known only at run time. TypeScript takes each output for a
 * `Tensor`, as nearly all are; for another kind give the model a signature of its own (`zerohop types` writes it).
 */
export interface AnySignature extends ModelSignature {
  /** What requests give, by name. */
  inputs: Record<string, FeedValue>
  /** What they are answered with, by name. */
  outputs: Outputs
}

/** Names of the outputs of a model. */
export type OutputName<M extends ModelSignature> = keyof M['outputs'] & string

/**
 * What a request answers with that names the outputs it wants: those; all of them where it names none (`never`). Not to ask
 * of `M` more than this: it would keep a `Model<M>` from being a `Model`.
 */
export type WantedOutputs<M extends ModelSignature, Name extends OutputName<M>> = [Name] extends [never]
  ? M['outputs']
  : Pick<M['outputs'], Name>
