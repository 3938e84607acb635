import { isUtf8 } from 'node:buffer'
import { invalidArgument } from '../errors.ts'
import { parseExact } from '../exact-json.ts'
import { messageOf } from '../message-of.ts'

/** An object of a request's JSON, of which only what is its own counts. */
export type Fields = Readonly<Record<string, unknown>>

/** @throws InferenceError `ERR_INVALID_ARG` for what is no JSON of an object. */
export function parseFields(bytes: Uint8Array, what: string): Fields {
  if (!isUtf8(bytes)) throw invalidArgument(what, 'JSON in UTF-8', 'bytes that are none')
  let value: unknown
  try {
    value = parseExact(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString())
  } catch (error) {
    throw invalidArgument(what, 'a JSON object', 'what cannot be parsed', { hint: messageOf((error as Error).message) })
  }
  return fieldsOf(what, value)
}

export function fieldsOf(what: string, value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalidArgument(what, 'a JSON object', value)
}

/** A property; `undefined` for one that is not there, or `null`, as some clients have it. */
export function fieldOf(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? (fields[name] ?? undefined) : undefined
}

export function listIn(fields: Fields, name: string, where: string, most: number): readonly unknown[] | undefined {
  const value = fieldOf(fields, name)
  if (value === undefined || (Array.isArray(value) && value.length <= most)) return value
  throw invalidArgument(where + name, `an array of ${most} at most`, Array.isArray(value) ? `one of ${value.length}` : value)
}

export function textIn(fields: Fields, name: string, where: string, most: number): string | undefined {
  const value = fieldOf(fields, name)
  if (value === undefined || (typeof value === 'string' && value.length <= most)) return value
  throw invalidArgument(where + name, `a string of ${most} characters at most`, value)
}

export function flagIn(fields: Fields, name: string, where: string): boolean | undefined {
  const value = fieldOf(fields, name)
  if (value === undefined || typeof value === 'boolean') return value
  throw invalidArgument(where + name, 'true or false', value)
}

export function countIn(fields: Fields, name: string, where: string): number | undefined {
  const value = fieldOf(fields, name)
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0)) return value as number | undefined
  throw invalidArgument(where + name, 'a whole number, 0 or more', value)
}

/** The `parameters` of an object; empty where it has none. */
export function parametersIn(fields: Fields, where: string): Fields {
  const value = fieldOf(fields, 'parameters')
  return value === undefined ? {} : fieldsOf(`${where}parameters`, value)
}

/** What a property has to have. @throws InferenceError `ERR_INVALID_ARG` for one that is not there. */
export function given<T>(value: T | undefined, what: string, expected: string): T {
  if (value === undefined) throw invalidArgument(what, expected, undefined)
  return value
}
