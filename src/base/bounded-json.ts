import { Buffer, isUtf8 } from 'node:buffer'
import { InferenceError, invalidArgument } from '../errors.ts'
import { messageOf } from './message-of.ts'
import type { Pieces } from './slices.ts'
import { putValue } from '../tensor/tensor.ts'

/** Limits of untrusted JSON. */
interface JsonLimits {
  /** Values of all kinds, and names. */
  readonly mostValues: number
  /** The name of this limit in errors. */
  readonly mostValuesName?: string
  /** Parses one piece. Default: `JSON.parse`. */
  readonly parse?: (text: string) => unknown
}

/** Deepest nesting of arrays and objects: more than the dimensions of a tensor. */
const mostDepth = 64
/** Most members of an object. With hundreds of thousands of names, adding and listing them takes seconds. */
export const mostMembers = 4096
/** Longer JSON is parsed in pieces. The worst JSON of this length takes a few milliseconds. */
const pieceBytes = 2 ** 15
/** No name and value parsed at once are longer than this. More must be spaces, or one number. */
const mostBetween = 4 * pieceBytes
/** Bytes measured in one piece. */
const measuredBytes = 2 ** 16

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [arrayBegin, arrayEnd, objectBegin, objectEnd] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Parses bytes as `JSON.parse` does, in pieces. Depth, number of values and members of each object (4096) are
 * checked before anything is parsed, as a few bytes of JSON take many times their size in memory. Names of more
 * than 32 768 bytes are refused, and so are 128 KiB of spaces in one place, which would only take time.
 *
 * @param what what is parsed, for errors.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function* jsonPieces(bytes: Uint8Array, what: string, limits: JsonLimits): Pieces<unknown> {
  let [start, end] = [0, bytes.length]
  while (start < mostBetween && isSpace(bytes[start])) start++
  while (end > start && bytes.length - end < mostBetween && isSpace(bytes[end - 1])) end--
  if (Math.max(start, bytes.length - end) === mostBetween)
    throw invalidArgument(what, `fewer than ${mostBetween} bytes of spaces before and after the JSON`, 'more')
  if (!isUtf8(bytes)) throw invalidArgument(what, 'JSON in UTF-8', 'bytes that are none')
  const measure = new JsonMeasure(bytes, what, limits)
  for (let at = 0; at < end; at += measuredBytes) {
    if (at > 0) yield
    measure.advance(Math.min(end, at + measuredBytes))
  }
  const json = new JsonText(bytes, what, measure.large, limits.parse ?? JSON.parse)
  if (measure.large.get(start) === end) return yield* json.large(start, end)
  if (end - start > pieceBytes) throw json.unreadable() // not a single value, or one without an end
  return json.parse(start, end, '', '')
}

/** Scans JSON once: counts its values, and finds where large values end. */
class JsonMeasure {
  /** Beginnings and ends of arrays, objects and strings that are parsed in pieces. */
  readonly large = new Map<number, number>()
  readonly #bytes: Uint8Array
  readonly #what: string
  readonly #limits: JsonLimits
  readonly #begins = new Int32Array(mostDepth)
  /** Members of the objects that are open, by depth. */
  readonly #members = new Int32Array(mostDepth + 1)
  #at = 0
  #depth = 0
  #values = 0
  #stringBegin = -1

  constructor(bytes: Uint8Array, what: string, limits: JsonLimits) {
    this.#bytes = bytes
    this.#what = what
    this.#limits = limits
  }

