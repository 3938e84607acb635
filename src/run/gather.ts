import type { ModelMetadata, ValueMetadata } from '../tensor/metadata.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { type Padding, copyResized } from '../request/padding.ts'
import {
  isPacked,
  type ElementType,
  type TensorData,
  elementCount,
  type MailedTensor,
  lengthOf,
  plainView,
} from '../tensor/tensor.ts'
import { copyBlocks, copyPacked } from '../tensor/elements.ts'
import type { MailedValue } from '../tensor/values.ts'
import type { ViewedLayout } from './layout.ts'

/** Copies the rows of `batch` to where `layout` has them; what cannot lie there is returned to go by message. */
export function gatherBatch(
  metadata: ModelMetadata,
  padding: Padding | null,
  batch: readonly InferRequest[],
  layout: ViewedLayout,
): readonly (MailedValue | null)[] | null {
  let mailed: (MailedValue | null)[] | null = null
  for (let index = 0; index < layout.inputViews.length; index++) {
    const view = layout.inputViews[index]
    if (view === undefined) continue
    if (view === null) {
      mailed ??= layout.inputViews.map(() => null)
      mailed[index] = gatherMailed(
        metadata.inputs[index]!,
        layout.inputBlocks[index] === 0 ? [batch[0]!] : batch,
        index,
        layout.inputDims[index]!,
      )
    } else if (layout.rowDims?.[index] != null) {
      gatherRagged(batch, index, view, layout.rowDims[index]!)
    } else if (layout.lengths !== null && padding!.byInput[index] !== undefined) {
      gatherPadded(batch, padding!, index, layout.inputDims[index]!, layout.lengths, view)
    } else if (layout.packs && isPacked(metadata.inputs[index]!.type as ElementType)) {
      gatherPacked(batch, index, view as Uint8Array, layout.inputRowElements[index]!)
    } else if (layout.inputBlocks[index] !== 1) {
      gatherBlocks(batch, index, view, layout.inputBlocks[index]!, layout.inputRowElements[index]!)
    } else {
      const rowElements = layout.inputRowElements[index]!
      let at = 0
      for (let member = 0; member < batch.length; member++) {
        const request = batch[member]!
        const data = request.data[index] as Float32Array
        const elements = batch.length === 1 ? view.length : request.rows * rowElements
        checkElements(data, elements)
        ;(view as Float32Array).set(data, at)
        at += elements
      }
    }
  }
  return mailed
}

/** What travels by message: the strings of a batch, or what is no tensor, of one request. */
function gatherMailed(
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

/** Rows that are filled up to the length of the batch along one dimension. */
function gatherPadded(
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

/** Rows whose elements share bytes, with the next row's too where their number is odd. */
function gatherPacked(
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
function gatherBlocks(
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

/** Fewer elements than were checked would leave in the slot what another caller sent, or put the next rows in the wrong place. */
export function checkElements(data: TensorData, elements: number): void {
  const received = lengthOf(data)
  if (received !== elements)
    throw new Error(`an input that had ${elements} elements when it was checked has ${received} now`)
}

/** Least room for the rows of an input, in elements. */
const leastRoom = 256

/** Whether a model has inputs whose rows may have different lengths in one batch. */
export function hasRaggedInputs({ inputs }: Pick<ModelMetadata, 'inputs'>): boolean {
  return inputs.some(({ ragged }) => ragged === true)
}

/**
 * Room for the rows of a batch, in elements by input; `undefined` for an input whose rows are all alike. More than is needed, by
 * a quarter at most, so that few layouts do for batches of all sizes.
 */
export function roomForRows(
  { inputs }: ModelMetadata,
  batch: readonly InferRequest[],
): (number | undefined)[] {
  return inputs.map(({ ragged, type }, index) => {
    if (ragged !== true || type === 'string') return undefined
    let elements = 0
    for (const { dims, data } of batch) if (data[index] !== null) elements += elementCount(dims![index]!)
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(leastRoom, elements))) - 3)
    return Math.max(leastRoom, Math.ceil(elements / step) * step)
  })
}

/** Copies the rows of a batch one behind the other, and notes the dims of each. */
function gatherRagged(
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
