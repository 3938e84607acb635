import {
  type MailedTensor,
  type TensorLike,
  copyOf,
  elementCount,
  isElementType,
  isPacked,
  makeTensor,
  putValue,
  type ElementType,
  type TensorData,
} from '../tensor/tensor.ts'
import { copyBlocks, cutElements, mailedElements } from '../tensor/elements.ts'
import {
  cutRows,
  hasNonFinite,
  isMailedTensor,
  outputOf,
  rowCount,
  type MailedValue,
  type OutputValue,
  isRectangular,
} from '../tensor/values.ts'
import type { FinishedBatch, RunLayout } from './batch.ts'
import type { AnyOutputs } from '../options/model-signature.ts'
import { batchAxisOf, type ModelMetadata, type ValueMetadata } from '../tensor/metadata.ts'
import {
  divideEntries,
  entriesOf,
  indexColumn,
  shiftRows,
  type Division,
  type Entries,
} from '../request/output-rows.ts'
import { copyResized, type Padding } from '../request/padding.ts'
import type { Reshape, ShapedTensors } from '../request/shaped-tensors.ts'
import type { InferRequest } from '../request/infer-request.ts'

/** Part of an output with its dims. */
interface Piece {
  readonly data: TensorData | string[]
  readonly dims: readonly number[]
}

/**
 * The outputs of each request of a batch, cut from the slot and from what came by message, in the batch's order.
 *
 * @param reshapes from the dims of each output to those of an answer.
 * @param failures of requests that have no answer, and get nothing here, by their place; `null` for none.
 * @param divisions see {@link divided}.
 * @throws Error when an output cannot be cut back to a request's length, joined with those of other parts of a request, or has
 * other dims than configured.
 */
export function scatter(
  metadata: ModelMetadata,
  padding: Padding | null,
  reshapes: ShapedTensors['outputs'],
  { requests, slot, mailed }: FinishedBatch,
  failures: readonly (string | null)[] | null = null,
  divisions: Divisions | null = null,
): AnyOutputs[] {
  const layout = slot.layout!
  const results: AnyOutputs[] = []
  const mailedValues = mailed?.map((value) => (value && isMailedTensor(value) ? mailedElements(value) : null))
  let row = 0
  for (let member = 0; member < requests.length; member++) {
    const request = requests[member]!
    const outputs: AnyOutputs = {}
    for (let index = 0; index < metadata.outputs.length && !failures?.[member]; index++) {
      if (request.outputs !== null && !request.outputs.includes(index)) continue
      const { name, type } = metadata.outputs[index]!
      const value = mailed?.[index]
      if (value && !(isMailedTensor(value) && isElementType(type))) {
        putValue(outputs, name, cutStructured(name, value, request, row, requests.length === 1))
        continue
      }
      const { turn } = request
      const isKept = turn !== null && turn.keeps(index)
      const division = divisions?.[index] ?? null
      const piece =
        division !== null && requests.length > 1
          ? cutEntries(
              metadata.outputs[index]!,
              value as MailedTensor,
              mailedValues![index]!,
              division,
              member,
              row,
            )
          : value
            ? cutMailed(
                value,
                mailedValues![index]!,
                batchAxisOf(metadata.outputs[index]!),
                request,
                row,
                requests.length === 1,
              )
            : cutFromSlot(metadata, layout, index, request, row, isKept && turn.hides(index))
      if (request.isPart && division === null && piece.dims[0] !== request.rows)
        throw notByRow(name, request, `dims [${piece.dims.join(', ')}]`)
      const { data, dims } =
        padding === null ? piece : cutLength(name, padding, layout, index, request, piece)
      if (isKept) {
        if (!request.settled) turn.keep(index, data, dims) // else the sequence has gone on without it
        if (turn.hides(index)) continue
      }
      const shown = reshapes === null ? dims : reshaped(name, reshapes[index]!, dims)
      if (request.isStep)
        putValue<TensorLike>(outputs as Record<string, TensorLike>, name, { type, dims: shown, data })
      else putValue<OutputValue>(outputs, name, makeTensor(type as ElementType, data, shown))
    }
    results.push(outputs)
    row += request.rows
  }
  return results
}

function reshaped(name: string, reshape: Reshape | null, dims: readonly number[]): readonly number[] {
  if (reshape === null) return dims
  if (reshape.takes(dims)) return reshape.of(dims)
  throw new Error(
    `output '${name}' has dims [${dims.join(', ')}], where its configuration says ${reshape.taken}`,
  )
}

