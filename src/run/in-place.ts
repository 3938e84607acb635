import { layOut, viewOf, type ViewedLayout } from './layout.ts'
import type { TensorPlace } from './executors/executor.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import {
  checkElements,
  elementCount,
  storageOf,
  type ElementType,
  type TensorData,
} from '../tensor/tensor.ts'
import type { RowPlaces, RowBlock } from '../native/row-blocks.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** A batch that is run where most of its rows were written. */
export interface InPlaceBatch {
  readonly block: RowBlock
  /** The first of its rows in the block. */
  readonly first: number
  readonly rows: number
  /** Its requests in the order of their rows there. */
  readonly requests: readonly InferRequest[]
  /** Of these, those that lie elsewhere, and are to be copied to where they belong. */
  readonly moved: readonly { readonly request: InferRequest; readonly row: number }[]
}

/**
 * Finds a stretch of one block for the rows of a batch: those written there stay, others take the places that are free. At
 * least half have to stay, as it is a copy that is to be saved. No row in the stretch may be in other hands: one that is still
 * being written, waits for another batch, or is read by a run that could not be stopped.
 *
 * @param rows those of the batch.
 * @param device for which memory has to be page-locked; `null` for none.
 * @returns `null` where there is none, and the batch is to be gathered elsewhere.
 */
export function placeInBlock(
  requests: readonly InferRequest[],
  rows: number,
  device: number | null,
): InPlaceBatch | null {
  const block = blockOfMost(requests)
  if (block === null || block.device !== device || rows > block.layout.rows) return null
  const owners = ownersOf(block, requests)
  const first = bestStretch(block, owners, rows)
  return first === -1 ? null : arrange(block, owners, first, rows, requests)
}

/** Counts rows of leases that are copied to their batch. */
export function leasedRows(requests: readonly InferRequest[]): number {
  let rows = 0
  for (const { leased } of requests) if (leased !== null) rows += leased.rows
  return rows
}

function blockOfMost(requests: readonly InferRequest[]): RowBlock | null {
  const counts = new Map<RowBlock, number>()
  let most: RowBlock | null = null
  for (const { leased, whole, rows } of requests) {
    if (whole) return null // its first dimension counts no rows
    const block = leased?.block ?? null
    if (block === null) continue
    const count = (counts.get(block) ?? 0) + rows
    counts.set(block, count)
    if (most === null || count > counts.get(most)!) most = block
  }
  return most
}

/** By row of the block the request of the batch that has it, if no other holds it. */
function ownersOf(block: RowBlock, requests: readonly InferRequest[]): (InferRequest | undefined)[] {
  const owners = Array.from<InferRequest | undefined>({ length: block.layout.rows })
  for (const request of requests) {
    if (request.leased?.block !== block) continue
    const { first, rows } = request.leased
    let alone = true
    for (let row = first; row < first + rows; row++) alone &&= block.holdersOf(row) === 1
    if (alone) owners.fill(request, first, first + rows)
  }
  return owners
}

/** Where a stretch begins that has as many rows of the batch as possible, at least half of it; -1 for nowhere. */
function bestStretch(block: RowBlock, owners: readonly (InferRequest | undefined)[], rows: number): number {
  const isForeign = (row: number) => owners[row] === undefined && block.holdersOf(row) > 0
  let best = -1
  let mostOwn = Math.max(1, Math.ceil(rows / 2)) - 1
  let own = 0
  let foreign = 0
  for (let end = 0; end < owners.length; end++) {
    if (isForeign(end)) foreign++
    else if (owners[end] !== undefined) own++
    const first = end - rows + 1
    if (first > 0) {
      if (isForeign(first - 1)) foreign--
      else if (owners[first - 1] !== undefined) own--
    }
    if (first < 0 || foreign > 0 || own <= mostOwn) continue
    const cut = isWithin(owners, first) || isWithin(owners, end + 1)
    if (cut) continue
    best = first
    mostOwn = own
  }
  return best
}

/** Whether a row is another than the first of its request. */
function isWithin(owners: readonly (InferRequest | undefined)[], row: number): boolean {
  return owners[row] !== undefined && owners[row] === owners[row - 1]
}

function arrange(
  block: RowBlock,
  owners: (InferRequest | undefined)[],
  first: number,
  rows: number,
  requests: readonly InferRequest[],
): InPlaceBatch | null {
  const stretch = owners.slice(first, first + rows)
  const stays = new Set(stretch)
  const moved: { request: InferRequest; row: number }[] = []
  for (const request of requests) {
    if (stays.has(request)) continue
    const at = gapFor(stretch, request.rows)
    if (at === -1) return null // there are places enough, but not side by side
    stretch.fill(request, at, at + request.rows)
    moved.push({ request, row: first + at })
  }
  return { block, first, rows, requests: [...new Set(stretch as InferRequest[])], moved }
}

function gapFor(stretch: readonly (InferRequest | undefined)[], rows: number): number {
  let free = 0
  for (let at = 0; at < stretch.length; at++) {
    free = stretch[at] === undefined ? free + 1 : 0
    if (free === rows) return at - rows + 1
  }
  return -1
}

/** The layout of a batch that is run in a block: each input and output where the block has it, from the batch's first row on. */
export function layOutInPlace(
  metadata: ModelMetadata,
  { block, first, rows, requests }: InPlaceBatch,
  outputMask: number,
  unpredictable: ReadonlySet<number>,
): ViewedLayout {
  const { layout, buffer } = block
  const packed = layOut(metadata, { rows, given: requests[0]!.data, outputMask, unpredictable })
  const inBlock = (
    place: TensorPlace | null | undefined,
    rowsOf: RowPlaces | null,
  ): TensorPlace | null | undefined =>
    place && rowsOf ? { offset: rowsOf.offset + first * rowsOf.rowBytes, dims: place.dims } : place && null
  const inputs = packed.inputs.map((place, index) => inBlock(place, layout.inputs[index]!))
  const outputs = packed.outputs.map((place, index) => inBlock(place, layout.outputs[index]!))
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
    inputRowElements: inputs.map(elementsOfRow),
    outputRowElements: outputs.map(elementsOfRow),
    inputBlocks: inputs.map(() => 1), // a block has rows one behind the other
    outputBlocks: outputs.map(() => 1),
    outputAxes: outputs.map(() => 0),
    packs: false,
    isByRow: inputs.every((place) => place !== null) && outputs.every((place) => place !== null),
    lengths: null,
    rowDims: null,
    memory: buffer.memory,
    toldIn: 0,
  }
}

/** Elements of one row, where rows are the first dimension; -1 for what has no place. */
function elementsOfRow(place: TensorPlace | null | undefined): number {
  return place ? elementCount(place.dims.slice(1)) : -1
}

/** Copies those rows of a batch to its stretch of a block that lie elsewhere. */
export function gatherMoved(metadata: ModelMetadata, { block, moved }: InPlaceBatch): void {
  for (const { request, row } of moved) {
    for (const [index, data] of request.data.entries()) {
      if (data === null) continue
      const { offset, rowBytes } = block.layout.inputs[index]!
      const Storage = storageOf(metadata.inputs[index]!.type as ElementType)
      const target = new Storage(
        block.buffer.bytes,
        offset + row * rowBytes,
        (request.rows * rowBytes) / Storage.BYTES_PER_ELEMENT,
      )
      checkElements(data as TensorData, target.length)
      ;(target as Float32Array).set(data as Float32Array)
    }
  }
}
