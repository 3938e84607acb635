import {
  copyOf,
  elementCount,
  isPacked,
  layouts,
  storageLength,
  storageOf,
  type ElementType,
  type MailedTensor,
  type TensorData,
} from './tensor.ts'
import { fromSmallFloat, isSmallFloat } from './small-floats.ts'

/** Elements of a tensor as they are stored. */
export type Elements = TensorData | readonly string[]

/** An own copy of elements `[start, end)`. */
export function cutElements(
  type: ElementType,
  data: Elements,
  start: number,
  end: number,
): TensorData | string[] {
  if (!ArrayBuffer.isView(data)) return data.slice(start, end)
  if (!isPacked(type)) return copyOf(data, start, end)
  const cut = new Uint8Array(storageLength(type, end - start))
  copyPacked(data as Uint8Array, start, cut, 0, end - start)
  return cut
}

/** Parts one behind the other, each with how many elements it has. */
export function joinElements(
  type: ElementType,
  parts: readonly { readonly data: Elements; readonly count: number }[],
): TensorData | string[] {
  if (type === 'string') return parts.flatMap(({ data }) => data as readonly string[])
  const joined = new (storageOf(type))(
    storageLength(
      type,
      parts.reduce((sum, { count }) => sum + count, 0),
    ),
  )
  const packs = isPacked(type)
  let at = 0
  for (const { data, count } of parts) {
    if (packs) copyPacked(data as Uint8Array, 0, joined as Uint8Array, at, count)
    else (joined as Float32Array).set(data as Float32Array, at)
    at += count
  }
  return joined
}

/**
 * Copies elements of 4 bits: two share a byte. A row need not begin a byte of its own, so they are moved one by one
 * where the places do not agree. What else is in the bytes of the target stays.
 */
export function copyPacked(
  source: Uint8Array,
  sourceAt: number,
  target: Uint8Array,
  targetAt: number,
  count: number,
): void {
  let done = 0
  if (sourceAt % 2 === 0 && targetAt % 2 === 0) {
    target.set(source.subarray(sourceAt / 2, (sourceAt + count) >> 1), targetAt / 2)
    done = count & ~1
  }
  for (; done < count; done++) {
    const to = targetAt + done
    const element = packedAt(source, sourceAt + done)
    target[to >> 1] =
      to % 2 === 0 ? (target[to >> 1]! & 0xf0) | element : (target[to >> 1]! & 0x0f) | (element << 4)
  }
}

const packedAt = (data: Uint8Array, at: number): number =>
  at % 2 === 0 ? data[at >> 1]! & 0x0f : data[at >> 1]! >> 4

/** Each element of a packed tensor as a number. */
export function unpacked(type: ElementType, data: Uint8Array, count: number): Int8Array {
  return Int8Array.from({ length: count }, (_, at) => {
    const element = packedAt(data, at)
    return type.startsWith('i') && element > 7 ? element - 16 : element
  })
}

/** The reverse of {@link unpacked}. */
export function packed(values: ArrayLike<number>): Uint8Array {
  const data = new Uint8Array(Math.ceil(values.length / 2))
  for (let at = 0; at < values.length; at++) data[at >> 1]! |= (values[at]! & 0x0f) << (at % 2 === 0 ? 0 : 4)
  return data
}

/** A tensor to travel by message, of elements that fill their buffer. */
export function mailed(type: ElementType, dims: readonly number[], own: TensorData | string[]): MailedTensor {
  return { type, dims, data: ArrayBuffer.isView(own) ? (own.buffer as ArrayBuffer) : own }
}

/** The elements of a tensor that travelled by message. */
export function mailedElements({ type, data }: MailedTensor): TensorData | string[] {
  return data instanceof ArrayBuffer ? new (storageOf(type))(data) : (data as string[])
}

/** The same, with numbers in place of the bits of small floats and packed integers. */
export function mailedNumbers(tensor: MailedTensor): Elements {
  const { type, dims } = tensor
  const elements = mailedElements(tensor)
  if (isSmallFloat(type))
    return Float32Array.from(elements as Uint16Array, (bits) => fromSmallFloat(type, bits))
  return isPacked(type) ? unpacked(type, elements as Uint8Array, elementCount(dims)) : elements
}

/** Reads strings, each after its length in 4 bytes (little-endian). If the last is cut off, returns the offset of its length. */
export function prefixedStrings(bytes: Buffer): string[] | number {
  const strings: string[] = []
  for (let at = 0; at < bytes.length;) {
    const end = at + 4 <= bytes.length ? at + 4 + bytes.readUInt32LE(at) : Infinity
    if (end > bytes.length) return at
    strings.push(bytes.toString('utf8', at + 4, end))
    at = end
  }
  return strings
}

/**
 * Copies rows of tensors in which rows lie along another dimension than the first.
 *
 * @param sourceRows rows that the source has, of which those from `sourceRow` on are copied; the same for the target.
 * @param blocks how many there are before that dimension.
 * @param inner elements after it.
 */
export function copyBlocks(
  source: TensorData,
  sourceRows: number,
  sourceRow: number,
  target: TensorData,
  targetRows: number,
  targetRow: number,
  rows: number,
  blocks: number,
  inner: number,
): void {
  for (let block = 0; block < blocks; block++) {
    const from = (block * sourceRows + sourceRow) * inner
    ;(target as Float32Array).set(
      (source as Float32Array).subarray(from, from + rows * inner),
      (block * targetRows + targetRow) * inner,
    )
  }
}

/** Tensors of equal row shapes one behind the other. */
export function joinTensors(tensors: readonly MailedTensor[]): MailedTensor {
  const { type, dims } = tensors[0]!
  const joinedDims = [tensors.reduce((rows, tensor) => rows + tensor.dims[0]!, 0), ...dims.slice(1)]
  const joined = joinElements(
    type,
    tensors.map((tensor) => ({ data: mailedElements(tensor), count: elementCount(tensor.dims) })),
  )
  return mailed(type, joinedDims, joined)
}

/** The number of each type in `TensorProto.DataType`. */
export const typeNumbers = Object.fromEntries([
  ['string', 8],
  ...Object.entries(layouts).map(([type, [, number]]) => [type, number]),
]) as Readonly<Record<ElementType, number>>

/** All types by their number in `TensorProto.DataType`: first those that occur in files but not in requests. */
const typesByNumber = new Map<number, readonly [name: string, bits: number]>([
  [0, ['undefined', 0]], [14, ['complex64', 64]], [15, ['complex128', 128]], [23, ['float4e2m1', 4]],
  [24, ['float8e8m0', 8]], [25, ['uint2', 2]], [26, ['int2', 2]], [typeNumbers.string, ['string', 0]],
  ...Object.entries(layouts).map(([name, [, number, bits]]) => [number, [name, bits]] as const),
]) // prettier-ignore

/** The name of a type of `TensorProto.DataType`. */
export function nameOfType(number: number): string {
  return typesByNumber.get(number)?.[0] ?? `element type ${number}`
}

/** Bits of an element of a type of `TensorProto.DataType`; 0 for strings, and for unknown types. */
export function bitsOfType(number: number): number {
  return typesByNumber.get(number)?.[1] ?? 0
}
