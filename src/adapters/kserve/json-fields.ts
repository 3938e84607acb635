import { jsonPieces } from '../../base/bounded-json.ts'
import { invalidArgument } from '../../errors.ts'
import { parseExact } from './exact-json.ts'
import type { Pieces } from '../../base/slices.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'

/** An object of a request's JSON, of which only what is its own counts. */
export type Fields = Readonly<Record<string, unknown>>

/** The JSON of a request. @throws InferenceError `ERR_INVALID_ARG` for what is no JSON of an object, or has too much in it. */
export function* fieldsPieces(
  bytes: Uint8Array,
  { maxJsonValues }: Pick<ResolvedKserveOptions, 'maxJsonValues'>,
): Pieces<Fields> {
  const what = 'The JSON of the request'
  return fieldsOf(
    what,
    yield* jsonPieces(bytes, what, {
      mostValues: maxJsonValues,
      mostValuesName: 'maxJsonValues',
      parse: parseExact,
    }),
  )
}

export function fieldsOf(what: string, value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalidArgument(what, 'a JSON object', value)
}

/** A property; `undefined` for one that is not there, or `null`, as some clients have it. */
export function fieldOf(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? (fields[name] ?? undefined) : undefined
}

export function listIn(
  fields: Fields,
  name: string,
  where: string,
  most: number,
): readonly unknown[] | undefined {
  const value = fieldOf(fields, name)
  if (value === undefined || (Array.isArray(value) && value.length <= most)) return value
  throw invalidArgument(
    where + name,
    `an array of ${most} at most`,
    Array.isArray(value) ? `one of ${value.length}` : value,
  )
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
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0))
    return value as number | undefined
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
