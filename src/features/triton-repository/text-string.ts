import { configError, type ConfigSource } from './config-source.ts'
import type { Token } from './text-lexer.ts'

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
 * The content of adjacent string literals, joined. Octal and hexadecimal escapes stand for bytes of UTF-8, not for
 * characters: `é` may be written `\303\251`.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for an unknown escape, or bytes that are no UTF-8.
 */
export function unquote(source: ConfigSource, literals: readonly Token[]): string {
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
  // No escape stands for more bytes than it is written with.
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
