import type { BatchInput } from '../../../options/function-module.ts'
import type { ElementsOf } from '../../../options/function-tensor.ts'
import type { TensorType } from '../../../tensor/tensor.ts'

/** Where the rows of an input begin that have dims of their own. */
export interface RaggedRows {
  readonly starts: readonly number[]
  readonly dims: readonly (readonly number[])[]
}

/** One input of a batch, as a function sees it. */
export class InputRows<T extends TensorType = TensorType> implements BatchInput<T> {
  readonly type: T
  readonly rows: number
  readonly data: ElementsOf<T>
  readonly dims: readonly number[]
  readonly #rowDims: readonly number[]
  readonly #ragged: RaggedRows | null

  /**
   * @param batched whether the first of `dims` counts rows; else there is one.
   * @param ragged of rows that have dims of their own; `null` where all are alike.
   */
  constructor(
    type: T,
    data: ElementsOf<T>,
    dims: readonly number[],
    batched: boolean,
    ragged: RaggedRows | null = null,
  ) {
    this.type = type
    this.data = data
    this.dims = dims
    this.rows = ragged?.dims.length ?? (batched ? dims[0]! : 1)
    this.#rowDims = batched ? dims.slice(1) : dims
    this.#ragged = ragged
  }

  row(index: number): ElementsOf<T> {
    this.#check(index)
    const starts = this.#ragged?.starts
    const perRow = this.data.length / this.rows
    const [start, end] =
      starts === undefined ? [index * perRow, (index + 1) * perRow] : [starts[index]!, starts[index + 1]!]
    const data = this.data as Uint8Array | string[]
    return (Array.isArray(data) ? data.slice(start, end) : data.subarray(start, end)) as ElementsOf<T>
  }

  rowDims(index: number): readonly number[] {
    this.#check(index)
    return this.#ragged?.dims[index] ?? this.#rowDims
  }

  *[Symbol.iterator](): Iterator<ElementsOf<T>> {
    for (let index = 0; index < this.rows; index++) yield this.row(index)
  }

  #check(index: number): void {
    if (!(Number.isInteger(index) && index >= 0 && index < this.rows))
      throw new RangeError(`row ${index} is asked for of a batch that has ${this.rows}`)
  }
}
