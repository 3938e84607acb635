import type { ConfigSource } from './config-source.ts'
import { TextLexer, type Token } from './text-lexer.ts'
import { unquote } from './text-string.ts'

/** A value as written; which types are right for a field is known to whoever reads it. */
export type TextValue = { readonly offset: number } & (
  | { readonly kind: 'string' | 'identifier'; readonly value: string }
  /** `bigint` where it was written as an integer. */
  | { readonly kind: 'number'; readonly value: bigint | number }
  | { readonly kind: 'message'; readonly value: readonly TextField[] }
)

/** One `name: value`, or `name: [values]`. A repeated field may also be written as several of these. */
export interface TextField {
  readonly name: string
  readonly offset: number
  /** Whether the values stood in brackets. */
  readonly list: boolean
  readonly values: readonly TextValue[]
}

/** Nobody writes this deep; a file that does would otherwise end as a stack overflow. */
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
  if (/^0[0-7]+$/.test(text)) return signed(BigInt(`0o${text}`), negative)
  if (/^(?:0[xX][\dA-Fa-f]+|\d+)$/.test(text)) return signed(BigInt(text), negative)
  const float = Number(text.replace(/[fF]$/, ''))
  return negative ? -float : float
}

function signed(integer: bigint, negative: boolean): bigint {
  return negative ? -integer : integer
}

function special({ value: text }: Token, negative: boolean): number {
  if (text.toLowerCase() === 'nan') return Number.NaN
  return negative ? -Infinity : Infinity
}

/** A value for an error. */
export function shown({ kind, value }: TextValue): unknown {
  if (kind === 'message') return '{ ... }'
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value
}