function cutFromSlot(
  metadata: ModelMetadata,
  layout: RunLayout,
  index: number,
  request: InferRequest,
  row: number,
  asView: boolean,
): Piece {
  if (layout.packs) return cutPacked(metadata, layout, index, request, row)
  const view = layout.outputViews[index] as Float32Array
  const dims = [...layout.outputs[index]!.dims]
  // A copy: the caller owns what it gets, and the slot can be filled again.
  if (metadata.maxBatchSize === 0 || request.whole)
    return { data: asView ? view : copyOf(view, 0, view.length), dims }
  const elements = layout.outputRowElements[index]!
  const axis = layout.outputAxes[index]!
  const rows = dims[axis]!
  dims[axis] = request.rows
  const blocks = layout.outputBlocks[index]!
  if (blocks !== 1) return { data: cutBlocks(view, rows, request, row, blocks, elements / blocks), dims }
  const [from, to] = [row * elements, (row + request.rows) * elements]
  const place = request.isStep ? request.placeFor(index) : null
  if (place !== null && place.length === to - from) {
    ;(place as Float32Array).set(view.subarray(from, to))
    return { data: place, dims }
  }
  return { data: asView ? view.subarray(from, to) : copyOf(view, from, to), dims }
}

function cutBlocks(
  data: TensorData,
  rows: number,
  request: InferRequest,
  row: number,
  blocks: number,
  inner: number,
): TensorData {
  const own = new (data.constructor as new (length: number) => TensorData)(blocks * request.rows * inner)
  copyBlocks(data, rows, row, own, request.rows, 0, request.rows, blocks, inner)
  return own
}

/** As above, where elements may share bytes. */
function cutPacked(
  metadata: ModelMetadata,
  layout: RunLayout,
  index: number,
  request: InferRequest,
  row: number,
): Piece {
  const type = metadata.outputs[index]!.type as ElementType
  const { dims } = layout.outputs[index]!
  const view = layout.outputViews[index]!
  if (metadata.maxBatchSize === 0 || request.whole)
    return { data: cutElements(type, view, 0, elementCount(dims)), dims: [...dims] }
  const elements = layout.outputRowElements[index]!
  return {
    data: cutElements(type, view, row * elements, (row + request.rows) * elements),
    dims: [request.rows, ...dims.slice(1)],
  }
}

function cutMailed(
  { type, dims }: MailedTensor,
  data: TensorData | string[],
  axis: number,
  request: InferRequest,
  row: number,
  alone: boolean,
): Piece {
  if (alone) return { data: isPacked(type) ? cutElements(type, data, 0, elementCount(dims)) : data, dims }
  if (axis > 0) {
    const own = dims.map((dim, at) => (at === axis ? request.rows : dim))
    const blocks = elementCount(dims.slice(0, axis))
    return {
      data: cutBlocks(
        data as TensorData,
        dims[axis]!,
        request,
        row,
        blocks,
        elementCount(dims.slice(axis + 1)),
      ),
      dims: own,
    }
  }
  const elements = elementCount(dims.slice(1))
  return {
    data: cutElements(type, data, row * elements, (row + request.rows) * elements),
    dims: [request.rows, ...dims.slice(1)],
  }
}

/** The entries of a request, which reads its own rows' numbers in them. */
function cutEntries(
  { rows }: ValueMetadata,
  { type, dims }: MailedTensor,
  data: TensorData | string[],
  division: Division,
  member: number,
  row: number,
): Piece {
  const own = entriesOf({ type, dims, data }, division, member)
  const column = indexColumn(rows)
  if (column !== null) shiftRows(own, column, -row)
  return own
}

/** What is no tensor: a sequence is divided by its entries. */
function cutStructured(
  name: string,
  value: MailedValue,
  request: InferRequest,
  row: number,
  alone: boolean,
): OutputValue {
  if (request.isPart && alone && rowCount(value) !== request.rows)
    throw notByRow(name, request, `${rowCount(value) ?? 'no'} entries`)
  return outputOf(alone ? value : cutRows(value, row, row + request.rows))
}

function notByRow(name: string, { rows }: InferRequest, shown: string): Error {
  return new Error(
    `output '${name}' has ${shown} for a part of ${rows} rows, where one entry per row was expected, so that the parts can be joined; omit splitOversized`,
  )
}

/**
 * Takes what was computed from padding out of an output.
 *
 * @throws Error when the output has not the length that was filled up to, so that it is not known what of it is the request's.
 */
