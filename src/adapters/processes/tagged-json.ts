import { isAnyArrayBuffer } from 'node:util/types'
import { Tensor } from 'onnxruntime-common'
import { jsonPieces, mostMembers } from '../../base/bounded-json.ts'
import { messageOf } from '../../base/message-of.ts'
import type { Pieces } from '../../base/slices.ts'
import {
  InferenceError,
  invalidArgument,
  type InferenceErrorCode,
  type InferenceErrorDetails,
} from '../../errors.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { putValue, kindOf, plainView, typedArrays } from '../../tensor/tensor.ts'
import { aligned, BadRecord, storedView } from './records.ts'

/**
 * JSON of options, configurations, statistics and errors. Beyond plain JSON it encodes non-finite numbers,
 * bigints, bytes, typed arrays, tensors and URLs, each as an object with the single property `$`, which has
 * the kind.
 */
export function toText(value: unknown): string {
  return JSON.stringify(value, replace) ?? 'null'
}

/**
 * Like {@link toText}, in pieces: a list may have tens of thousands of texts.
 *
 * @param leafText writes what is no list, no plain object and no text; `undefined` for what JSON leaves out.
 */
export function* writtenPieces(
  value: unknown,
  leafText: (value: unknown) => string | undefined = (leaf) => JSON.stringify(leaf, replace),
  count = { left: pieceValues },
): Pieces<string | undefined> {
  if (typeof value === 'string') return JSON.stringify(value)
  const isList = Array.isArray(value)
  if (!isList && !(isPlainObject(value) && !Object.hasOwn(value, '$') && value['toJSON'] === undefined))
    return leafText(value)
  let text = ''
  if (isList && value.length > pieceValues && value.every((member) => typeof member === 'string')) {
    for (let at = 0; at < value.length; at += pieceValues) {
      text += `${at === 0 ? '' : ','}${JSON.stringify(value.slice(at, at + pieceValues)).slice(1, -1)}`
      yield
    }
    return `[${text}]`
  }
  for (const name of isList ? value.keys() : Object.keys(value)) {
    if (--count.left <= 0) {
      count.left = pieceValues
      yield
    }
    const member = (value as Record<string | number, unknown>)[name]
    const written =
      typeof member === 'string' ? JSON.stringify(member) : yield* writtenPieces(member, leafText, count)
    if (written === undefined && !isList) continue
    if (text !== '') text += ','
    text += isList ? (written ?? 'null') : `${JSON.stringify(name)}:${written}`
  }
  return isList ? `[${text}]` : `{${text}}`
}

/**
 * Like {@link toText}, with large typed arrays beside the text, in the order in which the text refers to
 * them, and with the number of names and of other values in it.
 */
export function toTextAndBytes(value: unknown): {
  readonly text: string
  readonly arrays: readonly Uint8Array[]
  readonly names: number
  readonly values: number
} {
  const arrays: Uint8Array[] = []
  let offset = 0
  let [names, values] = [0, 0]
  const text = JSON.stringify(value, function (this: unknown, key: string, replaced: unknown) {
    values++
    if (!Array.isArray(this)) names++
    const stored = storedBytes((this as Record<string, unknown>)[key])
    if (stored === null || stored.bytes.byteLength <= smallBytes) return replace.call(this, key, replaced)
    const { kind, bytes } = stored
    const at = offset
    offset += aligned(bytes.byteLength)
    arrays.push(bytes)
    return { $: ['bytes', kind, at, bytes.byteLength] }
  })
  return { text: text ?? 'null', arrays, names, values }
}

/** @throws SyntaxError if it is no JSON, and TypeError for an unknown kind. */
export function fromText(text: string): unknown {
  return JSON.parse(text, (_key, value) => revive(value))
}

/** Larger typed arrays go beside the text of a call. */
const smallBytes = 1024
/** Most values and names of a text that is read in pieces. */
export const mostValues = 2 ** 17
/**
 * Most names of all objects of such a text together. The engine reads a configuration at once, and each name takes
 * microseconds of that; lists may be longer.
 */
export const mostNames = 4096
/** Values processed in one piece. */
const pieceValues = 512

/**
 * Like {@link fromText} for UTF-8 text, in pieces and within limits.
 *
 * @param bytes those of {@link toTextAndBytes}. Results are views on them.
 * @throws BadRecord
 */
export function* textPieces(text: Uint8Array, bytes?: Uint8Array): Pieces<unknown> {
  try {
    const value = yield* jsonPieces(text, 'JSON', { mostValues })
    return yield* revived(value, bytes, { left: pieceValues, names: 0 })
  } catch (error) {
    throw new BadRecord(error instanceof InferenceError ? error.message : 'text that is not JSON')
  }
}

/** @throws BadRecord */
export function readText(text: string): unknown {
  try {
    return fromText(text)
  } catch {
    throw new BadRecord('text that is not JSON')
  }
}

/** Does what JSON.parse() does with a reviver. */
function* revived(
  value: unknown,
  bytes: Uint8Array | undefined,
  count: { left: number; names: number },
): Pieces<unknown> {
  if (typeof value !== 'object' || value === null) return value
  const isList = Array.isArray(value)
  const names = isList ? value : Object.keys(value)
  if (!isList) countNames(count, names.length)
  for (let at = 0; at < names.length; at++) {
    if (--count.left <= 0) {
      count.left = pieceValues
      yield
    }
    const name = isList ? at : (names[at] as string)
    const member = (value as Record<string | number, unknown>)[name]
    if (typeof member !== 'object' || member === null) continue
    const made = yield* revived(member, bytes, count)
    if (isList) value[at] = made
    else putValue(value as Record<string, unknown>, name as string, made)
  }
  const made = revive(value, bytes)
  if (made !== value && isPlainObject(made)) countNames(count, Object.keys(made).length)
  return made
}

