import { describe } from '../../../errors.ts'
import { shownShape, type TensorMetadata } from '../../../tensor/metadata.ts'
import { elementCount, storageOf, toStorage, type TensorData } from '../../../tensor/tensor.ts'
import { lengthOf, plainView } from '../../../tensor/typed-array.ts'

/** Elements with their dims. */
export interface Piece {
  readonly data: TensorData | readonly string[]
  readonly dims: readonly number[]
}

/** What a function gave for an output: all rows one behind the other, or a piece for each. */
export type GivenRows = { readonly whole: Piece } | { readonly each: readonly Piece[] }

/** How many rows a batch has, and which of them have failed and need no output. */
export interface BatchRows {
  readonly rows: number
  readonly batched: boolean
  failed(row: number): boolean
}

/**
 * Checks what a function gave for an output.
 *
 * @throws Error that says what was expected and what was received.
 */
export function givenRows(output: TensorMetadata, given: unknown, batch: BatchRows): GivenRows {
  const { name, shape, type } = output
  const what = `output '${name}'`
  if (given === undefined || given === null)
    throw new Error(`${what}: expected to be given, received ${describe(given)}`)
  const dimsOfAll = batch.batched ? [batch.rows, ...shape.slice(1)] : shape
  if (!Array.isArray(given) || !batch.batched) return { whole: piece(what, type, dimsOfAll, given) }
  const rowShape = shape.slice(1)
  const isFlat = type === 'string' && rowShape.length > 0 && given.every((item) => typeof item === 'string')
  if (isFlat) return { whole: piece(what, type, dimsOfAll, given) }
  if (given.length !== batch.rows)
    throw new Error(`${what}: expected an entry for each of ${batch.rows} rows, received ${given.length}`)
  const isMissing = (row: number) => (given[row] === null || given[row] === undefined) && batch.failed(row)
  if (rowShape.length === 0) {
    const scalars = given.map((item: unknown, row) => (isMissing(row) ? emptyElement(type) : item))
    return { whole: { data: elements(what, type, scalars), dims: [batch.rows] } }
  }
  return {
    each: given.map((item: unknown, row) =>
      isMissing(row) ? emptyRow(type, rowShape) : piece(`${what}[${row}]`, type, rowShape, item),
    ),
  }
}

/** A tensor, or elements, that have to be of a shape. */
function piece(
  what: string,
  type: TensorMetadata['type'],
  shape: TensorMetadata['shape'],
  given: unknown,
): Piece {
  const isTensor =
    typeof given === 'object' && given !== null && !ArrayBuffer.isView(given) && !Array.isArray(given)
  if (isTensor && !('dims' in given && 'data' in given))
    throw new Error(
      `${what}: expected elements of type ${type}, or { dims, data }, received ${describe(given)}`,
    )
  const data = elements(what, type, isTensor ? (given as Piece).data : given)
  const count = ArrayBuffer.isView(data) ? lengthOf(data) : data.length
  const dims = isTensor ? checkedDims(what, shape, (given as Piece).dims) : inferredDims(what, shape, count)
  if (elementCount(dims) !== count)
    throw new Error(
      `${what}: expected ${elementCount(dims)} elements for dims [${dims.join(', ')}], received ${count}`,
    )
  return { data, dims }
}

function checkedDims(what: string, shape: TensorMetadata['shape'], given: unknown): readonly number[] {
  const fits =
    Array.isArray(given) &&
    given.length === shape.length &&
    shape.every((dim, axis) =>
      typeof dim === 'number' ? dim === given[axis] : Number.isSafeInteger(given[axis]) && given[axis] >= 0,
    )
  if (!fits) throw new Error(`${what}: expected dims ${shownShape(shape)}, received ${describe(given)}`)
  return [...(given as number[])]
}

/** The dims of elements without any: one may be open. */
function inferredDims(what: string, shape: TensorMetadata['shape'], count: number): readonly number[] {
  const open = shape.filter((dim) => typeof dim === 'string').length
  if (open > 1)
    throw new Error(
      `${what}: expected { dims, data }, since its dims are ${shownShape(shape)}, received data without dims`,
    )
  const known = elementCount(shape.map((dim) => (typeof dim === 'number' ? dim : 1)))
  const length = known === 0 ? 0 : count / known
  if (open === 0 ? count !== known : !Number.isInteger(length)) {
    throw new Error(
      `${what}: expected ${open === 0 ? `${known} elements` : `a multiple of ${known} elements`} for dims ${shownShape(shape)}, received ${count}`,
    )
  }
  return shape.map((dim) => (typeof dim === 'number' ? dim : length))
}

/** Elements as they are stored. */
function elements(what: string, type: TensorMetadata['type'], given: unknown): Piece['data'] {
  if (type === 'string') {
    const items: unknown[] = Array.isArray(given) ? [...(given as unknown[])] : [given] // the function may keep what it has given
    const strange = items.find((item) => typeof item !== 'string')
    if (strange !== undefined || items.includes(undefined))
      throw new Error(`${what}: expected strings, received ${describe(strange)}`)
    return items as string[]
  }
  if (Array.isArray(given)) return fromNumbers(what, type, given)
  const stored = toStorage(type, given)
  if (stored === null)
    throw new Error(`${what}: expected a ${storageOf(type).name}, received ${describe(given)}`)
  return plainView(stored)
}

function fromNumbers(what: string, type: TensorMetadata['type'], given: readonly unknown[]): TensorData {
  const Storage = storageOf(type) as unknown as Float32ArrayConstructor
  const isBig = type === 'int64' || type === 'uint64'
  const strange = given.findIndex(
    (item) =>
      typeof item !== 'number' &&
      !(isBig && typeof item === 'bigint') &&
      !(type === 'bool' && typeof item === 'boolean'),
  )
  if (strange !== -1)
    throw new Error(
      `${what}: expected a ${Storage.name}, or numbers, received ${describe(given[strange])} among them`,
    )
  return Storage.from(isBig ? (given.map((item) => BigInt(item as number)) as never) : (given as number[]))
}

function emptyElement(type: TensorMetadata['type']): unknown {
  return type === 'string' ? '' : type === 'int64' || type === 'uint64' ? 0n : 0
}

/** For a row that has failed: nothing, where that can be. */
function emptyRow(type: TensorMetadata['type'], shape: TensorMetadata['shape']): Piece {
  const dims = shape.map((dim) => (typeof dim === 'number' ? dim : 0))
  const count = elementCount(dims)
  return {
    dims,
    data: type === 'string' ? Array.from({ length: count }, () => '') : new (storageOf(type))(count),
  }
}
