import { typed } from '../../options/plain-options.ts'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import { batchAxisOf, shownShape, type ValueMetadata } from '../../tensor/metadata.ts'
import { elementCount, isElementType, isPacked, type ElementType } from '../../tensor/tensor.ts'
import type { LeasedInput } from './held-rows.ts'

/** The inputs of a model for which rows can be leased. */
export class LeasableInputs {
  readonly model: string
  readonly #inputs: readonly ValueMetadata[]
  readonly #optional: readonly string[]
  readonly #maxRows: number
  readonly #byRows: LeasedInput[][] = [] // if all shapes are fixed

  /**
   * @param inputs the inputs, in the form that requests have.
   * @param maxBatchSize most rows; 0 for a model whose first dimension is no batch dimension: the whole input
   * is then leased as one row.
   * @throws InferenceError `ERR_INVALID_ARG` for an input that cannot be leased.
   */
  constructor(
    model: string,
    inputs: readonly ValueMetadata[],
    maxBatchSize: number,
    optional: readonly string[],
  ) {
    this.model = model
    this.#inputs = inputs
    this.#maxRows = maxBatchSize
    this.#optional = optional
    const other = inputs.find(({ type }) => !isElementType(type) || type === 'string' || isPacked(type))
    if (other === undefined) return
    const hint = 'Use infer() for this model'
    throw invalidArgument(`input '${other.name}'`, 'a type whose rows have bytes of their own', other.type, {
      model,
      hint,
    })
  }

  /**
   * @throws InferenceError `ERR_INVALID_ARG` for an unknown name; for `undefined` unless there is only one
   * input.
   */
  indexOf(name: unknown): number {
    if (name === undefined && this.#inputs.length === 1) return 0
    const index = this.#inputs.findIndex((input) => input.name === name)
    if (index !== -1) return index
    throw this.#wrong('input', `one of ${this.#inputs.map((input) => `'${input.name}'`).join(', ')}`, name)
  }

  /** Number of dims of an input's row. */
  rowRank(index: number): number {
    return this.#rowShape(this.#inputs[index]!).length
  }

  /** Whether the rows of an input vary in shape. */
  varies(index: number): boolean {
    return this.#rowShape(this.#inputs[index]!).some((dim) => typeof dim !== 'number')
  }

  /**
   * The inputs for so many rows, and whether they equal those of any other lease of so many rows.
   *
   * @param dims of the inputs with varying shape, without the batch dimension.
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  of(
    rows: unknown,
    dims: Readonly<Record<string, unknown>>,
  ): { readonly inputs: readonly LeasedInput[]; readonly fixed: boolean } {
    const most = Math.max(1, this.#maxRows)
    if (!Number.isInteger(rows) || (rows as number) < 1 || (rows as number) > most) {
      throw this.#wrong(
        'rows',
        this.#maxRows === 0
          ? '1, as the model is not batched'
          : `a whole number from 1 to ${most} (maxBatchSize)`,
        rows,
      )
    }
    for (const name in dims) this.indexOf(name)
    const count = rows as number
    const known = this.#byRows[count]
    if (known !== undefined && Object.keys(dims).length === 0) return { inputs: known, fixed: true }
    let fixed = true
    const inputs = this.#inputs.map((input) => {
      const shape = this.#rowShape(input)
      const varies =
        shape.some((dim) => typeof dim !== 'number') || (input.shape.length === 0 && input.name in dims)
      if (varies) fixed = false
      const row =
        varies || input.name in dims
          ? this.#given(input, shape, dims[input.name])
          : (shape as readonly number[])
      return {
        name: input.name,
        type: input.type as ElementType,
        dims: this.#maxRows > 0 ? withRows(row, batchAxisOf(input), count) : row,
        rowElements: elementCount(row),
        rowsFirst: batchAxisOf(input) === 0,
        optional: this.#optional.includes(input.name),
      }
    })
    if (fixed) this.#byRows[count] = inputs
    return { inputs, fixed }
  }

  #rowShape(input: ValueMetadata): ValueMetadata['shape'] {
    return this.#maxRows > 0 ? input.shape.filter((_, axis) => axis !== batchAxisOf(input)) : input.shape
  }

  #given(
    { name, shape: shown }: ValueMetadata,
    shape: ValueMetadata['shape'],
    given: unknown,
  ): readonly number[] {
    const own = dimsOf(name, given)
    const fits = Array.isArray(given) && (own.length === shape.length || shown.length === 0)
    if (
      fits &&
      own.every(
        (dim, axis) =>
          Number.isSafeInteger(dim) &&
          (dim as number) >= 0 &&
          !(typeof shape[axis] === 'number' && shape[axis] !== dim),
      )
    )
      return own as number[]
    throw this.#wrong(
      `options.dims['${name}']`,
      `the dims of a row, since the shape of the input is ${shownShape(shown)}`,
      given,
    )
  }

  #wrong(name: string, expected: string, received: unknown): InferenceError {
    return invalidArgument(name, expected, received, { model: this.model })
  }
}

/** A copy, if it is an array. */
function dimsOf(name: string, given: unknown): unknown[] {
  try {
    return Array.isArray(given) ? [...(given as unknown[])] : []
  } catch (error) {
    throw typed(`options.dims['${name}']`, error)
  }
}

/** @param axis the dimension that counts rows; -1 for a shared input. */
function withRows(row: readonly number[], axis: number, rows: number): readonly number[] {
  return axis === -1 ? row : row.toSpliced(axis, 0, rows)
}
