import { isProxy } from 'node:util/types'
import { InferenceError, invalidArgument, unreadable, type InferenceErrorCode } from '../errors.ts'
import { nearestName } from '../base/nearest-name.ts'

/**
 * Whether a value can be an options object: made by a literal, `JSON.parse`, `Object.create(null)` or the like, in any
 * realm. Not an array, a `Map` or an instance of another class, whose options would silently be ignored.
 */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value) as object | null
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/** A copy that inherits nothing, so that `Object.prototype` cannot add options. Reads each property once. */
export function ownProperties<T extends object>(object: T): T {
  return { __proto__: null, ...object } as T
}

/** The object without properties that are `undefined`, so that defaults apply to them. */
export function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as never
}

/**
 * Reads the options of a call into a copy that inherits nothing.
 *
 * @param name of the argument, for errors.
 * @param details `example`: what is expected instead of a value that is no object.
 * @throws InferenceError `ERR_INVALID_ARG` for a value that is not a plain object, and for a getter that throws.
 */
export function readPlain(
  name: string,
  value: unknown,
  details: { model?: string; example?: string } = {},
): Record<string, unknown> {
  const { example = 'a plain object', ...rest } = details
  try {
    if (isPlainObject(value)) return ownProperties(value)
  } catch (error) {
    throw typed(name, error, rest)
  }
  throw invalidArgument(name, example, value, rest)
}

/**
 * As {@link readPlain}, for an object with known properties.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, also for an unknown property.
 */
export function readOptions<Name extends string>(
  name: string,
  value: unknown,
  known: readonly Name[],
  details: { model?: string; example?: string } = {},
): Partial<Record<Name, unknown>> {
  const options = readPlain(name, value, details)
  for (const given in options) {
    if (!known.includes(given as Name)) throw unknownOption(`${name}.${given}`, given, known, details)
  }
  return options as Partial<Record<Name, unknown>>
}

/**
 * The error for an option that does not exist: the name that was probably meant, then all there are.
 *
 * @param path of the option, for errors.
 * @param details `elsewhere`: where an option of that name belongs.
 */
export function unknownOption(
  path: string,
  given: string,
  known: readonly string[],
  {
    elsewhere = null,
    ...details
  }: { model?: string; code?: InferenceErrorCode; hint?: string; elsewhere?: string | null } = {},
): InferenceError {
  const meant = elsewhere ?? nearestName(given, known)
  return invalidArgument(path, `one of ${known.join(', ')}`, given, { ...details, meant })
}

/**
 * Returns an `InferenceError` unchanged. Any other error came from the caller's code while `name` was read, and is
 * wrapped.
 */
export function typed(name: string, error: unknown, details: { model?: string } = {}): InferenceError {
  return error instanceof InferenceError ? error : unreadable(name, error, details)
}

const abortedOf = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')!.get!

/**
 * Whether a value is an `AbortSignal` that accepts listeners. A proxy of one does not, nor does an object that only
 * inherits from it.
 */
export function isAbortSignal(value: unknown): value is AbortSignal {
  if (isProxy(value) || !(value instanceof AbortSignal)) return false
  try {
    abortedOf.call(value)
    return true
  } catch {
    return false
  }
}

/** Whether a value is a duration in milliseconds that is not 0, and fits a timer. */
export function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value < 2 ** 31
}

/** The valid durations, in words. */
export const durationShown = 'milliseconds, more than 0 and less than 2^31'
