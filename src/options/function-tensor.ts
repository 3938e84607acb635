import type { Tensor, TypedTensor } from 'onnxruntime-common'
import type { TensorType } from '../tensor/tensor.ts'
import type { ModelSignature } from './model-signature.ts'

/** An input of a function. */
export interface FunctionInput {
  /** As requests and answers have it. */
  name: string
  /** The type of its elements. */
  type: TensorType
  /**
   * Dims of one row; of the whole input where `maxBatchSize` is 0. A number is fixed. -1: each row has its own, and rows of any
   * lengths share a batch, for which the function gets them one by one. A name: any length, the same for all rows of a batch, as
   * only requests of the same length share one, and for all inputs and outputs that have the name. Default `[]`: one element.
   */
  dims?: readonly (number | string)[]
  /** Whether a request may leave it out; only requests with the same inputs share a batch. Default `false`. */
  optional?: boolean
}

/** An output of a function. */
export interface FunctionOutput {
  /** As requests and answers have it. */
  name: string
  /** The type of its elements. */
  type: TensorType
  /** As {@link FunctionInput.dims}; -1: each row has its own length, and so has each answer. */
  dims?: readonly (number | string)[]
  /** Names of the classes whose scores it has, by index; for `model.classification()`. Default: none. */
  labels?: readonly string[]
}

/** What is declared of a function: see {@link FunctionConfig}. */
export interface FunctionDeclaration<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
> {
  /** In any order; one at least. */
  readonly inputs: I
  /** In any order; one at least. */
  readonly outputs: O
}

/** The elements of a tensor: a typed array, strings in an array. */
export type ElementsOf<T extends TensorType> = T extends TensorType ? Tensor.DataTypeMap[T] : never

/** What a request gives for an input: a tensor, or the elements of one row. */
export type FunctionFeed<T extends TensorType> = T extends TensorType
  ? TypedTensor<T> | (T extends 'string' ? string | readonly string[] : Tensor.DataTypeMap[T])
  : never

type Required<Entry> = Entry extends { readonly optional: true }
  ? never
  : Entry extends { readonly name: infer Name extends string }
    ? Name
    : never
type Optional<Entry> = Entry extends { readonly optional: true; readonly name: infer Name extends string }
  ? Name
  : never

/** The signature of a function, as its declaration has it. */
export interface FunctionSignature<
  I extends readonly FunctionInput[],
  O extends readonly FunctionOutput[],
> extends ModelSignature {
  inputs: { [Entry in I[number] as Required<Entry>]: FunctionFeed<Entry['type']> } & {
    [Entry in I[number] as Optional<Entry>]?: FunctionFeed<Entry['type']> | never
  }
  outputs: { [Entry in O[number] as Entry['name']]: TypedTensor<Entry['type']> }
}
