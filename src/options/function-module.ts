import type { TensorType } from '../tensor/tensor.ts'
import type { ElementsOf, FunctionDeclaration, FunctionInput, FunctionOutput } from './function-tensor.ts'

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
