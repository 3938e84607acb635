import { configError, type ConfigSource } from './config-source.ts'

/** A piece of protobuf text format; `value` is what was written, quotes and all. */
export interface Token {
  readonly kind: 'identifier' | 'number' | 'string' | 'mark' | 'end'
  readonly value: string
  readonly offset: number
}

// No group is repeated without an end: V8 keeps a stack of its turns, which a large file would overflow.
const blank = /\s+|#[^\n]*/y
const identifier = /[A-Za-z_]\w*/y
// A number runs on to whatever could belong to it, so that '08' and '1x' are seen whole before they are refused.
const numberLike = /(?:\d|\.\d)[\w.]*(?:(?<=[eE])[+-][\w.]*){0,4}/y
const integer = /^(?:0[xX][\dA-Fa-f]+|0[0-7]*|[1-9]\d*)$/
const float = /^(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+(?:[eE][+-]?\d+[fF]?|[fF]))$/
/** Longer ones are no numbers of a configuration, and take long to be read as such. */
const longestNumber = 1000
const marks = '{}<>[]:,;-'

/** Reads tokens one by one, looking one ahead. */
export class TextLexer {
  readonly source: ConfigSource
  #offset = 0
  #ahead: Token

  /** @throws InferenceError `ERR_MODEL_CONFIG`, as every method, for what is no token. */
  constructor(source: ConfigSource) {
    this.source = source
    this.#ahead = this.#read()
  }

  /** The token that `take` gives next. */
  get next(): Token {
    return this.#ahead
  }

  take(): Token {
    const token = this.#ahead
    if (token.kind !== 'end') this.#ahead = this.#read()
    return token
  }

  /** Takes the next token if it is this mark. */
  accept(mark: string): boolean {
    const found = this.#ahead.kind === 'mark' && this.#ahead.value === mark
    if (found) this.take()
    return found
  }

  /** Refuses the next token. */
  fail(expected: string): never {
    const { kind, value, offset } = this.#ahead
    throw configError(
      this.source,
      offset,
      'config.pbtxt',
      expected,
      kind === 'end' ? 'the end of the file' : value,
    )
  }

  #read(): Token {
    while (this.#match(blank) !== undefined);
    const offset = this.#offset
    const { text } = this.source
    if (offset === text.length) return { kind: 'end', value: '', offset }
    const name = this.#match(identifier)
    if (name !== undefined) return { kind: 'identifier', value: name, offset }
    const number = this.#match(numberLike)
    if (number !== undefined) {
      if (number.length <= longestNumber && (integer.test(number) || float.test(number)))
        return { kind: 'number', value: number, offset }
      throw configError(this.source, offset, 'config.pbtxt', 'a number', number)
    }
    if (marks.includes(text[offset]!)) return { kind: 'mark', value: text[this.#offset++]!, offset }
    const quoted = this.#quoted()
    if (quoted !== undefined) return { kind: 'string', value: quoted, offset }
    const rest = text.slice(offset).split('\n', 1)[0]!
    const expected = /^["']/.test(rest) ? 'a string that ends on its line' : 'protobuf text format'
    throw configError(this.source, offset, 'config.pbtxt', expected, rest.trimEnd())
  }

  /** A string literal that ends on its line. */
  #quoted(): string | undefined {
    const { text } = this.source
    const start = this.#offset
    const quote = text[start]
    if (quote !== '"' && quote !== "'") return undefined
    for (let at = start + 1; at < text.length; at++) {
      const character = text[at]
      if (character === quote) {
        this.#offset = at + 1
        return text.slice(start, at + 1)
      }
      if (character === '\\') at++
      if (text[at] === '\n') break
    }
    return undefined
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset
    const found = pattern.exec(this.source.text)?.[0]
    this.#offset += found?.length ?? 0
    return found
  }
}
