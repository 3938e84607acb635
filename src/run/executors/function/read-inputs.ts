import type { SlotLayout, TensorPlace } from '../executor.ts'
import type { TensorType } from '../../../tensor/tensor.ts'
import { mailedElements } from '../../../tensor/elements.ts'
import { elementCount, storageOf, type MailedTensor, type TensorData } from '../../../tensor/tensor.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import type { TensorMetadata } from '../../../tensor/metadata.ts'
import { InputRows } from './input-rows.ts'

/** What a function has of its inputs. */
export interface InputShapes {
  readonly inputs: readonly TensorMetadata[]
  readonly batched: boolean
}

/** The inputs of a batch that lies in a slot; `undefined` for those that its requests have left out. */
export function slotInputs(
  { inputs, batched }: InputShapes,
  { inputs: places }: SlotLayout,
  bytes: ArrayBufferLike,
  mailed: readonly (MailedValue | null)[] | null,
): (InputRows | undefined)[] {
  return inputs.map(({ type, shape }, index) => {
    const place = places[index]
    if (place === undefined) return undefined
    if (place === null) return mailedRows(mailed![index]!, batched)
    const data = viewOf(type, bytes, place)
    if (place.rowDims === undefined) return rowsOf(type, data, place.dims, batched)
    return raggedRows(
      type,
      data,
      new Int32Array(bytes, place.rowDims.offset, place.rowDims.rows * (shape.length - 1)),
      place.rowDims.rows,
    )
  })
}

/** The inputs of a sample. */
export function mailedInputs(
  { inputs, batched }: InputShapes,
  feeds: readonly (MailedValue | null)[],
): (InputRows | undefined)[] {
  return inputs.map((_, index) => (feeds[index] ? mailedRows(feeds[index], batched) : undefined))
}

/** A tensor's place in a slot as an array. */
export function viewOf(
  type: TensorMetadata['type'],
  bytes: ArrayBufferLike,
  { offset, dims }: TensorPlace,
): TensorData {
  return new (storageOf(type))(bytes, offset, elementCount(dims))
}

function rowsOf(
  type: TensorMetadata['type'],
  data: TensorData | string[],
  dims: readonly number[],
  batched: boolean,
): InputRows {
  return new InputRows(type as TensorType, data as never, dims, batched)
}

function mailedRows(value: MailedValue, batched: boolean): InputRows {
  if (!('ragged' in value)) {
    const { type, dims } = value as MailedTensor
    return rowsOf(type, mailedElements(value as MailedTensor), dims, batched)
  }
  const data = value.ragged.flatMap((row) => row.data as string[])
  const starts = startsOf(value.ragged.map(({ dims }) => dims))
  return new InputRows('string', data, [data.length], true, {
    starts,
    dims: value.ragged.map(({ dims }) => dims),
  })
}

/** Rows one behind the other in more room than they need, with the dims of each. */
function raggedRows(
  type: TensorMetadata['type'],
  room: TensorData,
  all: Int32Array,
  rows: number,
): InputRows {
  const rank = all.length / rows
  const dims = Array.from({ length: rows }, (_, row) => [...all.subarray(row * rank, (row + 1) * rank)])
  const starts = startsOf(dims)
  const data = (room as Uint8Array).subarray(0, starts.at(-1))
  return new InputRows(type as TensorType, data as never, [data.length], true, { starts, dims })
}

/** Where each row begins, and where the last one ends. */
function startsOf(dims: readonly (readonly number[])[]): number[] {
  const starts = [0]
  for (const own of dims) starts.push(starts.at(-1)! + elementCount(own))
  return starts
}
