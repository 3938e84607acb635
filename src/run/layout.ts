import type { TensorPlace, SlotLayout } from './executors/executor.ts'
import type { SlotMemory, StagingBuffer, StagingPool } from '../native/staging-pool.ts'
import { cudaDevice, type Placement } from '../options/session-options.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../tensor/metadata.ts'
import {
  elementCount,
  isPacked,
  type ElementType,
  type TensorData,
  byteLengthOf,
  isElementType,
  storageLength,
  storageOf,
} from '../tensor/tensor.ts'

/** How a batch lies in a slot, and how many bytes it needs. */
interface BatchLayout extends SlotLayout {
  readonly byteLength: number
  /** Dims of every input, those that travel by message included; `null` for one that is not given. */
  readonly inputDims: readonly (readonly number[] | null)[]
}

const cacheLineBytes = 64
const pageBytes = 4096
const pageAlignedFromBytes = 65_536

/** What is known of a batch that is to be laid out. */
interface BatchShape {
  readonly rows: number
  /** Which inputs there are, by index. */
  readonly given: readonly unknown[]
  /** Dims of each input, padded, whatever the rows. Default: the model fixes all but the rows. */
  readonly rowDims?: readonly (readonly number[])[] | null
  /** Which outputs are wanted; see {@link wants}. Default: all. */
  readonly outputMask?: number
  /** Indices of outputs whose size has turned out not to follow from the metadata. Default: none. */
  readonly unpredictable?: ReadonlySet<number>
  /** Whether the first dimensions are the request's own, as for a model that is not batched. Default: false. */
  readonly whole?: boolean
  /** See {@link Carrier.movesFromBytes}. Default: no output is moved. */
  readonly movesFromBytes?: number
  /** Of each input whose rows have dims of their own, in elements. Default: no input has such rows. */
  readonly room?: readonly (number | undefined)[] | null
}

const none: ReadonlySet<number> = new Set()

