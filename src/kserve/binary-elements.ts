import { Buffer, isUtf8 } from 'node:buffer'
import { invalidArgument } from '../errors.ts'
import { byteLengthOf, elementCount, storageLength, storageOf, type ElementType, type TensorData } from '../tensor.ts'
import { datatypeOf } from './datatypes.ts'

/** Bytes of the length that is before each element of BYTES. */
const prefixBytes = 4

/**
 * The elements of a tensor whose data are bytes: where they lie, unless that is a place where elements of their size cannot be.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function binaryElements(what: string, type: ElementType, shape: readonly number[], bytes: Uint8Array): TensorData | string[] {
  const count = elementCount(shape)
  if (type === 'string') return readTexts(what, count, shape, bytes)
  const expected = byteLengthOf(type, count)
  if (bytes.byteLength !== expected) {
    throw invalidArgument(`${what}.parameters.binary_data_size`, `${expected}, as ${datatypeOf(type)} of shape [${shape.join(', ')}] has`, bytes.byteLength)
  }
  // What else a byte may be ONNX Runtime makes of it as it likes.
  if (type === 'bool' && bytes.some((byte) => byte > 1)) throw invalidArgument(`${what}'s binary data`, 'bytes 0 and 1, for BOOL', 'others')
  const Storage = storageOf(type)
  const { buffer, byteOffset } = bytes.byteOffset % Storage.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes)
  return new Storage(buffer, byteOffset, storageLength(type, count))
}

function readTexts(what: string, count: number, shape: readonly number[], bytes: Uint8Array): string[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const texts: string[] = []
  walkElements(what, all, count, (from, to) => {
    const text = from === to ? '' : all.toString('utf8', from, to)
    // What is no UTF-8 becomes this character, which may have been there as well.
    if (text.includes('\ufffd') && !isUtf8(all.subarray(from, to))) throw invalidArgument(`${what}'s element ${texts.length}`, 'text in UTF-8, as strings of models are', 'bytes that are none')
    texts.push(text)
  })
  if (texts.length !== count) throw invalidArgument(`${what}'s binary data`, `${count} elements for shape [${shape.join(', ')}]`, texts.length)
  return texts
}

/** The only element of BYTES, where it lies. */
export function onlyElement(what: string, bytes: Uint8Array): Uint8Array | undefined {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let only: Uint8Array | undefined
  walkElements(what, all, 1, (from, to) => (only = all.subarray(from, to)))
  return only
}

/** Tells where each element of BYTES lies: with an object for each, they would take many times their own memory. */
function walkElements(what: string, all: Buffer, most: number, each: (from: number, to: number) => void): void {
  let count = 0
  for (let at = 0; at < all.length; ) {
    if (count++ === most) throw invalidArgument(`${what}'s binary data`, `${most} elements of BYTES`, 'more')
    const left = all.length - at - prefixBytes
    const length = left < 0 ? Infinity : all.readUInt32LE(at)
    if (length > left) throw invalidArgument(`${what}'s binary data`, 'elements of BYTES, each after its length in 4 bytes', `one that ends ${left < 0 ? 'within that' : `${length - left} bytes after them`}`)
    at += prefixBytes + length
    each(at - length, at)
  }
}

/** Strings as elements of BYTES. */
export function textBytes(texts: readonly string[]): Buffer {
  const lengths = texts.map((text) => Buffer.byteLength(text))
  const bytes = Buffer.allocUnsafeSlow(lengths.reduce((sum, length) => sum + prefixBytes + length, 0))
  let at = 0
  for (const [index, text] of texts.entries()) {
    at = bytes.writeUInt32LE(lengths[index]!, at)
    at += bytes.write(text, at)
  }
  return bytes
}
