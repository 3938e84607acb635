// Inputs that are not simply laid one behind the other, as most are: how their rows come into a batch.
import { copyResized, type Padding } from '../request/padding.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { copyBlocks, copyPacked } from '../tensor/elements.ts'
import type { ValueMetadata } from '../tensor/metadata.ts'
import {
  checkElements,
  elementCount,
  plainView,
  type MailedTensor,
  type TensorData,
} from '../tensor/tensor.ts'
import type { MailedValue } from '../tensor/values.ts'

/** Rows that are filled up to the length of the batch along one dimension. */
export function gatherPadded(
  batch: readonly InferRequest[],
  padding: Padding,
  index: number,
  dims: readonly number[],
  lengths: readonly number[],
  view: TensorData,
): void {
  const entry = padding.byInput[index]!
  const { axis, fill } = padding.inputs[entry]!
  const length = lengths[entry]!
  const blocksPerRow = elementCount(dims.slice(1, axis))
  const inner = elementCount(dims.slice(axis + 1))
  let at = 0
  for (const request of batch) {
    const blocks = request.rows * blocksPerRow
    const own = padding.ownLength(entry, request)!
    const data = plainView(request.data[index] as TensorData)
    checkElements(data, blocks * own * inner)
    copyResized(data, 0, view, at, blocks, inner, own, length, fill)
    at += blocks * length * inner
  }
}

/** Copies the rows of a batch one behind the other, and notes the dims of each. */
export function gatherRagged(
  batch: readonly InferRequest[],
  index: number,
  view: TensorData,
  rowDims: Int32Array,
): void {
  let at = 0
  let noted = 0
  for (const { data, dims, rows } of batch) {
    const own = dims![index]!
    const elements = elementCount(own)
    checkElements(data[index] as TensorData, elements)
    ;(view as Float32Array).set(data[index] as Float32Array, at)
    at += elements
    for (let row = 0; row < rows; row++)
      for (let axis = 1; axis < own.length; axis++) rowDims[noted++] = own[axis]!
  }
}

/** What travels by message: the strings of a batch, or what is no tensor, of one request. */
export function gatherMailed(
  { type, ragged }: ValueMetadata,
  batch: readonly InferRequest[],
  index: number,
  dims: readonly number[],
): MailedValue {
  if (type !== 'string') return batch[0]!.data[index] as MailedValue
  if (ragged === true) return gatherRaggedStrings(batch, index)
  return { type: 'string', dims, data: batch.flatMap(({ data }) => data[index] as string[]) }
}

/** Strings of rows that have dims of their own. */
function gatherRaggedStrings(batch: readonly InferRequest[], index: number): MailedValue {
  const ragged = batch.flatMap(({ data, dims, rows }) => {
    const own = dims![index]!.slice(1)
    const elements = elementCount(own)
    const strings = data[index] as readonly string[]
    return Array.from({ length: rows }, (_, row): MailedTensor => ({
      type: 'string',
      dims: own,
      data: strings.slice(row * elements, (row + 1) * elements),
    }))
  })
  return { ragged }
}

/** Rows whose elements share bytes, with the next row's too where their number is odd. */
export function gatherPacked(
  batch: readonly InferRequest[],
  index: number,
  view: Uint8Array,
  rowElements: number,
): void {
  let at = 0
  for (const request of batch) {
    const data = plainView(request.data[index] as Uint8Array)
    const elements = batch.length === 1 ? view.length * 2 : request.rows * rowElements
    checkElements(data, Math.ceil(elements / 2))
    copyPacked(data, 0, view, at, elements)
    at += elements
  }
}

/**
 * Rows along another dimension than the first: `blocks` times a part of each, one row behind the other.
 *
 * @param blocks how many there are before that dimension; 0 for what all rows share.
 */
export function gatherBlocks(
  batch: readonly InferRequest[],
  index: number,
  view: TensorData,
  blocks: number,
  rowElements: number,
): void {
  const rows = blocks === 0 ? 0 : view.length / rowElements
  let at = 0
  for (const request of batch) {
    const data = plainView(request.data[index] as TensorData)
    checkElements(data, blocks === 0 ? view.length : request.rows * rowElements)
    if (blocks === 0) return (view as Float32Array).set(data as Float32Array)
    copyBlocks(data, request.rows, 0, view, rows, at, request.rows, blocks, rowElements / blocks)
    at += request.rows
  }
}
