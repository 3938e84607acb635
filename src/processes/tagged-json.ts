import { isAnyArrayBuffer } from 'node:util/types'
import { Tensor } from 'onnxruntime-common'
import { jsonPieces } from '../bounded-json.ts'
import type { Pieces } from '../slices.ts'
import { putValue, storageOf, type ElementType } from '../tensor.ts'
import { kindOf, plainView } from '../typed-array.ts'
import { storedView } from './record-views.ts'

/**
 * JSON of what options, configurations, statistics and errors are made of: besides what JSON has, numbers that are not finite, bigints,
 * bytes, typed arrays, tensors and URLs, each as an object with the one property `$` and its kind.
 */
export function toText(value: unknown): string {
  return JSON.stringify(value, replace) ?? 'null'
}

/** @throws SyntaxError for what is no JSON, and TypeError for a kind that is not known. */
export function fromText(text: string): unknown {
  return JSON.parse(text, revive)
}

const mostValues = 2 ** 17
/** Objects and arrays that are looked at in one piece. */
const pieceValues = 512

/**
 * As {@link fromText} of bytes, in pieces and within limits.
 *
 * @throws InferenceError `ERR_INVALID_ARG` as well.
 */
export function* bytesPieces(bytes: Uint8Array): Pieces<unknown> {
  const value = yield* jsonPieces(bytes, 'JSON', { mostValues })
  return yield* revived('', value, { left: pieceValues })
}

/** What JSON.parse() does with a reviver. */
function* revived(key: string, value: unknown, count: { left: number }): Pieces<unknown> {
  if (typeof value !== 'object' || value === null) return value
  const object = value as Record<string, unknown>
  for (const name of Object.keys(object)) {
    const member = object[name]
    if (typeof member === 'object' && member !== null) putValue(object, name, yield* revived(name, member, count))
  }
  if (--count.left === 0) {
    count.left = pieceValues
    yield
  }
  return revive(key, value)
}

const arrays = new Map(
  (['float32', 'float64', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64'] satisfies ElementType[]).map((type) => [storageOf(type).name, storageOf(type)]),
)

function replace(this: unknown, key: string, value: unknown): unknown {
  const given = (this as Record<string, unknown>)[key] // `value` is what toJSON has made of it
  if (typeof given === 'number') return Number.isFinite(given) ? given : { $: ['number', String(given)] }
  if (typeof given === 'bigint') return { $: ['bigint', String(given)] }
  if (given instanceof URL) return { $: ['url', given.href] }
  if (given instanceof Tensor) return { $: ['tensor', given.type, given.dims, given.data] }
  if (isAnyArrayBuffer(given)) return { $: ['buffer', Buffer.from(given).toString('base64')] }
  const kind = kindOf(given)
  if (kind !== undefined) {
    const { buffer, byteOffset, byteLength } = plainView(storedView(given as ArrayBufferView, kind))
    return { $: ['array', kind === 'Float16Array' ? 'Uint16Array' : kind, Buffer.from(buffer, byteOffset, byteLength).toString('base64')] }
  }
  // An object of the application's own that has the property: its kind is none of these.
  if (typeof given === 'object' && given !== null && Object.hasOwn(given, '$')) return { $: ['object', Object.entries(given)] }
  return value
}

function revive(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, '$')) return value
  const [kind, first, second, third] = (value as { $: unknown[] }).$
  if (kind === 'number') return Number(first)
  if (kind === 'bigint') return BigInt(first as string)
  if (kind === 'url') return new URL(first as string)
  if (kind === 'tensor') return new Tensor(first as 'float32', third as Float32Array, second as number[])
  if (kind === 'buffer') return bytesOf(first)
  if (kind === 'object') return Object.fromEntries(first as [string, unknown][])
  const Storage = kind === 'array' ? arrays.get(first as string) : undefined
  if (Storage === undefined) throw new TypeError('a value of no known kind')
  return new Storage(bytesOf(second))
}

function bytesOf(base64: unknown): ArrayBuffer {
  const bytes = Buffer.from(base64 as string, 'base64')
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}
