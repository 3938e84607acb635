import type { SlotLayout, TensorPlace } from '../executor.ts'
import {
  elementCount,
  storageOf,
  type MailedTensor,
  type TensorData,
  type TensorType,
} from '../../../tensor/tensor.ts'
import { mailedElements } from '../../../tensor/elements.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import type { TensorMetadata } from '../../../tensor/metadata.ts'
import type { BatchInput, ElementsOf } from '../../../options/function-module.ts'

/** What a function has of its inputs. */
interface InputShapes {
  readonly inputs: readonly TensorMetadata[]
  readonly batched: boolean
}

/** The inputs of a batch that lies in a slot; `undefined` for those that its requests have left out. */
export function slotInputs(
  { inputs, batched }: InputShapes,
  { inputs: places }: SlotLayout,
  bytes: ArrayBufferLike,
  mailed: readonly (MailedValue | null)[] | null,
): (InputRows | undefined)[] {
  return inputs.map(({ type, shape }, index) => {
    const place = places[index]
    if (place === undefined) return undefined
    if (place === null) return mailedRows(mailed![index]!, batched)
    const data = viewOf(type, bytes, place)
    if (place.rowDims === undefined) return rowsOf(type, data, place.dims, batched)
    return raggedRows(
      type,
      data,
      new Int32Array(bytes, place.rowDims.offset, place.rowDims.rows * (shape.length - 1)),
      place.rowDims.rows,
    )
  })
}

/** The inputs of a sample. */
export function mailedInputs(
  { inputs, batched }: InputShapes,
  feeds: readonly (MailedValue | null)[],
): (InputRows | undefined)[] {
  return inputs.map((_, index) => (feeds[index] ? mailedRows(feeds[index], batched) : undefined))
}

/** A tensor's place in a slot as an array. */
export function viewOf(
  type: TensorMetadata['type'],
  bytes: ArrayBufferLike,
  { offset, dims }: TensorPlace,
): TensorData {
  return new (storageOf(type))(bytes, offset, elementCount(dims))
}

function rowsOf(
  type: TensorMetadata['type'],
  data: TensorData | string[],
  dims: readonly number[],
  batched: boolean,
): InputRows {
  return new InputRows(type as TensorType, data as never, dims, batched)
}

function mailedRows(value: MailedValue, batched: boolean): InputRows {
  if (!('ragged' in value)) {
    const { type, dims } = value as MailedTensor
    return rowsOf(type, mailedElements(value as MailedTensor), dims, batched)
  }
  const data = value.ragged.flatMap((row) => row.data as string[])
  const starts = startsOf(value.ragged.map(({ dims }) => dims))
  return new InputRows('string', data, [data.length], true, {
    starts,
    dims: value.ragged.map(({ dims }) => dims),
  })
}

/** Rows one behind the other in more room than they need, with the dims of each. */
function raggedRows(
  type: TensorMetadata['type'],
  room: TensorData,
  all: Int32Array,
  rows: number,
): InputRows {
  const rank = all.length / rows
  const dims = Array.from({ length: rows }, (_, row) => [...all.subarray(row * rank, (row + 1) * rank)])
  const starts = startsOf(dims)
  const data = (room as Uint8Array).subarray(0, starts.at(-1))
  return new InputRows(type as TensorType, data as never, [data.length], true, { starts, dims })
}

/** Where each row begins, and where the last one ends. */
function startsOf(dims: readonly (readonly number[])[]): number[] {
  const starts = [0]
  for (const own of dims) starts.push(starts.at(-1)! + elementCount(own))
  return starts
}

/** Where the rows of an input begin that have dims of their own. */
interface RaggedRows {
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
