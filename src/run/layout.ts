import type { SlotLayout, TensorPlace } from './executors/executor.ts'
import {
  byteLengthOf,
  elementCount,
  isElementType,
  storageLength,
  storageOf,
  type ElementType,
  type TensorData,
} from '../tensor/tensor.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../tensor/metadata.ts'

/** How a batch lies in a slot, and how many bytes it needs. */
export interface BatchLayout extends SlotLayout {
  readonly byteLength: number
  /** Dims of every input, those that travel by message included; `null` for one that is not given. */
  readonly inputDims: readonly (readonly number[] | null)[]
}

const cacheLineBytes = 64
const pageBytes = 4096
const pageAlignedFromBytes = 65_536
/**
 * Lays out the inputs and outputs of a batch one after the other, aligned for vector loads and DMA.
 *
 * @param given which inputs there are, by index.
 * @param rowDims dims of each input, padded, whatever the rows; `null` when the model fixes all but the rows.
 * @param unpredictable indices of outputs whose size has turned out not to follow from the metadata.
 * @param whole whether the first dimensions are the request's own, as for a model that is not batched.
 * @param movesFromBytes see {@link Carrier.movesFromBytes}.
 * @param room of each input whose rows have dims of their own, in elements; `null` where there is no such input.
 */
export function layOut(
  metadata: ModelMetadata,
  rows: number,
  given: readonly unknown[],
  rowDims: readonly (readonly number[])[] | null,
  outputMask: number,
  unpredictable: ReadonlySet<number>,
  whole = false,
  movesFromBytes = Infinity,
  room: readonly (number | undefined)[] | null = null,
): BatchLayout {
  const batched = metadata.maxBatchSize > 0 && !whole
  const inputDims = metadata.inputs.map((input, index) => {
    if (given[index] === null) return null
    const dims = [...(rowDims?.[index] ?? (input.shape as readonly number[]))]
    if (batched && batchAxisOf(input) !== -1) dims[batchAxisOf(input)] = rows
    return dims
  })
  const symbols = bindSymbols(metadata.inputs, inputDims)

  let byteLength = 0
  const place = (type: ElementType, dims: readonly number[]): TensorPlace => {
    const bytes = byteLengthOf(type, elementCount(dims))
    const offset = alignUp(byteLength, bytes)
    byteLength = offset + bytes
    return { offset, dims }
  }
  const inputs = metadata.inputs.map(({ type }, index) => {
    const dims = inputDims[index]!
    if (dims === null || !liesInSlot(type)) return dims === null ? undefined : null
    if (room?.[index] === undefined) return place(type, dims)
    return {
      ...place(type, [room[index]!]),
      rowDims: { offset: place('int32', [rows, dims.length - 1]).offset, rows },
    }
  })
  const outputs = metadata.outputs.map((output, index) => {
    const { type, shape, rows: entries } = output
    const batchAxis = batchAxisOf(output)
    if (!wants(outputMask, index)) return undefined
    if (!liesInSlot(type) || entries !== undefined || unpredictable.has(index)) return null
    const dims = shape.map((dim, axis) =>
      batched && axis === batchAxis ? rows : typeof dim === 'number' ? dim : symbols.get(dim),
    )
    if (dims.includes(undefined)) return null
    const bytes = byteLengthOf(type, elementCount(dims as number[]))
    return bytes >= movesFromBytes && (!batched || rows === 1) ? null : place(type, dims as number[])
  })
  return { inputs, outputs, byteLength, inputDims }
}

/** Whether output `index` is wanted; -1 wants all. Outputs past the 31st are always computed. */
export function wants(outputMask: number, index: number): boolean {
  return index > 30 || (outputMask & (1 << index)) !== 0
}

/** The same with the outputs that say whose the entries of those are. */
export function withDivisors(outputs: readonly ValueMetadata[], outputMask: number): number {
  if (outputMask === -1) return outputMask
  let mask = outputMask
  for (const [index, { rows }] of outputs.entries()) {
    if (rows === undefined || !wants(outputMask, index)) continue
    const divisor = outputs.findIndex(({ name }) => name === (rows.counts ?? rows.of))
    if (divisor !== -1 && divisor <= 30) mask |= 1 << divisor
  }
  return mask
}

/** Whether values of a type are bytes of a known number: strings are not, nor what is no tensor. */
function liesInSlot(type: ValueMetadata['type']): type is ElementType {
  return type !== 'string' && isElementType(type)
}

/** What the named dimensions stand for in this batch; nothing is known of one that stands for two lengths. */
function bindSymbols(
  inputs: readonly ValueMetadata[],
  dims: readonly (readonly number[] | null)[],
): Map<string, number> {
  const symbols = new Map<string, number>()
  const unclear = new Set<string>()
  for (const [index, { shape }] of inputs.entries()) {
    if (dims[index] === null) continue
    for (const [axis, dim] of shape.entries()) {
      if (typeof dim !== 'string' || dim === '') continue
      const length = dims[index]![axis]!
      if ((symbols.get(dim) ?? length) !== length) unclear.add(dim)
      symbols.set(dim, length)
    }
  }
  for (const name of unclear) symbols.delete(name)
  return symbols
}

function alignUp(offset: number, byteLength: number): number {
  const alignment = byteLength >= pageAlignedFromBytes ? pageBytes : cacheLineBytes
  return Math.ceil(offset / alignment) * alignment
}

/** This thread's view of a tensor. */
export function viewOf(type: ElementType, bytes: ArrayBufferLike, { offset, dims }: TensorPlace): TensorData {
  return new (storageOf(type))(bytes, offset, storageLength(type, elementCount(dims)))
}
