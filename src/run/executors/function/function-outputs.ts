import { describe, listNames } from '../../../errors.ts'
import type { SlotLayout, TensorPlace } from '../executor.ts'
import { shownShape, type TensorMetadata } from '../../../tensor/metadata.ts'
import {
  elementCount,
  storageOf,
  type MailedTensor,
  type TensorData,
  toStorage,
  lengthOf,
  plainView,
} from '../../../tensor/tensor.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import { viewOf } from './function-inputs.ts'

/** Elements with their dims. */
interface Piece {
  readonly data: TensorData | readonly string[]
  readonly dims: readonly number[]
}

/** What a function gave for an output: all rows one behind the other, or a piece for each. */
type GivenRows = { readonly whole: Piece } | { readonly each: readonly Piece[] }

/** How many rows a batch has, and which of them have failed and need no output. */
interface BatchRows {
  readonly rows: number
  readonly batched: boolean
  failed(row: number): boolean
}

/** Outputs that leave the thread by message, and what of them is moved rather than copied. */
export interface SentOutputs {
  readonly outputs: (MailedValue | null | undefined)[]
  readonly transfer: ArrayBuffer[]
}

/**
 * Copies what a function gave to the places of the outputs in the slot; what has none is to be sent. Every element of a place is
 * written, so that nothing is left there of another batch.
 *
 * @returns `null` when all outputs are in their places.
 * @throws Error when an output is not as it was declared.
 */
export function writeOutputs(
  declared: readonly TensorMetadata[],
  { outputs: places }: Pick<SlotLayout, 'outputs'>,
  bytes: ArrayBufferLike,
  given: unknown,
  batch: BatchRows,
): SentOutputs | null {
  if (typeof given !== 'object' || given === null || Array.isArray(given) || ArrayBuffer.isView(given))
    throw new Error(`expected an object of outputs by name, received ${describe(given)}`)
  let sent: SentOutputs | null = null
  for (const [index, place] of places.entries()) {
    if (place === undefined) continue
    const output = declared[index]!
    if (!Object.hasOwn(given, output.name))
      throw new Error(
        `output '${output.name}': expected to be given, received ${listNames(Object.keys(given), 'no output')}`,
      )
    const rows = givenRows(output, (given as Record<string, unknown>)[output.name], batch)
    checkIntact(output.name, rows)
    if (place !== null) {
      writeTo(output, viewOf(output.type, bytes, place), place, rows, batch)
      continue
    }
    sent ??= { outputs: places.map((each) => (each === undefined ? undefined : null)), transfer: [] }
    sent.outputs[index] = mailed(output, rows, batch, sent.transfer)
  }
  return sent
}

/** What the function gave may have getters, and one of them may have taken from another what was read of it. */
function checkIntact(name: string, given: GivenRows): void {
  for (const { data, dims } of 'whole' in given ? [given.whole] : given.each) {
    if (data.length !== elementCount(dims))
      throw new Error(
        `output '${name}': expected ${elementCount(dims)} elements for dims [${dims.join(', ')}], received a buffer that was detached or cut meanwhile`,
      )
  }
}

function writeTo(
  output: TensorMetadata,
  view: TensorData,
  { dims: expected }: TensorPlace,
  given: GivenRows,
  { batched }: BatchRows,
): void {
  if ('whole' in given) {
    checkDims(`output '${output.name}'`, expected, given.whole.dims)
    return (view as Float32Array).set(given.whole.data as Float32Array)
  }
  const rowDims = batched ? expected.slice(1) : expected
  const elements = elementCount(rowDims)
  for (const [row, piece] of given.each.entries()) {
    checkDims(`output '${output.name}'[${row}]`, rowDims, piece.dims)
    ;(view as Float32Array).set(piece.data as Float32Array, row * elements)
  }
}

function checkDims(what: string, expected: readonly number[], received: readonly number[]): void {
  if (received.length === expected.length && received.every((dim, axis) => dim === expected[axis])) return
  throw new Error(
    `${what}: expected dims [${expected.join(', ')}], as an input of the batch has them, received [${received.join(', ')}]`,
  )
}

function mailed(
  { name, type, ragged = false, shape }: TensorMetadata,
  given: GivenRows,
  { rows, batched, failed }: BatchRows,
  transfer: ArrayBuffer[],
): MailedValue {
  if ('whole' in given) return mailedPiece(type, given.whole, transfer)
  if (ragged && rows > 0) return { ragged: given.each.map((piece) => mailedPiece(type, piece, transfer)) }
  const first = given.each.find((_, row) => !failed(row)) ?? given.each[0]
  if (first === undefined)
    return {
      type,
      dims: shape.map((dim) => (typeof dim === 'number' ? dim : 0)),
      data: type === 'string' ? [] : new ArrayBuffer(0),
    }
  const even = given.each.map((piece, row) => (failed(row) ? blank(type, first.dims) : piece))
  const uneven = even.findIndex(({ dims }) => dims.some((dim, axis) => dim !== first.dims[axis]))
  if (uneven !== -1) {
    throw new Error(
      `output '${name}'[${uneven}]: expected dims [${first.dims.join(', ')}], as the rows before it, since its dims are ${shownShape(shape.slice(batched ? 1 : 0))}, received [${even[uneven]!.dims.join(', ')}]; declare -1 for what each row has its own`,
    )
  }
  return mailedPiece(type, { dims: [rows, ...first.dims], data: joined(type, even) }, transfer)
}

function blank(type: TensorMetadata['type'], dims: readonly number[]): Piece {
  const count = elementCount(dims)
  return {
    dims,
    data: type === 'string' ? Array.from({ length: count }, () => '') : new (storageOf(type))(count),
  }
}

function joined(type: TensorMetadata['type'], pieces: readonly Piece[]): Piece['data'] {
  if (type === 'string') return pieces.flatMap(({ data }) => data as readonly string[])
  const all = new (storageOf(type))(pieces.reduce((count, { data }) => count + data.length, 0))
  let at = 0
  for (const { data } of pieces) {
    ;(all as Float32Array).set(data as Float32Array, at)
    at += data.length
  }
  return all
}

/** A copy: the function may keep what it has given, and give it again. */
function mailedPiece(
  type: TensorMetadata['type'],
  { dims, data }: Piece,
  transfer: ArrayBuffer[],
): MailedTensor {
  if (!ArrayBuffer.isView(data)) return { type, dims, data }
  const buffer = (data as TensorData).slice().buffer as ArrayBuffer
  transfer.push(buffer)
  return { type, dims, data: buffer }
}

/**
 * Checks what a function gave for an output.
 *
 * @throws Error that says what was expected and what was received.
 */
function givenRows(output: TensorMetadata, given: unknown, batch: BatchRows): GivenRows {
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
  const isBig = type === 'int64' || type === 'uint64'
  const strange = given.findIndex(
    (item) =>
      typeof item !== 'number' &&
      !(isBig && typeof item === 'bigint') &&
      !(type === 'bool' && typeof item === 'boolean'),
  )
  if (strange !== -1)
    throw new Error(
      `${what}: expected a ${storageOf(type).name}, or numbers, received ${describe(given[strange])} among them`,
    )
  const data = new (storageOf(type))(given.length)
  for (const [at, item] of given.entries()) {
    if (isBig) (data as BigInt64Array)[at] = BigInt(item as number)
    else (data as Float32Array)[at] = Number(item)
  }
  return data
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
