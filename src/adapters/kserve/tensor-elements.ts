import { Buffer, isUtf8 } from 'node:buffer'
import type { Pieces } from '../../base/slices.ts'
import { type InferenceError, invalidArgument } from '../../errors.ts'
import { elementTypes, tritonType } from '../../features/triton-repository/config-tensors.ts'
import {
  byteLengthOf,
  elementCount,
  type ElementType,
  isRawType,
  rawTypes,
  storageLength,
  storageOf,
  type TensorData,
} from '../../tensor/tensor.ts'
import { isText, nonFinite } from './json-fields.ts'
import type { ResolvedKserveOptions } from './kserve.ts'

/** Deepest nesting of arrays in tensor data. */
const deepest = 32
/** Elements read in one piece. */
const pieceElements = 2 ** 13

const ranges: Partial<Record<ElementType, readonly [least: number, most: number]>> = {
  int8: [-(2 ** 7), 2 ** 7 - 1],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint8: [0, 2 ** 8 - 1],
  uint16: [0, 2 ** 16 - 1],
  uint32: [0, 2 ** 32 - 1],
}
const bigRanges: Partial<Record<ElementType, readonly [least: bigint, most: bigint]>> = {
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
}

/**
 * Elements of a tensor with JSON data, flat or nested. Every element is checked, and none is rounded to
 * another number.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function* jsonElements(
  what: string,
  type: ElementType,
  shape: readonly number[],
  data: unknown,
): Pieces<TensorData | string[]> {
  if (!Array.isArray(data)) throw invalidArgument(`${what}.data`, 'an array', data)
  if (isBinaryOnly(type))
    throw invalidArgument(
      `${what}.data`,
      `${datatypeOf(type)} as binary data (binary_data_size)`,
      'JSON, which has no such numbers',
    )
  const items = data.some(Array.isArray) ? yield* flat(what, data, 1, []) : (data as readonly unknown[])
  const count = elementCount(shape)
  if (items.length !== count)
    throw invalidArgument(`${what}.data`, `${count} elements for shape [${shape.join(', ')}]`, items.length)
  const expected = expectedOf(type)
  const wrong = (index: number) =>
    invalidArgument(`${what}.data[${index}]`, expected, nonFinite.get(items[index]) ?? items[index])
  const isRight = checkOf(type)
  const elements = type === 'string' ? null : (new (storageOf(type))(count) as Float32Array)
  const isBig = elements instanceof BigInt64Array || elements instanceof BigUint64Array
  for (let index = 0; index < count; index++) {
    const item = items[index]
    if (!isRight(item)) throw wrong(index)
    if (elements !== null)
      elements[index] = (
        isBig ? BigInt(item as number) : typeof item === 'string' ? nonFinite.get(item)! : Number(item)
      ) as number
    if (index % pieceElements === pieceElements - 1) yield
  }
  return elements ?? (items as string[])
}

function* flat(what: string, items: readonly unknown[], depth: number, into: unknown[]): Pieces<unknown[]> {
  if (depth > deepest)
    throw invalidArgument(`${what}.data`, `arrays within ${deepest} arrays at most`, 'deeper ones')
  for (const item of items) {
    if (Array.isArray(item)) {
      yield* flat(what, item, depth + 1, into)
    } else {
      into.push(item)
      if (into.length % pieceElements === 0) yield
    }
  }
  return into
}

function checkOf(type: ElementType): (item: unknown) => boolean {
  const range = ranges[type]
  if (range !== undefined)
    return (item) => Number.isInteger(item) && (item as number) >= range[0] && (item as number) <= range[1]
  const big = bigRanges[type]
  // A number beyond 2^53 that is not a bigint had an exponent or a fraction, and may have been rounded.
  if (big !== undefined)
    return (item) =>
      (typeof item === 'bigint' || Number.isSafeInteger(item)) &&
      (item as bigint) >= big[0] &&
      (item as bigint) <= big[1]
  if (type === 'bool') return (item) => typeof item === 'boolean'
  // Half of a surrogate pair has no bytes in UTF-8: the model would receive another character.
  if (type === 'string') return (item) => isText(item)
  // 1e999 becomes infinite when parsed, 1e39 when stored as float32; neither was written as infinity.
  const isFinite =
    type === 'float32'
      ? (item: unknown) => Number.isFinite(Math.fround(Number(item)))
      : (item: unknown) => Number.isFinite(Number(item))
  return (item) =>
    ((typeof item === 'number' || typeof item === 'bigint') && isFinite(item)) || nonFinite.has(item)
}

function expectedOf(type: ElementType): string {
  const range = ranges[type] ?? bigRanges[type]
  if (range !== undefined) return `a whole number from ${range[0]} to ${range[1]}`
  return type === 'bool'
    ? 'true or false'
    : type === 'string'
      ? 'a string of whole characters'
      : `a number of ${datatypeOf(type)}, 'NaN', 'Infinity' or '-Infinity'`
}

/** Bytes of the length before each BYTES element. */
const prefixBytes = 4
/** Bytes, and text elements, that are read in one piece. */
const pieceBytes = 2 ** 18
const pieceTexts = 2 ** 12

/**
 * Elements of a tensor with binary data: a view on the bytes or, where they are not aligned for it, a copy.
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
  // ONNX Runtime does not define the meaning of other bytes.
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
    // Invalid UTF-8 becomes this character, but the text may also contain it.
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
    for (let back = 0; back < 3 && end < to && (all[end]! & 0xc0) === 0x80; back++) end-- // never split a character
    text += all.toString('utf8', at, end)
    at = end
    yield
  }
  return text
}

/** The bytes of a single BYTES element, in place. */
export function onlyElement(what: string, bytes: Uint8Array): Uint8Array | undefined {
  if (bytes.byteLength === 0) return undefined
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const end = prefixBytes + elementLength(what, all, 0, 0, 1)
  if (end < all.length) throw tooMany(what, 1)
  return all.subarray(prefixBytes, end)
}

/** Length of the BYTES element at this offset. */
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

/** Strings as BYTES elements. */
export function* textBytes(texts: readonly string[]): Pieces<Buffer> {
  let length = 0
  for (const [index, text] of texts.entries()) {
    length += prefixBytes + Buffer.byteLength(text)
    if (index % pieceTexts === pieceTexts - 1) yield
  }
  const bytes = Buffer.allocUnsafeSlow(length)
  let at = 0
  for (const [index, text] of texts.entries()) {
    const written = bytes.write(text, at + prefixBytes)
    bytes.writeUInt32LE(written, at)
    at += prefixBytes + written
    if (index % pieceTexts === pieceTexts - 1) yield
  }
  return bytes
}

/**
 * The protocol's name of an element type. Types that it has no name for, 8-bit floats and 4-bit integers,
 * have their own name in capitals: `FLOAT8E4M3FN`, `INT4`.
 */
export function datatypeOf(type: string): string {
  if (type === 'string') return 'BYTES'
  return tritonType(type)?.slice('TYPE_'.length) ?? type.toUpperCase()
}

const types = new Map<string, ElementType>(
  [...Object.values(elementTypes), ...rawTypes].map((type) => [datatypeOf(type), type]),
)

/** The element type of a protocol name; `undefined` for an unknown name. */
export function typeOfDatatype(datatype: string): ElementType | undefined {
  return types.get(datatype)
}

/** All names, for a message. */
export const datatypes: readonly string[] = [...types.keys()]

/** Whether the type has binary data only: JSON cannot express its values. */
export function isBinaryOnly(type: ElementType): boolean {
  return type === 'float16' || isRawType(type)
}
