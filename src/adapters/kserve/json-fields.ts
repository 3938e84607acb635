import { Buffer } from 'node:buffer'
import { parse } from 'lossless-json'
import { jsonPieces } from '../../base/bounded-json.ts'
import type { Pieces } from '../../base/slices.ts'
import { type InferenceError, invalidArgument } from '../../errors.ts'
import type { ResolvedKserveOptions } from './kserve.ts'

/** An object of a request's JSON. Only own properties count. Those that are `null`, which some clients send, count as missing. */
export class Fields {
  readonly #values: Readonly<Record<string, unknown>>
  /** Before the names of properties in errors. */
  readonly #prefix: string

  /**
   * @param what the object is called in errors.
   * @throws InferenceError `ERR_INVALID_ARG`, as all methods do.
   */
  constructor(value: unknown, what: string, prefix = `${what}.`) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalidArgument(what, 'a JSON object', value)
    this.#values = value as Readonly<Record<string, unknown>>
    this.#prefix = prefix
  }

  get names(): readonly string[] {
    return Object.keys(this.#values)
  }

  get(name: string): unknown {
    return Object.hasOwn(this.#values, name) ? (this.#values[name] ?? undefined) : undefined
  }

  list(name: string, most: number): readonly unknown[] | undefined {
    const value = this.get(name)
    if (value === undefined || (Array.isArray(value) && value.length <= most)) return value
    throw this.wrong(
      name,
      `an array of ${most} at most`,
      Array.isArray(value) ? `one of ${value.length}` : value,
    )
  }

  text(name: string, most: number): string | undefined {
    const value = this.get(name)
    if (value === undefined || isText(value, most)) return value
    throw this.wrong(name, `a string of ${most} characters at most`, nonFinite.get(value) ?? value)
  }

  flag(name: string): boolean | undefined {
    const value = this.get(name)
    if (value === undefined || typeof value === 'boolean') return value
    throw this.wrong(name, 'true or false', value)
  }

  count(name: string): number | undefined {
    const value = this.get(name) as number | undefined
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) return value
    throw this.wrong(name, 'a whole number, 0 or more', value)
  }

  /** Empty where it has none. */
  get parameters(): Fields {
    return new Fields(this.get('parameters') ?? {}, `${this.#prefix}parameters`)
  }

  /** A property that must not be missing. */
  given<T>(name: string, value: T | undefined, expected: string): T {
    if (value === undefined) throw this.wrong(name, expected, undefined)
    return value
  }

  wrong(name: string, expected: string, received: unknown): InferenceError {
    return invalidArgument(this.#prefix + name, expected, received)
  }
}

/**
 * Parses the JSON of a request. @throws InferenceError `ERR_INVALID_ARG` if it is not a JSON object, or has
 * too many values.
 */
export function* fieldsPieces(
  bytes: Uint8Array,
  { maxJsonValues }: Pick<ResolvedKserveOptions, 'maxJsonValues'>,
): Pieces<Fields> {
  const what = 'The JSON of the request'
  const parse = bytes.length > mostSearched || mayBeOf64Bits(bytes) ? parseExact : parseWithWords
  const limits = { mostValues: maxJsonValues, mostValuesName: 'maxJsonValues', parse }
  return new Fields(yield* jsonPieces(bytes, what, limits), what, '')
}

/** Longer JSON is not searched, in bytes: that can take milliseconds. */
const mostSearched = 2 ** 15

/** Whether the JSON could have a tensor of integers of 64 bits. Escapes may hide the datatype. */
function mayBeOf64Bits({ buffer, byteOffset, byteLength }: Uint8Array): boolean {
  const text = Buffer.from(buffer, byteOffset, byteLength)
  return text.includes('INT64') || text.includes('\\u')
}

/** Whether it is a string of whole characters, as UTF-8 has them. */
export function isText(value: unknown, most = Infinity): value is string {
  return typeof value === 'string' && value.length <= most && value.isWellFormed()
}

/** Numbers that JSON cannot express. Python clients write them without quotes, and read both forms. */
const words = ['NaN', 'Infinity', '-Infinity'] as const
/** Before such a word that had no quotes. It is half of a surrogate pair, with which no text is accepted. */
const mark = '\ud800'
/** Such numbers, by what {@link parseExact} makes of them with quotes and without. */
export const nonFinite: ReadonlyMap<unknown, number> = new Map(
  words.flatMap((word) => [
    [word, Number(word)],
    [mark + word, Number(word)],
  ]),
)
const [quote, backslash] = [0x22, 0x5c]
/** Integers that may be beyond 2^53, and within 64 bits. */
const largeInteger = /(?<![.\d])\d{16,20}(?![.\deE])/
const wholeNumber = /^-?\d{16,20}$/

/**
 * Like `JSON.parse`, but it accepts `NaN`, `Infinity` and `-Infinity` without quotes, as marked strings: see {@link nonFinite}.
 *
 * @throws SyntaxError
 */
function parseWithWords(text: string): unknown {
  return JSON.parse(withQuotes(text))
}

/**
 * As {@link parseWithWords}, and exact for 64-bit integers: those beyond 2^53 become bigints.
 *
 * @throws SyntaxError
 */
export function parseExact(text: string): unknown {
  const json = withQuotes(text)
  if (!largeInteger.test(json)) return JSON.parse(json)
  return parse(json, undefined, { parseNumber, onDuplicateKey: ({ newValue }) => newValue }) // several times slower
}

function parseNumber(text: string): number | bigint {
  const value = Number(text)
  return !Number.isSafeInteger(value) && wholeNumber.test(text) ? BigInt(text) : value
}

/** Puts quotes around such words, outside of strings, and marks them. */
function withQuotes(text: string): string {
  if (!text.includes('NaN') && !text.includes('Infinity')) return text
  let quoted = ''
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) === quote) {
      while (++at < text.length && text.charCodeAt(at) !== quote) if (text.charCodeAt(at) === backslash) at++
      continue
    }
    const word = words.find((each) => text.startsWith(each, at))
    if (word === undefined) continue
    quoted += `${text.slice(from, at)}"${mark}${word}"`
    from = at + word.length
    at = from - 1
  }
  return quoted + text.slice(from)
}

/**
 * Numbers as elements of a JSON array. Bigints keep all digits, -0 its sign; numbers that JSON cannot express are quoted.
 */
export function numbersText(elements: ArrayLike<number | bigint> & { join(): string }): string {
  for (let index = 0; index < elements.length; index++)
    if (isSpecial(elements[index]!))
      return Array.from(elements, (element) =>
        !isSpecial(element) ? String(element) : element === 0 ? '-0.0' : `"${element}"`,
      ).join()
  return elements.join()
}

function isSpecial(element: number | bigint): boolean {
  return typeof element === 'number' && (!Number.isFinite(element) || Object.is(element, -0))
}
