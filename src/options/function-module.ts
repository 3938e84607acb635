import type { Tensor, TypedTensor } from 'onnxruntime-common'
import type { TensorType } from '../tensor/tensor.ts'
import type { ModelSignature, OptionalName, RequiredName } from './model-signature.ts'

/** An input of a function. */
export interface FunctionInput {
  /** Its name in requests and answers. */
  name: string
  /** The type of its elements. */
  type: TensorType
  /**
   * Dims of one row, or of the whole input where `maxBatchSize` is 0. Default `[]`: one element.
   *
   * - A number: fixed.
   * - -1: each row has its own length. Rows of any length share a batch, and the function receives them one by one.
   * - A name: any length, but the same for all rows of a batch and for all inputs and outputs with that name; only
   *   requests of equal length share a batch.
   */
  dims?: readonly (number | string)[]
  /** Whether a request may leave it out. Only requests with the same inputs share a batch. Default `false`. */
  optional?: boolean
}

/** An output of a function. */
export interface FunctionOutput {
  /** Its name in requests and answers. */
  name: string
  /** The type of its elements. */
  type: TensorType
  /** As {@link FunctionInput.dims}. -1: each row, and so each answer, has its own length. Default `[]`: one element. */
  dims?: readonly (number | string)[]
  /** Class names by index, for an output of class scores; used by `model.classification()`. Default: none. */
  labels?: readonly string[]
}

/** The declaration of a function: see {@link FunctionConfig}. */
export interface FunctionDeclaration<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
> {
  /** In any order; at least one. */
  readonly inputs: I
  /** In any order; at least one. */
  readonly outputs: O
}

/** The elements of a tensor: a typed array, or an array of strings. */
export type ElementsOf<T extends TensorType> = T extends TensorType ? Tensor.DataTypeMap[T] : never

/** The value of an input in a request: a tensor, or the elements of one row. */
export type FunctionFeed<T extends TensorType> = T extends TensorType
  ? TypedTensor<T> | (T extends 'string' ? string | readonly string[] : Tensor.DataTypeMap[T])
  : never

/** The signature that a function's declaration implies. */
export interface FunctionSignature<
  I extends readonly FunctionInput[],
  O extends readonly FunctionOutput[],
> extends ModelSignature {
  inputs: { [Entry in I[number] as RequiredName<Entry>]: FunctionFeed<Entry['type']> } & {
    [Entry in I[number] as OptionalName<Entry>]?: FunctionFeed<Entry['type']> | never
  }
  outputs: { [Entry in O[number] as Entry['name']]: TypedTensor<Entry['type']> }
}

/**
 * An input of a batch: the rows of all its requests. The next batch reuses the memory, so copy (`slice()`) what you
 * keep after the function has answered.
 */
export interface BatchInput<T extends TensorType = TensorType> extends Iterable<ElementsOf<T>> {
  /** The type of its elements. */
  readonly type: T
  /** The number of rows; 1 where `maxBatchSize` is 0. */
  readonly rows: number
  /** All rows, one after the other. */
  readonly data: ElementsOf<T>
  /** Dims of `data`, rows first; `[data.length]` where each row has its own length. */
  readonly dims: readonly number[]
  /** The elements of one row. */
  row(index: number): ElementsOf<T>
  /** Dims of one row. */
  rowDims(index: number): readonly number[]
}

/** The inputs of a batch by name, without optional ones that its requests left out. */
export type FunctionBatch<D extends FunctionDeclaration = FunctionDeclaration> = {
  readonly [Entry in D['inputs'][number] as Entry['name']]:
    | BatchInput<Entry['type']>
    | (Entry extends { readonly optional: true } ? undefined : never)
}

/** One element of a tensor. */
type ElementOf<T extends TensorType> = T extends 'string'
  ? string
  : T extends 'bool'
    ? boolean | number
    : T extends 'int64' | 'uint64'
      ? bigint | number
      : number

/** The elements of a row, with dims where more than one is variable. */
type RowOf<T extends TensorType> =
  | ElementsOf<T>
  | readonly ElementOf<T>[]
  | { readonly dims: readonly number[]; readonly data: ElementsOf<T> }

/**
 * The value of an output: all rows one after the other, as elements or as `{ dims, data }` with the rows first; or an
 * array with one entry per row: its elements, or its only element. The value is copied.
 */
export type FunctionResult<T extends TensorType = TensorType> = T extends TensorType
  ? | ElementsOf<T>
    | { readonly dims: readonly number[]; readonly data: ElementsOf<T> }
    | readonly (ElementOf<T> | RowOf<T> | null | undefined)[]
  : never

/** The outputs of a batch by name. */
export type FunctionOutputs<D extends FunctionDeclaration = FunctionDeclaration> = {
  readonly [Entry in D['outputs'][number] as Entry['name']]: FunctionResult<Entry['type']>
}

/** What an instance of a function receives about itself. */
export interface FunctionInstance {
  /** The name the function was loaded under. */
  readonly model: string
  /** A copy of the `parameters` from the configuration. */
  readonly parameters: Readonly<Record<string, unknown>>
}

/** The second argument of a function, after its batch. */
export interface FunctionContext<State = unknown> extends FunctionInstance {
  /** Number of rows in the batch; 1 where `maxBatchSize` is 0. */
  readonly rows: number
  /** The result of `setup`, awaited; private to this instance. */
  readonly state: State
  /** Fires when no caller waits for an answer of the batch any more. */
  readonly signal: AbortSignal
  /**
   * Rejects the request of a row with `ERR_EXECUTION` and this message; the other requests of the batch are answered.
   * The outputs of that row are dropped, and may be `null` where an output has one entry per row.
   *
   * @returns `null`, to put in place of the row.
   */
  readonly fail: (row: number, error: unknown) => null
}

/** The default export of a function's module. */
export type ModelFunction<D extends FunctionDeclaration = FunctionDeclaration, State = unknown> = (
  batch: FunctionBatch<D>,
  context: FunctionContext<State>,
) => FunctionOutputs<D> | Promise<FunctionOutputs<D>>

/**
 * Types the default export of a function's module: returns the function unchanged, with parameter and result types from
 * the declaration.
 *
 * @param declaration the `inputs` and `outputs` that the function is loaded with.
 */
export function defineFunction<
  const I extends readonly FunctionInput[],
  const O extends readonly FunctionOutput[],
  State = unknown,
>(
  declaration: FunctionDeclaration<I, O>,
  run: ModelFunction<FunctionDeclaration<I, O>, State>,
): ModelFunction<FunctionDeclaration<I, O>, State> {
  void declaration // only its type is used
  return run
}
