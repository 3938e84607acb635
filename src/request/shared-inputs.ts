import { createHash } from 'node:crypto'
import type { TensorData } from '../tensor/tensor.ts'
import { plainView } from '../tensor/typed-array.ts'
import type { ParsedFeeds } from './infer-request.ts'

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
