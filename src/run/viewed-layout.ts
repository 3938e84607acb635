import type { TensorPlace } from './executors/executor.ts'
import type { RowPlaces } from '../native/row-block.ts'
import type { SlotMemory } from '../native/staging-pool.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../tensor/metadata.ts'
import { elementCount, isPacked, type ElementType, type TensorData } from '../tensor/tensor.ts'
import type { InPlaceBatch } from './in-place.ts'
import { layOut, viewOf, type BatchLayout } from './layout.ts'

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
  /** The lengths to which the batch is padded, by entry of the model's {@link Padding}; `null` without padding. */
  readonly lengths: readonly number[] | null
  /** By input, the dims of each row where rows have their own; `null` where none have. */
  readonly rowDims: readonly (Int32Array | null)[] | null
  /** Where it lies if not in the slot's own memory; else `null`. */
  readonly memory: SlotMemory | null
  /** When the worker was told of it; kept by the slot. 0 for never. */
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
  return {
    ...layout,
    index,
    inputViews: layout.inputs.map((place, input) => view(inputs[input]!, place)),
    outputViews: layout.outputs.map((place, output) => view(outputs[output]!, place)),
    inputRowElements: layout.inputs.map((place, input) => rowElements(inputs[input]!, place)),
    outputRowElements: layout.outputs.map((place, output) => rowElements(outputs[output]!, place)),
    inputBlocks: layout.inputs.map((place, input) => blocks(inputs[input]!, place)),
    outputAxes: outputs.map(batchAxisOf),
    outputBlocks: layout.outputs.map((place, output) => blocks(outputs[output]!, place)),
    packs: [...inputs, ...outputs].some(({ type }) => isPacked(type as ElementType)),
    rowDims: rowDims.some((dims) => dims !== null) ? rowDims : null,
    lengths,
    memory: null,
    toldIn: 0,
  }
}

/** The layout of a batch that is run in a block: each input and output where the block has it, from the batch's first row on. */
export function layOutInPlace(
  metadata: ModelMetadata,
  { block, first, rows, requests }: InPlaceBatch,
  outputMask: number,
  unpredictable: ReadonlySet<number>,
): ViewedLayout {
  const { layout, buffer } = block
  const packed = layOut(metadata, rows, requests[0]!.data, null, outputMask, unpredictable)
  const inBlock = (
    place: TensorPlace | null | undefined,
    rowsOf: RowPlaces | null,
  ): TensorPlace | null | undefined =>
    place && rowsOf ? { offset: rowsOf.offset + first * rowsOf.rowBytes, dims: place.dims } : place && null
  const inputs = packed.inputs.map((place, index) => inBlock(place, layout.inputs[index]!))
  const outputs = packed.outputs.map((place, index) => inBlock(place, layout.outputs[index]!))
  const rowElements = (place: TensorPlace | null | undefined) =>
    place ? elementCount(place.dims.slice(1)) : -1
  return {
    inputs,
    outputs,
    byteLength: layout.byteLength,
    inputDims: packed.inputDims,
    index: 0,
    inputViews: [], // its rows are there
    outputViews: outputs.map(
      (place, index) => place && viewOf(metadata.outputs[index]!.type as ElementType, buffer.bytes, place),
    ),
    inputRowElements: inputs.map(rowElements),
    outputRowElements: outputs.map(rowElements),
    inputBlocks: inputs.map(() => 1), // a block has rows one behind the other
    outputBlocks: outputs.map(() => 1),
    outputAxes: outputs.map(() => 0),
    packs: false,
    lengths: null,
    rowDims: null,
    memory: buffer.memory,
    toldIn: 0,
  }
}