/** Lays out the inputs and outputs of a batch one after the other, aligned for vector loads and DMA. */
export function layOut(
  metadata: ModelMetadata,
  {
    rows,
    given,
    rowDims = null,
    outputMask = -1,
    unpredictable = none,
    whole = false,
    movesFromBytes = Infinity,
    room = null,
  }: BatchShape,
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
function wants(outputMask: number, index: number): boolean {
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

/** A layout with this thread's views of its tensors. */
export interface ViewedLayout extends BatchLayout {
  readonly index: number
  readonly inputViews: readonly (TensorData | null | undefined)[]
  readonly outputViews: readonly (TensorData | null | undefined)[]
  /** Elements of one row of each input. */
  readonly inputRowElements: readonly number[]
  /** Elements of one row of each output; for a request that runs as it is, of the whole. */
  readonly outputRowElements: readonly number[]
  /** How often a row of each input begins anew: once where rows lie one behind the other; 0 for what all rows share. */
  readonly inputBlocks: readonly number[]
  readonly outputBlocks: readonly number[]
  /** Which dimension of each output counts rows. */
  readonly outputAxes: readonly number[]
  /** Whether elements of some input or output share bytes. */
  readonly packs: boolean
  /** Whether all that there is lies in the slot, one row behind the other. */
  readonly isByRow: boolean
  /** The lengths to which the batch is padded, by entry of the model's {@link Padding}; `null` without padding. */
  readonly lengths: readonly number[] | null
  /** By input, the dims of each row where rows have their own; `null` where none have. */
  readonly rowDims: readonly (Int32Array | null)[] | null
  /** Where it lies if not in the slot's own memory; else `null`. */
  readonly memory: SlotMemory | null
  /** When the worker was notified of it; kept by the slot. 0 for never. */
  toldIn: number
}

/**
 * A layout with its views in the slot's own memory.
 *
 * @param batched whether dimensions of its tensors count rows.
 */
export function viewLayout(
  { inputs, outputs }: ModelMetadata,
  layout: BatchLayout,
  bytes: ArrayBufferLike,
  index: number,
  lengths: readonly number[] | null,
  batched: boolean,
): ViewedLayout {
  const view = (value: ValueMetadata, place: TensorPlace | null | undefined) =>
    place && viewOf(value.type as ElementType, bytes, place)
  const rowElements = (value: ValueMetadata, place: TensorPlace | null | undefined) =>
    place
      ? elementCount(batched ? place.dims.filter((_, axis) => axis !== batchAxisOf(value)) : place.dims)
      : -1
  const blocks = (value: ValueMetadata, place: TensorPlace | null | undefined) =>
    !batched
      ? 1
      : batchAxisOf(value) === -1
        ? 0
        : !place
          ? 1
          : elementCount(place.dims.slice(0, batchAxisOf(value)))
  const rowDims = layout.inputs.map((place, input) =>
    place?.rowDims
      ? new Int32Array(
          bytes,
          place.rowDims.offset,
          place.rowDims.rows * (layout.inputDims[input]!.length - 1),
        )
      : null,
  )
  const packs = [...inputs, ...outputs].some(({ type }) => isPacked(type as ElementType))
  const areRows = (places: BatchLayout['inputs'], values: readonly ValueMetadata[]) =>
    places.every(
      (place, index) => place === undefined || (place && !place.rowDims && batchAxisOf(values[index]!) === 0),
    )
  // Field by field: every batch reads it, and V8 gives what is spread one shape at first and another one later.
  return {
    inputs: layout.inputs,
    outputs: layout.outputs,
    byteLength: layout.byteLength,
    inputDims: layout.inputDims,
    index,
    inputViews: layout.inputs.map((place, input) => view(inputs[input]!, place)),
    outputViews: layout.outputs.map((place, output) => view(outputs[output]!, place)),
    inputRowElements: layout.inputs.map((place, input) => rowElements(inputs[input]!, place)),
    outputRowElements: layout.outputs.map((place, output) => rowElements(outputs[output]!, place)),
    inputBlocks: layout.inputs.map((place, input) => blocks(inputs[input]!, place)),
    outputAxes: outputs.map(batchAxisOf),
    outputBlocks: layout.outputs.map((place, output) => blocks(outputs[output]!, place)),
    packs,
    isByRow: batched && !packs && areRows(layout.inputs, inputs) && areRows(layout.outputs, outputs),
    rowDims: rowDims.some((dims) => dims !== null) ? rowDims : null,
    lengths,
    memory: null,
    toldIn: 0,
  }
}

const minBytes = 4096
const doubledBelowBytes = 2 ** 20

/** Memory for a batch of `neededBytes`, and for somewhat larger ones to come: the double at most, from 1 MiB on a quarter. */
export function roomFor(neededBytes: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(minBytes, neededBytes)))
  const step = power > doubledBelowBytes ? power / 8 : power
  return Math.ceil(neededBytes / step) * step || minBytes
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

/** What a slot needs for the largest batch, in bytes; the least a slot has where shapes vary from request to request. */
export function largestSlotBytes(metadata: ModelMetadata): number {
  const batched = metadata.maxBatchSize > 0
  const varies = metadata.inputs.some(({ shape }) =>
    shape.some((dim, axis) => typeof dim !== 'number' && !(batched && axis === 0)),
  )
  if (varies) return roomFor(0)
  const given = metadata.inputs.map(() => true)
  return roomFor(layOut(metadata, { rows: metadata.maxBatchSize, given }).byteLength)
}

/**
 * Memory for the slots of an instance on a CUDA device, page-locked while the model is being loaded: at the first batch it
 * would keep the application's thread for up to hundreds of milliseconds, the making of the device's context included.
 * Rejects when memory cannot be had, with none kept.
 *
 * @returns for the first slots: fewer past the limit, none for an instance that runs elsewhere.
 */
export async function slotsAhead(
  pool: Pick<StagingPool, 'acquireAhead'>,
  metadata: ModelMetadata,
  placement: Placement,
  slots: number,
): Promise<StagingBuffer[]> {
  const device = cudaDevice(placement)
  const buffers: StagingBuffer[] = []
  try {
    for (let slot = 0; slot < slots && device !== null; slot++) {
      const buffer = await pool.acquireAhead(largestSlotBytes(metadata), device)
      if (buffer !== null) buffers.push(buffer)
    }
  } catch (error) {
    for (const buffer of buffers) buffer.release()
    throw error
  }
  return buffers
}