  /** @throws InferenceError `ERR_INVALID_ARG` if a limit is exceeded. Invalid JSON is left to the parser. */
  advance(to: number): void {
    const bytes = this.#bytes
    let at = this.#at
    let stringBegin = this.#stringBegin
    for (; at < to; at++) {
      const byte = bytes[at]!
      if (stringBegin !== -1) {
        if (byte === backslash) at++
        else if (byte === quote) {
          this.#note(stringBegin, at + 1)
          stringBegin = -1
        }
      } else if (byte === quote) stringBegin = at
      else if (byte === comma) this.#values++
      else if (byte === colon) {
        this.#values++
        if (++this.#members[this.#depth]! > mostMembers)
          throw invalidArgument(this.#what, `objects with ${mostMembers} names at most`, 'one with more')
      } else if (byte === arrayBegin || byte === objectBegin) {
        this.#values++
        if (this.#depth === mostDepth)
          throw invalidArgument(
            this.#what,
            `arrays and objects within ${mostDepth} others at most`,
            'deeper ones',
          )
        this.#begins[this.#depth++] = at
        this.#members[this.#depth] = 0
      } else if ((byte === arrayEnd || byte === objectEnd) && this.#depth > 0) {
        const begin = this.#begins[--this.#depth]!
        if (bytes[begin] === byte - 2) this.#note(begin, at + 1) // both closing brackets follow their opening one by two in ASCII
      }
    }
    const { mostValues, mostValuesName } = this.#limits
    if (this.#values >= mostValues)
      throw invalidArgument(
        this.#what,
        `${mostValues} values at most${mostValuesName === undefined ? '' : ` (${mostValuesName})`}`,
        'more',
      )
    this.#at = at
    this.#stringBegin = stringBegin
  }

  #note(begin: number, end: number): void {
    if (end - begin > pieceBytes) this.large.set(begin, end)
  }
}

/** JSON whose large values have been found. */
class JsonText {
  readonly #bytes: Buffer
  readonly #what: string
  readonly #large: ReadonlyMap<number, number>
  readonly #parse: (text: string) => unknown

  constructor(
    bytes: Uint8Array,
    what: string,
    large: ReadonlyMap<number, number>,
    parse: (text: string) => unknown,
  ) {
    this.#parse = parse
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#what = what
    this.#large = large
  }

  /** Parses a range at once, with text put before and behind it. */
  parse(start: number, end: number, before: string, behind: string): unknown {
    try {
      return this.#parse(before + this.#bytes.toString('utf8', start, end) + behind)
    } catch (error) {
      throw this.unreadable(messageOf((error as Error).message))
    }
  }

  unreadable(hint?: string): InferenceError {
    const [name, expected, received] = [this.#what, 'a JSON object', 'text that cannot be parsed']
    const message = `${name}: expected ${expected}, received ${received}${hint === undefined ? '' : `. ${hint}`}`
    return new InferenceError('ERR_INVALID_ARG', message, { name, expected, received })
  }

  /** Parses one of the large values. */
  large(start: number, end: number): Pieces<unknown> {
    const first = this.#bytes[start]
    return first === quote
      ? this.#string(start + 1, end - 1)
      : this.#container(start, end, first === arrayBegin)
  }

  *#string(start: number, end: number): Pieces<string> {
    let text = ''
    for (let at = start; at < end;) {
      const from = at
      // Do not split an escape or a character.
      while (at < end && at - from < pieceBytes)
        at += this.#bytes[at] !== backslash ? 1 : this.#bytes[at + 1] === 0x75 ? 6 : 2
      while (at < end && (this.#bytes[at]! & 0xc0) === 0x80) at++
      text += this.parse(from, Math.min(at, end), '"', '"') as string
      yield
    }
    return text
  }

  /** Parses small members many at a time, and each large one by itself. */
  *#container(start: number, end: number, isArray: boolean): Pieces<unknown> {
    const bytes = this.#bytes
    const items: unknown[] = []
    const members: Record<string, unknown> = {}
    const last = end - 1
    let from = start + 1 // beginning of what is not parsed yet
    let lastComma = -1 // the last comma between members in that range
    let isDone = false
    const take = (to: number) => {
      const part = isArray ? this.parse(from, to, '[', ']') : this.parse(from, to, '{', '}')
      const names = isArray ? null : Object.keys(part as object)
      // Commas with nothing between them are an error.
      if ((names ?? (part as unknown[])).length === 0 && !(from === start + 1 && to === last))
        throw this.unreadable()
      if (names === null) for (const item of part as unknown[]) items.push(item)
      else for (const name of names) putValue(members, name, (part as Record<string, unknown>)[name])
      from = to + 1
    }
    let depth = 0
    for (let at = from; at < last; at++) {
      const byte = bytes[at]
      if (at - from > mostBetween) throw this.unreadable(`More than ${mostBetween} bytes of spaces or digits`)
      const largeEnd =
        byte === quote || byte === arrayBegin || byte === objectBegin ? this.#large.get(at) : undefined
      if (largeEnd !== undefined && depth === 0) {
        if (lastComma !== -1) take(lastComma)
        lastComma = -1
        const name = this.#nameOf(from, at, isArray)
        const value = yield* this.large(at, largeEnd)
        if (name === null) items.push(value)
        else putValue(members, name, value)
        at = largeEnd
        while (at < last && at - largeEnd < mostBetween && isSpace(bytes[at])) at++
        isDone = at === last
        if (!isDone && bytes[at] !== comma) throw this.unreadable()
        from = at + 1
      } else if (byte === quote) {
        while (++at < last && bytes[at] !== quote) if (bytes[at] === backslash) at++
      } else if (byte === arrayBegin || byte === objectBegin) depth++
      else if (byte === arrayEnd || byte === objectEnd) depth--
      else if (byte === comma && depth === 0) {
        lastComma = at
        if (at - from < pieceBytes) continue
        take(at)
        lastComma = -1
        yield
      }
    }
    if (!isDone) take(last)
    return isArray ? items : members
  }

  /** The name before a member of an object; `null` in an array. */
  #nameOf(from: number, to: number, isArray: boolean): string | null {
    const alone = this.parse(from, to, isArray ? '[' : '{', isArray ? 'null]' : 'null}') as
      | Record<string, unknown>
      | unknown[]
    if (isArray) return null
    return Object.keys(alone)[0]!
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}
