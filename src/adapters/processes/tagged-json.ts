import { isAnyArrayBuffer } from 'node:util/types'
import { Tensor } from 'onnxruntime-common'
import { jsonPieces } from '../../base/bounded-json.ts'
import type { Pieces } from '../../base/slices.ts'
import { putValue, storageOf, type ElementType, kindOf, plainView } from '../../tensor/tensor.ts'
import { aligned, storedView } from './record-views.ts'

/**
 * JSON of what options, configurations, statistics and errors are made of: besides what JSON has, numbers that are not finite, bigints,
 * bytes, typed arrays, tensors and URLs, each as an object with the one property `$` and its kind.
 */
export function toText(value: unknown): string {
  return JSON.stringify(value, replace) ?? 'null'
}

/** The same with large typed arrays beside the text, in the order in which they are named there. */
export function toTextAndBytes(value: unknown): {
  readonly text: string
  readonly arrays: readonly Uint8Array[]
} {
  const arrays: Uint8Array[] = []
  let offset = 0
  const text = JSON.stringify(value, function (this: unknown, key: string, replaced: unknown) {
    const given = (this as Record<string, unknown>)[key]
    const kind = kindOf(given)
    if (kind === undefined && !isAnyArrayBuffer(given)) return replace.call(this, key, replaced)
    const view =
      kind === undefined
        ? new Uint8Array(given as ArrayBuffer)
        : plainView(storedView(given as ArrayBufferView, kind))
    if (view.byteLength <= smallBytes) return replace.call(this, key, replaced)
    const at = offset
    offset += aligned(view.byteLength)
    arrays.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength))
    return {
      $: ['bytes', kind === 'Float16Array' ? 'Uint16Array' : (kind ?? 'ArrayBuffer'), at, view.byteLength],
    }
  })
  return { text: text ?? 'null', arrays }
}

/** @throws SyntaxError for what is no JSON, and TypeError for a kind that is not known. */
export function fromText(text: string): unknown {
  return JSON.parse(text, (_key, value) => revive(value))
}

/** Longer typed arrays go beside the text of a call. */
const smallBytes = 1024
const mostValues = 2 ** 17
/** Objects and arrays that are looked at in one piece. */
const pieceValues = 512

/**
 * As {@link fromText} of text in UTF-8, in pieces and within limits.
 *
 * @param bytes those that {@link toTextAndBytes} has put beside it; what is read of them lies in the same memory.
 * @throws InferenceError `ERR_INVALID_ARG` as well.
 */
export function* bytesPieces(text: Uint8Array, bytes?: Uint8Array): Pieces<unknown> {
  const value = yield* jsonPieces(text, 'JSON', { mostValues })
  return yield* revived(value, bytes, { left: pieceValues })
}

/** What JSON.parse() does with a reviver. */
function* revived(value: unknown, bytes: Uint8Array | undefined, count: { left: number }): Pieces<unknown> {
  if (typeof value !== 'object' || value === null) return value
  const object = value as Record<string, unknown>
  for (const name of Object.keys(object)) {
    const member = object[name]
    if (typeof member === 'object' && member !== null)
      putValue(object, name, yield* revived(member, bytes, count))
  }
  if (--count.left === 0) {
    count.left = pieceValues
    yield
  }
  return revive(value, bytes)
}

const arrays = new Map(
  (
    [
      'float32',
      'float64',
      'int8',
      'uint8',
      'int16',
      'uint16',
      'int32',
      'uint32',
      'int64',
      'uint64',
    ] satisfies ElementType[]
  ).map((type) => [storageOf(type).name, storageOf(type)]),
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
    return {
      $: [
        'array',
        kind === 'Float16Array' ? 'Uint16Array' : kind,
        Buffer.from(buffer, byteOffset, byteLength).toString('base64'),
      ],
    }
  }
  // An object of the application's own that has the property: its kind is none of these.
  if (typeof given === 'object' && given !== null && Object.hasOwn(given, '$'))
    return { $: ['object', Object.entries(given)] }
  return value
}

function revive(value: unknown, bytes?: Uint8Array): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, '$')) return value
  const [kind, first, second, third] = (value as { $: unknown[] }).$
  if (kind === 'bytes') return bytesBeside(bytes, first as string, second as number, third as number)
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

function bytesBeside(bytes: Uint8Array | undefined, kind: string, at: number, byteLength: number): unknown {
  if (
    bytes === undefined ||
    ![at, byteLength].every((each) => Number.isSafeInteger(each) && each >= 0) ||
    at % 8 !== 0 ||
    at + byteLength > bytes.byteLength
  )
    throw new TypeError('bytes that are not there')
  const start = bytes.byteOffset + at
  if (kind === 'ArrayBuffer') return bytes.buffer.slice(start, start + byteLength)
  const Storage = arrays.get(kind)
  if (Storage === undefined || byteLength % Storage.BYTES_PER_ELEMENT !== 0)
    throw new TypeError('a value of no known kind')
  return new Storage(bytes.buffer as ArrayBuffer, start, byteLength / Storage.BYTES_PER_ELEMENT)
}

function bytesOf(base64: unknown): ArrayBuffer {
  const bytes = Buffer.from(base64 as string, 'base64')
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}