/** @throws InferenceError `ERR_INVALID_ARG` */
function countNames(count: { names: number }, names: number): void {
  count.names += names
  if (count.names > mostNames)
    throw invalidArgument('JSON', `${mostNames} names in all objects at most`, 'more')
}

function replace(this: unknown, key: string, value: unknown): unknown {
  const given = (this as Record<string, unknown>)[key] // `value` is the result of toJSON
  if (typeof given === 'number') return Number.isFinite(given) ? given : { $: ['number', String(given)] }
  if (typeof given === 'bigint') return { $: ['bigint', String(given)] }
  if (given instanceof URL) return { $: ['url', given.href] }
  if (given instanceof Tensor) return { $: ['tensor', given.type, given.dims, given.data] }
  const stored = storedBytes(given)
  if (stored !== null) {
    const { buffer, byteOffset, byteLength } = stored.bytes
    const base64 = Buffer.from(buffer, byteOffset, byteLength).toString('base64')
    return { $: stored.kind === 'ArrayBuffer' ? ['buffer', base64] : ['array', stored.kind, base64] }
  }
  // An application's own object with that property: not one of the kinds.
  if (typeof given === 'object' && given !== null && Object.hasOwn(given, '$'))
    return { $: ['object', Object.entries(given)] }
  return value
}

/** The bytes of a typed array or a buffer, and the name of its kind; `null` for anything else. */
function storedBytes(given: unknown): { readonly kind: string; readonly bytes: Uint8Array } | null {
  if (isAnyArrayBuffer(given)) return { kind: 'ArrayBuffer', bytes: new Uint8Array(given) }
  const kind = kindOf(given)
  if (kind === undefined) return null
  const { buffer, byteOffset, byteLength } = plainView(storedView(given as ArrayBufferView, kind))
  return {
    kind: kind === 'Float16Array' ? 'Uint16Array' : kind,
    bytes: new Uint8Array(buffer, byteOffset, byteLength),
  }
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
  if (kind === 'object') {
    const entries = first as [string, unknown][]
    if (entries.length > mostMembers) throw new TypeError('an object with too many names')
    return Object.fromEntries(entries)
  }
  const Storage = kind === 'array' ? typedArrays.get(first as string) : undefined
  if (Storage === undefined) throw new TypeError('a value of unknown kind')
  return new Storage(bytesOf(second))
}

function bytesBeside(bytes: Uint8Array | undefined, kind: string, at: number, byteLength: number): unknown {
  if (
    bytes === undefined ||
    ![at, byteLength].every((each) => Number.isSafeInteger(each) && each >= 0) ||
    at % 8 !== 0 ||
    at + byteLength > bytes.byteLength
  )
    throw new TypeError('missing bytes')
  const start = bytes.byteOffset + at
  if (kind === 'ArrayBuffer') return bytes.buffer.slice(start, start + byteLength)
  const Storage = typedArrays.get(kind)
  if (Storage === undefined || byteLength % Storage.BYTES_PER_ELEMENT !== 0)
    throw new TypeError('a value of unknown kind')
  return new Storage(bytes.buffer as ArrayBuffer, start, byteLength / Storage.BYTES_PER_ELEMENT)
}

function bytesOf(base64: unknown): ArrayBuffer {
  const bytes = Buffer.from(base64 as string, 'base64')
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}

/** The fields of an error that are sent, by their names in {@link InferenceErrorDetails}, and as they are called in the error. */
const fields: Readonly<Record<Exclude<keyof InferenceErrorDetails, 'cause'>, keyof InferenceError>> = {
  model: 'model',
  name: 'argument',
  expected: 'expected',
  received: 'received',
  retryAfterMs: 'retryAfterMs',
  estimatedMs: 'estimatedMs',
  requestId: 'requestId',
  step: 'step',
}
const mostCauses = 8

/** Writes an error as text. */
export function errorText(error: unknown): string {
  return toText(plain(error, 0))
}

/**
 * The error in another process: an `InferenceError` with all its fields; for any other error an `Error` with
 * its name and code.
 */
export function errorFrom(value: unknown): Error {
  if (!isPlainObject(value)) return new Error(String(value))
  const { code, message, name, cause } = value
  const causes = cause === undefined ? {} : { cause: errorFrom(cause) }
  const text = typeof message === 'string' ? message : ''
  if (name !== 'InferenceError')
    return Object.assign(
      new Error(text, causes),
      typeof name === 'string' ? { name } : {},
      code === undefined ? {} : { code },
    )
  const details: Record<string, unknown> = { ...causes }
  for (const [detail, field] of Object.entries(fields))
    if (value[field] !== undefined) details[detail] = value[field]
  return new InferenceError(code as InferenceErrorCode, text, details as InferenceErrorDetails)
}

function plain(error: unknown, depth: number): unknown {
  if (!(error instanceof Error)) return { name: 'Error', message: messageOf(error) }
  const of = error as Error & Record<string, unknown>
  const told: Record<string, unknown> = {
    name: error.name,
    message: error instanceof InferenceError ? error.message : messageOf(error),
  }
  if (typeof of['code'] === 'string') told['code'] = of['code']
  if (error instanceof InferenceError) for (const field of Object.values(fields)) told[field] = of[field]
  if (error.cause !== undefined && depth < mostCauses) told['cause'] = plain(error.cause, depth + 1)
  return told
}
