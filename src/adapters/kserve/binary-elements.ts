import { Buffer, isUtf8 } from 'node:buffer'
import { invalidArgument, type InferenceError } from '../../errors.ts'
import type { Pieces } from '../../base/slices.ts'
import {
  byteLengthOf,
  elementCount,
  storageLength,
  storageOf,
  type ElementType,
  type TensorData,
} from '../../tensor/tensor.ts'
import { datatypeOf } from './datatypes.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'

/** Bytes of the length that is before each element of BYTES. */
const prefixBytes = 4
/** Bytes, and elements of text, that are read in one piece. */
const pieceBytes = 2 ** 18
const pieceTexts = 2 ** 12

/**
 * The elements of a tensor whose data are bytes: where they lie, unless that is a place where elements of their size cannot be.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function* binaryElements(
  what: string,
  type: ElementType,
  shape: readonly number[],
  bytes: Uint8Array,
  { maxJsonValues }: Pick<ResolvedKserveOptions, 'maxJsonValues'>,
): Pieces<TensorData | string[]> {
  const count = elementCount(shape)
  if (type === 'string' && count > maxJsonValues)
    throw invalidArgument(what, `${maxJsonValues} elements of text at most (maxJsonValues)`, count)
  if (type === 'string') return yield* readTexts(what, count, shape, bytes)
  const expected = byteLengthOf(type, count)
  if (bytes.byteLength !== expected) {
    throw invalidArgument(
      `${what}.parameters.binary_data_size`,
      `${expected}, as ${datatypeOf(type)} of shape [${shape.join(', ')}] has`,
      bytes.byteLength,
    )
  }
  // What else a byte may be ONNX Runtime makes of it as it likes.
  if (type === 'bool') yield* checkFlags(what, bytes)
  const Storage = storageOf(type)
  const { buffer, byteOffset } =
    bytes.byteOffset % Storage.BYTES_PER_ELEMENT === 0 ? bytes : new Uint8Array(bytes)
  return new Storage(buffer, byteOffset, storageLength(type, count))
}

function* checkFlags(what: string, bytes: Uint8Array): Pieces<void> {
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at]! > 1) throw invalidArgument(`${what}'s binary data`, 'bytes 0 and 1, for BOOL', 'others')
    if (at % pieceBytes === pieceBytes - 1) yield
  }
}

function* readTexts(
  what: string,
  count: number,
  shape: readonly number[],
  bytes: Uint8Array,
): Pieces<string[]> {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const texts: string[] = []
  let readTo = 0
  for (let at = 0; at < all.length;) {
    const length = elementLength(what, all, at, texts.length, count)
    const from = at + prefixBytes
    at = from + length
    const text =
      length > pieceBytes
        ? yield* longText(all, from, at)
        : length === 0
          ? ''
          : all.toString('utf8', from, at)
    // What is no UTF-8 becomes this character, which may have been there as well.
    if (text.includes('\ufffd') && !isUtf8(all.subarray(from, at)))
      throw invalidArgument(
        `${what}'s element ${texts.length}`,
        'text in UTF-8, as strings of models are',
        'bytes that are none',
      )
    texts.push(text)
    if (at - readTo < pieceBytes && texts.length % pieceTexts !== 0) continue
    readTo = at
    yield
  }
  if (texts.length !== count)
    throw invalidArgument(
      `${what}'s binary data`,
      `${count} elements for shape [${shape.join(', ')}]`,
      texts.length,
    )
  return texts
}

function* longText(all: Buffer, from: number, to: number): Pieces<string> {
  let text = ''
  for (let at = from; at < to;) {
    let end = Math.min(to, at + pieceBytes)
    for (let back = 0; back < 3 && end < to && (all[end]! & 0xc0) === 0x80; back++) end-- // not within a character
    text += all.toString('utf8', at, end)
    at = end
    yield
  }
  return text
}

/** The only element of BYTES, where it lies. */
export function onlyElement(what: string, bytes: Uint8Array): Uint8Array | undefined {
  if (bytes.byteLength === 0) return undefined
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const end = prefixBytes + elementLength(what, all, 0, 0, 1)
  if (end < all.length) throw tooMany(what, 1)
  return all.subarray(prefixBytes, end)
}

/** Of the element of BYTES that begins there. */
function elementLength(what: string, all: Buffer, at: number, before: number, most: number): number {
  if (before === most) throw tooMany(what, most)
  const left = all.length - at - prefixBytes
  const length = left < 0 ? Infinity : all.readUInt32LE(at)
  if (length <= left) return length
  throw invalidArgument(
    `${what}'s binary data`,
    'elements of BYTES, each after its length in 4 bytes',
    `one that ends ${left < 0 ? 'within that' : `${length - left} bytes after them`}`,
  )
}

function tooMany(what: string, most: number): InferenceError {
  return invalidArgument(`${what}'s binary data`, `${most} elements of BYTES`, 'more')
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
