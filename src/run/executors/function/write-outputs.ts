import { describe, listNames } from '../../../errors.ts'
import type { SlotLayout, TensorPlace } from '../executor.ts'
import { shownShape, type TensorMetadata } from '../../../tensor/metadata.ts'
import { elementCount, storageOf, type MailedTensor, type TensorData } from '../../../tensor/tensor.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import { givenRows, type BatchRows, type GivenRows, type Piece } from './given-rows.ts'
import { viewOf } from './read-inputs.ts'

/** Outputs that leave the thread by message, and what of them is moved rather than copied. */
export interface SentOutputs {
  readonly outputs: (MailedValue | null | undefined)[]
  readonly transfer: ArrayBuffer[]
}

/**
 * Copies what a function gave to the places of the outputs in the slot; what has none is to be sent. Every element of a place is
 * written: what another batch left there is for nobody.
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
  const { buffer } = new (storageOf(type) as unknown as Float32ArrayConstructor)(
    data as Float32Array,
  ) as Float32Array<ArrayBuffer>
  transfer.push(buffer)
  return { type, dims, data: buffer }
}
