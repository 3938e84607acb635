import { invalidConfig, type InferenceError } from '../../errors.ts'

/** A value as written. The reader checks whether its type suits the field. */
export type TextValue = { readonly offset: number } & (
  | { readonly kind: 'string' | 'identifier'; readonly value: string }
  /** `bigint` if it was written as an integer. */
  | { readonly kind: 'number'; readonly value: bigint | number }
  | { readonly kind: 'message'; readonly value: readonly TextField[] }
)

/** One `name: value`, or `name: [values]`. A repeated field may also be written as several of these. */
export interface TextField {
  readonly name: string
  readonly offset: number
  /** Whether the values were in brackets. */
  readonly list: boolean
  readonly values: readonly TextValue[]
}

/** Deepest nesting. Deeper files would overflow the stack. */
const deepest = 100

/**
 * Parses protobuf text format without a schema: fields, messages in `{}` or `<>`, lists, strings with escapes (adjacent
 * ones are joined), numbers, enumerators, comments. Extensions and `Any` (`[name]`) are refused: model configurations
 * have none.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with line and column.
 */
export function parseTextFormat(source: ConfigSource): readonly TextField[] {
  return fields(new TextLexer(source), null, 0)
}

function fields(lexer: TextLexer, end: string | null, depth: number): TextField[] {
  const found: TextField[] = []
  for (;;) {
    const { kind, value } = lexer.next
    if (end === null ? kind === 'end' : kind === 'mark' && value === end) {
      lexer.take()
      return found
    }
    if (kind !== 'identifier') lexer.fail(end === null ? 'a field name' : `a field name or '${end}'`)
    found.push(field(lexer, depth))
    if (!lexer.accept(',')) lexer.accept(';')
  }
}

function field(lexer: TextLexer, depth: number): TextField {
  const { value: name, offset } = lexer.take()
  const colon = lexer.accept(':')
  const list = lexer.accept('[')
  if (!list) return { name, offset, list, values: [value(lexer, colon, depth)] }
  const values: TextValue[] = []
  if (!lexer.accept(']')) {
    do values.push(value(lexer, colon, depth))
    while (lexer.accept(','))
    if (!lexer.accept(']')) lexer.fail("',' or ']'")
  }
  return { name, offset, list, values }
}

function value(lexer: TextLexer, colon: boolean, depth: number): TextValue {
  const { offset } = lexer.next
  if (depth === deepest) lexer.fail(`at most ${deepest} messages in one another`)
  if (lexer.accept('{')) return { kind: 'message', offset, value: fields(lexer, '}', depth + 1) }
  if (lexer.accept('<')) return { kind: 'message', offset, value: fields(lexer, '>', depth + 1) }
  if (!colon) lexer.fail("':' or '{'")
  if (lexer.next.kind === 'string') return { kind: 'string', offset, value: strings(lexer) }
  const negative = lexer.accept('-')
  const token = lexer.next
  if (token.kind === 'number') return { kind: 'number', offset, value: number(lexer.take(), negative) }
  if (token.kind !== 'identifier') lexer.fail(negative ? 'a number' : 'a value')
  if (/^(?:inf(?:inity)?|nan)$/i.test(token.value))
    return { kind: 'number', offset, value: special(lexer.take(), negative) }
  if (negative) lexer.fail('a number')
  return { kind: 'identifier', offset, value: lexer.take().value }
}

function strings(lexer: TextLexer): string {
  const literals: Token[] = []
  while (lexer.next.kind === 'string') literals.push(lexer.take())
  return unquote(lexer.source, literals)
}

function number({ value: text }: Token, negative: boolean): bigint | number {
  const isOctal = /^0[0-7]+$/.test(text)
  const isInteger = isOctal || /^(?:0[xX][\dA-Fa-f]+|\d+)$/.test(text)
  const value = isInteger ? BigInt(isOctal ? `0o${text}` : text) : Number(text.replace(/[fF]$/, ''))
  return negative ? -value : value
}

function special({ value: text }: Token, negative: boolean): number {
  if (text.toLowerCase() === 'nan') return Number.NaN
  return negative ? -Infinity : Infinity
}

/** A value in the form for errors. */
export function shown({ kind, value }: TextValue): unknown {
  if (kind === 'message') return '{ ... }'
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value
}

/** A token of protobuf text format; `value` is the source text, with quotes. */
interface Token {
  readonly kind: 'identifier' | 'number' | 'string' | 'mark' | 'end'
  readonly value: string
  readonly offset: number
}

// No group is repeated without a limit: V8 keeps a stack for each repetition, which a large file would
// overflow.
const blank = /\s+|#[^\n]*/y
const identifier = /[A-Za-z_]\w*/y
// Takes everything that could belong to a number, so that '08' and '1x' are refused as a whole.
const numberLike = /(?:\d|\.\d)[\w.]*(?:(?<=[eE])[+-][\w.]*){0,4}/y
const integer = /^(?:0[xX][\dA-Fa-f]+|0[0-7]*|[1-9]\d*)$/
const float = /^(?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+(?:[eE][+-]?\d+[fF]?|[fF]))$/
/** Longer numbers do not occur in configurations, and take long to parse. */
const longestNumber = 1000
const marks = '{}<>[]:,;-'

