import { createHash } from 'node:crypto'
import { aloneKey } from '../options/batching.ts'
import { batchAxisOf, type ValueMetadata } from '../tensor/metadata.ts'
import { plainView, type TensorData } from '../tensor/tensor.ts'
import type { ParsedFeeds } from './infer-request.ts'

/** The bucket of a request that runs as it is: by the dims of its inputs, `null` for one not given. */
export function wholeKey(dims: readonly (readonly number[] | null)[]): string {
  return `${aloneKey}${dims.map((own) => own?.join() ?? '-').join(';')}`
}

/**
 * A request that runs alone as it is.
 *
 * @param dims of each input; `null` where all but the first dimension is fixed.
 * @param firstDims the dimension of each input that would count its rows.
 */
export function wholeRequest(
  inputs: readonly ValueMetadata[],
  data: ParsedFeeds['data'],
  dims: ParsedFeeds['dims'],
  firstDims: (index: number) => number,
): ParsedFeeds {
  const own = data.map((values, index): readonly number[] | null =>
    values === null ? null : (dims?.[index] ?? dimsOf(inputs[index]!, firstDims(index))),
  )
  return { rows: 1, bucketKey: wholeKey(own), whole: true, data, dims: own.map((given) => given ?? []) }
}

/** Of an input in whose shape nothing but the rows is variable. */
function dimsOf(input: ValueMetadata, rows: number): number[] {
  const axis = batchAxisOf(input)
  return input.shape.map((dim, at) => (at === axis ? rows : (dim as number)))
}

/** Values of so many bytes stand for themselves in a key. */
const shortBytes = 64

/** What stands in a bucket's key for the value of an input that all rows of a batch share. */
export function sharedKey(values: TensorData | readonly string[]): string {
  if (!ArrayBuffer.isView(values)) return `=${JSON.stringify(values)};`
  const { buffer, byteOffset, byteLength } = plainView(values)
  const bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  return `=${byteLength <= shortBytes ? bytes.toString('hex') : createHash('sha256').update(bytes).digest('hex')};`
}

/** A value that is the same for others too is to be what its key says, whatever its caller does with the data. */
export function ownCopy(values: ParsedFeeds['data'][number]): ParsedFeeds['data'][number] {
  return ArrayBuffer.isView(values) ? (plainView(values as TensorData).slice() as TensorData) : values
}
