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

/**
 * An input of a batch: the rows of all its requests. It is in memory that the next batch is written to, so leave nothing of it
 * to be read when the function has answered: what is kept is copied (`slice()`).
 */
export interface BatchInput<T extends TensorType = TensorType> extends Iterable<ElementsOf<T>> {
  /** The type of its elements. */
  readonly type: T
  /** The number of rows; 1 where `maxBatchSize` is 0. */
  readonly rows: number
  /** All rows, one behind the other. */
  readonly data: ElementsOf<T>
  /** Dims of `data`, the rows first; `[data.length]` where each row has its own. */
  readonly dims: readonly number[]
  /** The elements of one row. */
  row(index: number): ElementsOf<T>
  /** Dims of one row. */
  rowDims(index: number): readonly number[]
}

/** The inputs of a batch by name; an optional one that its requests have left out is not there. */
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

/** The elements of a row, with dims where more than one of them is variable. */
type RowOf<T extends TensorType> =
  | ElementsOf<T>
  | readonly ElementOf<T>[]
  | { readonly dims: readonly number[]; readonly data: ElementsOf<T> }

/**
 * What a function gives for an output: all rows one behind the other, as elements or as `{ dims, data }` with the rows first; or
 * an array with one entry for each row: its elements, or the one that it has. What is given is copied.
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

/** What an instance of a function knows of itself. */
export interface FunctionInstance {
  /** The name that the function was loaded under. */
  readonly model: string
  /** What the configuration has for it, a copy. */
  readonly parameters: Readonly<Record<string, unknown>>
}

/** What a function is called with beside its batch. */
export interface FunctionContext<State = unknown> extends FunctionInstance {
  /** How many rows the batch has; 1 where `maxBatchSize` is 0. */
  readonly rows: number
  /** What `setup` has returned, or resolved with; of this instance alone. */
  readonly state: State
  /** Fires when nobody wants the answers of the batch any more. */
  readonly signal: AbortSignal
  /**
   * Has the request of a row be rejected with `ERR_EXECUTION` and that message; others of the batch are answered. Whatever the
   * outputs have for that row is dropped, and may be `null` where they have one entry for each row.
   *
   * @returns `null`, for that place.
   */
  readonly fail: (row: number, error: unknown) => null
}

/** The default export of a function's module. */
export type ModelFunction<D extends FunctionDeclaration = FunctionDeclaration, State = unknown> = (
  batch: FunctionBatch<D>,
  context: FunctionContext<State>,
) => FunctionOutputs<D> | Promise<FunctionOutputs<D>>

/**
 * For the default export of a function's module: gives the function as it is, with the types of what it is called with and has to
 * return from what is declared.
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
  void declaration // its type is all that is asked of it
  return run
}
