import { fullBatchRows } from '../../options/batching.ts'
import { batchLimits, type ResolvedConfig } from '../../options/model-config.ts'
import { invalidArgument } from '../../errors.ts'
import { layOut } from '../../run/layout.ts'
import { slotsFor } from '../../run/staging-slot.ts'
import { RowBlock, type BlockLayout, RowBlocks } from '../../native/row-blocks.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { byteLengthOf, elementCount, isPacked, type ElementType } from '../../tensor/tensor.ts'
import { LeasableInputs } from './leasable-inputs.ts'
import { Leases } from './leases.ts'

/** Smaller rows cost less to copy than to have a batch run where they are; measured. */
const inPlaceFromBytes = 4096
/** Most bytes of one block, if more than a row fits. */
const largestBlock = 64 * 2 ** 20
/**
 * Most bytes of a model's blocks, if no more are needed at the same time: rows of requests that wait lie there, too. Arrays of
 * their own outlive young generations: with 64 photographs V8 collected its whole heap 15 times a second, a sixth of the throughput.
 */
const blocksBytes = 256 * 2 ** 20
/** And most of them: the pool that they are taken from looks at all it has lent, whenever some is taken or given back. */
const blocksAtMost = 512
/** Blocks beside those that run and those that wait behind: one is filled, another is written still. */
const blocksBeside = 2

/**
 * What rows of a loaded model are leased from.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a model of which none can be.
 */
export function leasesOf(scheduler: Scheduler, config: ResolvedConfig): Leases {
  const { joining, clock } = scheduler
  const { name, maxBatchSize } = joining.stacked
  if (config.sequence !== null)
    throw invalidArgument('lease', 'a model without sequences', 'one with sequences', {
      model: name,
      hint: 'Use infer() for this model',
    })
  const inputs = new LeasableInputs(name, joining.shaped.shown.inputs, maxBatchSize, config.optionalInputs)
  const layout = blockLayout(joining.stacked, fullBatchRows(batchLimits(config, maxBatchSize)))
  const blocks = blocksFor(scheduler, layout)
  scheduler.instances.rowBlocks = blocks
  return new Leases(inputs, blocks, clock)
}

function blocksFor({ instances, clock }: Scheduler, layout: BlockLayout | null): RowBlocks {
  let isLent = true // as far as is known
  const make = (spare: boolean) => {
    const [instance] = instances
    if (instance === undefined || layout === null || !isLent) return null // each lease has memory of its own
    const { source } = instance
    const buffer = spare
      ? (source.acquireSpare?.(layout.byteLength) ?? null)
      : source.acquire(layout.byteLength)
    if (buffer === null) return null
    if (buffer.lend !== undefined) return new RowBlock(layout, buffer, source.device ?? null)
    isLent = false
    buffer.release()
    return null
  }
  const needed = () => slotsFor(1) * instances.size + blocksBeside
  const most = layout === null ? 0 : Math.min(blocksAtMost, Math.floor(blocksBytes / layout.byteLength))
  return new RowBlocks(clock, make, needed, most, ({ buffer }) => instances.forgetMemory(buffer.memory))
}

/** How a block is divided whose rows can be run where they are; `null` where rows differ in size, do not lie one behind the other, share bytes, or are small. */
function blockLayout(metadata: ModelMetadata, fullRows: number): BlockLayout | null {
  const { inputs, outputs } = metadata
  if ([...inputs, ...outputs].some((value) => batchAxisOf(value) !== 0)) return null
  const varies = inputs.some(({ shape }) => shape.slice(1).some((dim) => typeof dim !== 'number'))
  if (metadata.maxBatchSize === 0 || varies || outputs.some(({ type }) => isPacked(type as ElementType)))
    return null
  const lay = (rows: number) => layOut(metadata, { rows, given: inputs })
  const bytesOf = ({ type }: ValueMetadata, dims: readonly number[]) =>
    byteLengthOf(type as ElementType, elementCount(dims))
  const one = lay(1)
  const inputBytes = inputs.reduce((sum, input, index) => sum + bytesOf(input, one.inputs[index]!.dims), 0)
  if (inputBytes < inPlaceFromBytes) return null
  const rows = Math.max(1, Math.min(fullRows, Math.floor(largestBlock / one.byteLength)))
  const { byteLength, inputs: places, outputs: outputPlaces } = lay(rows)
  return {
    rows,
    byteLength,
    inputs: places.map((place, index) => ({
      offset: place!.offset,
      rowBytes: bytesOf(inputs[index]!, place!.dims) / rows,
    })),
    outputs: outputPlaces.map((place, index) =>
      place ? { offset: place.offset, rowBytes: bytesOf(outputs[index]!, place.dims) / rows } : null,
    ),
  }
}