/** Reads tokens one by one, with one token of lookahead. */
class TextLexer {
  readonly source: ConfigSource
  #offset = 0
  #ahead: Token

  /** @throws InferenceError `ERR_MODEL_CONFIG` for an invalid token; so does every method. */
  constructor(source: ConfigSource) {
    this.source = source
    this.#ahead = this.#read()
  }

  /** The token that `take` returns next. */
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

  /** Throws the error for the next token. */
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

  /** A string literal, which ends on its line. */
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

const pieces =
  /\\(?:([0-7]{1,3})|[xX]([\dA-Fa-f]{1,2})|u([\dA-Fa-f]{4})|U([\dA-Fa-f]{8})|([abfnrtv?\\'"]))|\\|[^\\]+/g
const plain: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
}
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The content of adjacent string literals, joined. Octal and hexadecimal escapes are bytes of UTF-8, not
 * characters: `é` may be written `\303\251`.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an unknown escape, or invalid UTF-8.
 */
function unquote(source: ConfigSource, literals: readonly Token[]): string {
  const bytes = literals.map((literal) => literalBytes(source, literal))
  try {
    return utf8.decode(bytes.length === 1 ? bytes[0]! : Buffer.concat(bytes))
  } catch {
    throw configError(source, literals[0]!.offset, 'config.pbtxt', 'a string of UTF-8', literals[0]!.value)
  }
}

function literalBytes(source: ConfigSource, { value, offset }: Token): Buffer {
  const text = value.slice(1, -1)
  if (!text.includes('\\')) return Buffer.from(text)
  // An escape never has more bytes than its source text.
  const bytes = Buffer.allocUnsafe(Buffer.byteLength(text))
  let length = 0
  for (const match of text.matchAll(pieces)) {
    const { 0: piece, 1: octal, 2: hex, 3: short, 4: long, 5: letter, index } = match
    const at = offset + 1 + index
    if (octal !== undefined) bytes[length++] = byte(source, at, piece, parseInt(octal, 8))
    else if (hex !== undefined) bytes[length++] = parseInt(hex, 16)
    else if (letter !== undefined) length += bytes.write(plain[letter] ?? letter, length)
    else if (short !== undefined || long !== undefined)
      length += bytes.write(codePoint(source, at, piece, (short ?? long)!), length)
    else if (piece === '\\')
      throw configError(source, at, 'config.pbtxt', 'a known escape', value.slice(index + 1, index + 3))
    else length += bytes.write(piece, length)
  }
  return bytes.subarray(0, length)
}

function byte(source: ConfigSource, at: number, piece: string, value: number): number {
  if (value > 0xff) throw configError(source, at, 'config.pbtxt', 'an octal escape of at most \\377', piece)
  return value
}

function codePoint(source: ConfigSource, at: number, piece: string, hex: string): string {
  const code = parseInt(hex, 16)
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    throw configError(source, at, 'config.pbtxt', 'a Unicode character', piece)
  }
  return String.fromCodePoint(code)
}

/** A `config.pbtxt`: its text, its path, and its model, which every error about it names. */
export interface ConfigSource {
  readonly model: string
  readonly file: string
  readonly text: string
}

/** Offsets of a file's lines, computed once for all notes. */
const lineStarts = new WeakMap<ConfigSource, number[]>()

/** Line and column of an offset, both counted from 1. */
export function position(source: ConfigSource, offset: number): { line: number; column: number } {
  const starts = startsOf(source)
  let line = 0
  for (let from = 0, to = starts.length; from < to;) {
    const middle = (from + to) >>> 1
    if (starts[middle]! <= offset) from = line = middle + 1
    else to = middle
  }
  return { line, column: offset - starts[line - 1]! + 1 }
}

function startsOf(source: ConfigSource): number[] {
  let starts = lineStarts.get(source)
  if (starts === undefined) {
    starts = [0]
    for (let end = source.text.indexOf('\n'); end !== -1; end = source.text.indexOf('\n', end + 1))
      starts.push(end + 1)
    lineStarts.set(source, starts)
  }
  return starts
}

/** `ERR_MODEL_CONFIG` for the text at `offset`; the message ends with `file:line:column`. */
export function configError(
  source: ConfigSource,
  offset: number,
  name: string,
  expected: string,
  received: unknown,
  hint?: string,
): InferenceError {
  const { line, column } = position(source, offset)
  const where = `At ${source.file}:${line}:${column}`
  return invalidConfig(
    source.model,
    name,
    expected,
    received,
    hint === undefined ? where : `${hint}${/[.?]$/.test(hint) ? '' : '.'} ${where}`,
  )
}
