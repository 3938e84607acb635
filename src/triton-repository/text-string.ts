import { configError, type ConfigSource } from './config-source.ts'
import type { Token } from './text-lexer.ts'

const pieces = /\\(?:([0-7]{1,3})|[xX]([\dA-Fa-f]{1,2})|u([\dA-Fa-f]{4})|U([\dA-Fa-f]{8})|([abfnrtv?\\'"]))|\\|[^\\]+/g
const plain: Readonly<Record<string, string>> = { a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The content of adjacent string literals, joined. Octal and hexadecimal escapes stand for bytes of UTF-8, not for
 * characters: `é` may be written `\303\251`.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an unknown escape, or bytes that are no UTF-8.
 */
export function unquote(source: ConfigSource, literals: readonly Token[]): string {
  const bytes = literals.flatMap((literal) => literalBytes(source, literal))
  try {
    return utf8.decode(Buffer.concat(bytes))
  } catch {
    throw configError(source, literals[0]!.offset, 'config.pbtxt', 'a string of UTF-8', literals[0]!.value)
  }
}

function literalBytes(source: ConfigSource, { value, offset }: Token): Buffer[] {
  return [...value.slice(1, -1).matchAll(pieces)].map(({ 0: piece, index, ...groups }) => {
    const { 1: octal, 2: hex, 3: short, 4: long, 5: letter } = groups
    const at = offset + 1 + index
    if (octal !== undefined) return Buffer.of(byte(source, at, piece, parseInt(octal, 8)))
    if (hex !== undefined) return Buffer.of(parseInt(hex, 16))
    if (letter !== undefined) return Buffer.from(plain[letter] ?? letter)
    if (short !== undefined || long !== undefined) return codePoint(source, at, piece, (short ?? long)!)
    if (piece === '\\') {
      throw configError(source, at, 'config.pbtxt', 'a known escape', value.slice(index + 1, index + 3))
    }
    return Buffer.from(piece)
  })
}

function byte(source: ConfigSource, at: number, piece: string, value: number): number {
  if (value > 0xff) throw configError(source, at, 'config.pbtxt', 'an octal escape of at most \\377', piece)
  return value
}

function codePoint(source: ConfigSource, at: number, piece: string, hex: string): Buffer {
  const code = parseInt(hex, 16)
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    throw configError(source, at, 'config.pbtxt', 'a Unicode character', piece)
  }
  return Buffer.from(String.fromCodePoint(code))
}
