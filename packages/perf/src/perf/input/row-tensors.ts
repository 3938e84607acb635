import { invalidArgument, elementCount, isPacked, makeTensor, storageOf } from 'zerohop/internals'
import type { FeedValue, TensorData } from 'zerohop'
import type { InputShape } from './input-shapes.ts'

/** One row of an input, or all of one without rows. */
export interface RowTensor {
  readonly dims: readonly number[]
  readonly data: TensorData | readonly string[]
}

/**
 * Rows of an input as what a request gives for it.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for rows of different shapes, or several of 4 bits each.
 */
export function joinRows({ name, type, batchAxis }: InputShape, rows: readonly RowTensor[]): FeedValue {
  const [{ dims, data }] = rows as [RowTensor]
  // An input without rows is given once.
  if (batchAxis === -1) return makeTensor(type, data as TensorData, dims)
  const odd = rows.find((row) => row.dims.join() !== dims.join())
  if (odd !== undefined)
    throw invalidArgument(`input '${name}'`, `rows of one shape, [${dims.join(', ')}], in a batch`, [
      ...odd.dims,
    ])
  if (isPacked(type) && rows.length > 1)
    throw invalidArgument(
      `input '${name}'`,
      `one row in a request, as ${type} has no bytes of its own`,
      rows.length,
      { hint: 'Leave out -b, or take random data' },
    )
  const joinedDims = dims.toSpliced(batchAxis, 0, rows.length)
  if (rows.length === 1) return makeTensor(type, data as TensorData, joinedDims)
  const outer = elementCount(dims.slice(0, batchAxis))
  const inner = elementCount(dims.slice(batchAxis))
  if (type === 'string') {
    const parts = Array.from({ length: outer }, (_, at) =>
      rows.flatMap((row) => (row.data as readonly string[]).slice(at * inner, (at + 1) * inner)),
    )
    return makeTensor(type, parts.flat(), joinedDims)
  }
  const joined = new (storageOf(type))(rows.length * outer * inner) as Float32Array
  for (let at = 0; at < outer; at++) {
    for (const [index, row] of rows.entries())
      joined.set(
        (row.data as Float32Array).subarray(at * inner, (at + 1) * inner),
        (at * rows.length + index) * inner,
      )
  }
  return makeTensor(type, joined, joinedDims)
}
