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
  if (!isUtf8(bytes)) throw invalidArgument(what, 'JSON in UTF-8', 'other bytes')
  const large = isHarmless(bytes, end, limits) ? none : yield* largeValues(bytes, end, what, limits)
  const json = new JsonText(bytes, what, large, limits.parse ?? JSON.parse)
  if (large.get(start) === end) return yield* json.large(start, end)
  if (end - start > pieceBytes) throw json.unreadable() // not a single value, or one without an end
  return json.parse(start, end, '', '')
}

const none: ReadonlyMap<number, number> = new Map()
/** In fewer bytes no object has too many names, and no value is parsed in pieces. */
const harmlessBytes = 4 * mostMembers

/** Whether JSON is so short, and has so few brackets, that it exceeds no limit whatever it says. */
function isHarmless(bytes: Uint8Array, end: number, { mostValues }: JsonLimits): boolean {
  if (end >= Math.min(harmlessBytes, mostValues)) return false
  let brackets = 0
  for (const bracket of [arrayBegin, objectBegin])
    for (let at = bytes.indexOf(bracket); at !== -1; at = bytes.indexOf(bracket, at + 1))
      if (++brackets > mostDepth) return false
  return true
}

/**
 * Scans JSON up to `end`: checks its limits, and finds the arrays, objects and strings that are parsed in pieces. Invalid
 * JSON is left to the parser.
 *
 * @returns their beginnings, each with its end.
 * @throws InferenceError `ERR_INVALID_ARG` if a limit is exceeded.
 */
function* largeValues(
  bytes: Uint8Array,
  end: number,
  what: string,
  { mostValues, mostValuesName }: JsonLimits,
): Pieces<Map<number, number>> {
  const large = new Map<number, number>()
  const begins = new Int32Array(mostDepth)
  /** Members of the objects that are open, by depth. */
  const members = new Int32Array(mostDepth + 1)
  let [depth, values, stringBegin] = [0, 0, -1]
  for (let at = 0; at < end;) {
    if (at > 0) yield
    for (const to = Math.min(end, at + measuredBytes); at < to; at++) {
      const byte = bytes[at]!
      if (stringBegin !== -1) {
        if (byte === backslash) at++
        else if (byte === quote) {
          if (at + 1 - stringBegin > pieceBytes) large.set(stringBegin, at + 1)
          stringBegin = -1
        }
      } else if (byte === quote) stringBegin = at
      else if (byte === comma) values++
      else if (byte === colon) {
        values++
        if (++members[depth]! > mostMembers)
          throw invalidArgument(what, `objects with ${mostMembers} names at most`, 'one with more')
      } else if (byte === arrayBegin || byte === objectBegin) {
        values++
        if (depth === mostDepth)
          throw invalidArgument(what, `arrays and objects within ${mostDepth} others at most`, 'deeper ones')
        begins[depth++] = at
        members[depth] = 0
      } else if ((byte === arrayEnd || byte === objectEnd) && depth > 0) {
        const begin = begins[--depth]!
        const isPair = bytes[begin] === byte - 2 // in ASCII, closing brackets follow their opening one by two
        if (isPair && at + 1 - begin > pieceBytes) large.set(begin, at + 1)
      }
    }
    if (values >= mostValues) {
      const limit = mostValuesName === undefined ? '' : ` (${mostValuesName})`
      throw invalidArgument(what, `${mostValues} values at most${limit}`, 'more')
    }
  }
  return large
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
    const alone = this.parse(from, to, isArray ? '[' : '{', isArray ? 'null]' : 'null}')
    return isArray ? null : Object.keys(alone as object)[0]!
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}