function cutLength(
  name: string,
  padding: Padding,
  { lengths }: RunLayout,
  index: number,
  request: InferRequest,
  piece: Piece,
): Piece {
  const cut = padding.cuts[index]
  if (cut === undefined || lengths === null) return piece
  const { axis } = cut
  const { data, dims } = piece
  const length = dims[axis]
  const own = padding.ownLength(cut.by, request)
  if (own === undefined) return piece
  if (length !== lengths[cut.by]) {
    const shown = `dims [${dims.join(', ')}], and not ${lengths[cut.by]} along dimension ${axis}, to which its input was padded`
    throw new Error(
      `output '${name}' has ${shown}; it cannot be cut back, remove it from the outputs of padding`,
    )
  }
  if (own === length) return piece
  const outer = elementCount(dims.slice(0, axis))
  const inner = elementCount(dims.slice(axis + 1))
  const ownDims = dims.map((dim, at) => (at === axis ? own : dim))
  if (Array.isArray(data)) {
    const kept = Array.from({ length: outer }, (_, block) =>
      data.slice(block * length * inner, (block * length + own) * inner),
    )
    return { data: kept.flat(), dims: ownDims }
  }
  const target = new (data.constructor as new (length: number) => TensorData)(outer * own * inner)
  copyResized(data, 0, target, 0, outer, inner, length, own, 0)
  return { data: target, dims: ownDims }
}

/** By output; `null` for one that has an entry for each row. */
type Divisions = readonly (Division | null)[]

/**
 * Whose the entries are in outputs that have not one for each row; `null` where there are none.
 *
 * @throws UndividedOutput when what the run says of it cannot be true.
 */
export function divided(
  { outputs }: Pick<ModelMetadata, 'outputs'>,
  { requests, slot, mailed }: FinishedBatch,
): Divisions | null {
  if (requests[0]!.whole) return null
  return divideEntries(
    outputs,
    requests.map(({ rows }) => rows),
    (index): Entries | null => {
      const value = mailed?.[index]
      const type = outputs[index]!.type as ElementType
      if (value) return isMailedTensor(value) ? { type, dims: value.dims, data: mailedElements(value) } : null
      const [place, data] = [slot.layout!.outputs[index], slot.layout!.outputViews[index]]
      return place && data ? { type, dims: place.dims, data } : null
    },
  )
}

/**
 * The first output that cannot be divided among the rows of a batch, or `null`.
 *
 * @param needed indices of the outputs that requests have.
 */
export function indivisibleOutput(
  metadata: ModelMetadata,
  { requests, rows, mailed }: FinishedBatch,
  needed: readonly number[],
): string | null {
  if (mailed === null || requests.length === 1) return null
  const index = mailed.findIndex(
    (value, at) =>
      value &&
      needed.includes(at) &&
      metadata.outputs[at]!.rows === undefined &&
      rowCount(value, batchAxisOf(metadata.outputs[at]!)) !== rows,
  )
  return index === -1 ? null : metadata.outputs[index]!.name
}

/** AnyOutputs of a finished batch that turned out to be of another size than their layout said, by index. */
function unexpectedOutputs({ slot, mailed }: FinishedBatch): number[] {
  return mailed?.flatMap((tensor, index) => (tensor && slot.layout!.outputs[index] ? [index] : [])) ?? []
}

/** Outputs of a model that turned out to be of other sizes than estimated: they get no place in a slot any more. */
export class UnpredictableOutputs {
  /** Their indices, for a batch of joined rows ... */
  readonly joined = new Set<number>()
  /** ... and for a request that runs as it is. */
  readonly whole = new Set<number>()

  /**
   * @param needed indices of the outputs that requests have: what others are like is all one.
   * @param outputs how many there are.
   */
  constructor(needed: readonly number[] = [], outputs = 0) {
    for (let index = 0; index < outputs; index++) if (!needed.includes(index)) this.joined.add(index)
  }

  /** Looks at what a batch has given; true when one was found. */
  note(batch: FinishedBatch): boolean {
    const unexpected = unexpectedOutputs(batch)
    for (const index of unexpected) (batch.requests[0]!.whole ? this.whole : this.joined).add(index)
    return unexpected.length > 0
  }
}

/**
 * Why requests of a finished batch have no answer, by their place: a row of theirs has failed, or has other dims in an output than
 * the next one, with which it cannot be one tensor. `null` where all have one.
 */
export function failedRequests(
  { outputs }: ModelMetadata,
  { requests, failures, mailed }: FinishedBatch,
): (string | null)[] | null {
  const ragged =
    mailed?.flatMap((value, index) =>
      value && 'ragged' in value ? [{ value, name: outputs[index]!.name }] : [],
    ) ?? []
  if (failures === null && ragged.length === 0) return null
  let start = 0
  return requests.map(({ rows }) => {
    const end = start + rows
    const own = failures?.find(([row]) => row >= start && row < end)
    const uneven = ragged.find(
      ({ value }) => rows > 1 && !isRectangular(cutRows(value, start, end) as typeof value),
    )
    start = end
    if (own !== undefined) return own[1]
    return uneven === undefined
      ? null
      : `output '${uneven.name}' has rows of different dims, which cannot be one tensor; send each row as a request of its own`
  })
}

/** The name of the first output that has NaN or infinity, or `null`. */
export function nonFiniteOutput(outputs: AnyOutputs): string | null {
  for (const [name, value] of Object.entries(outputs)) if (hasNonFinite(value)) return name
  return null
}
