import { invalidArgument } from '../../errors.ts'
import type { Pieces } from '../../base/slices.ts'
import { elementCount, storageOf, type ElementType, type TensorData } from '../../tensor/tensor.ts'
import { datatypeOf, isBinaryOnly } from './datatypes.ts'

/** Arrays within arrays, of which a tensor's data may be made up. */
const deepest = 32
/** Elements that are read in one piece. */
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
/** What floats may be that JSON has no numbers for. */
const nonFinite: ReadonlySet<unknown> = new Set(['NaN', 'Infinity', '-Infinity'])

/**
 * The elements of a tensor whose data is JSON: flat, or nested as it may be. Every one is checked: none becomes another number.
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
  const wrong = (index: number) => invalidArgument(`${what}.data[${index}]`, expected, items[index])
  if (type === 'string') {
    const at = items.findIndex((item) => typeof item !== 'string')
    if (at !== -1) throw wrong(at)
    return items as string[]
  }
  const isRight = checkOf(type)
  const elements = new (storageOf(type))(count) as Float32Array
  const isBig = elements instanceof BigInt64Array || elements instanceof BigUint64Array
  for (let index = 0; index < count; index++) {
    const item = items[index]
    if (!isRight(item)) throw wrong(index)
    elements[index] = (isBig ? BigInt(item as number) : Number(item)) as number
    if (index % pieceElements === pieceElements - 1) yield
  }
  return elements
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
  // What is no bigint and beyond 2^53 was written with an exponent or a fraction, and may have been another number.
  if (big !== undefined)
    return (item) =>
      (typeof item === 'bigint' || Number.isSafeInteger(item)) &&
      (item as bigint) >= big[0] &&
      (item as bigint) <= big[1]
  if (type === 'bool') return (item) => typeof item === 'boolean'
  // 1e999 is infinite as it is parsed, 1e39 as a float32: neither was written as such.
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
      ? 'a string'
      : `a number of ${datatypeOf(type)}, 'NaN', 'Infinity' or '-Infinity'`
}
