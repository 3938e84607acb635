import { parse } from 'lossless-json'

/** Numbers that JSON does not have, as Python's clients write them without quotes and read them with and without. */
const words = ['NaN', 'Infinity', '-Infinity'] as const
const [quote, backslash] = [0x22, 0x5c]
/** Whole numbers that may be beyond 2^53, and within 64 bits. */
const largeInteger = /(?<![.\d])\d{16,20}(?![.\deE])/
const wholeNumber = /^-?\d{16,20}$/

/**
 * As `JSON.parse`, but that no whole number of 64 bits becomes another one: those beyond 2^53 are bigints. `NaN`, `Infinity` and `-Infinity`
 * are taken without quotes, too, and are those texts.
 *
 * @throws SyntaxError
 */
export function parseExact(text: string): unknown {
  const json = words.some((word) => text.includes(word)) ? withQuotes(text) : text
  if (!largeInteger.test(json)) return JSON.parse(json)
  return parse(json, undefined, { parseNumber, onDuplicateKey: ({ newValue }) => newValue }) // several times slower
}

function parseNumber(text: string): number | bigint {
  const value = Number(text)
  return !Number.isSafeInteger(value) && wholeNumber.test(text) ? BigInt(text) : value
}

/** Words outside of strings in quotes. */
function withQuotes(text: string): string {
  let quoted = ''
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) === quote) {
      while (++at < text.length && text.charCodeAt(at) !== quote) if (text.charCodeAt(at) === backslash) at++
      continue
    }
    const word = words.find((each) => text.startsWith(each, at))
    if (word === undefined) continue
    quoted += `${text.slice(from, at)}"${word}"`
    from = at + word.length
    at = from - 1
  }
  return quoted + text.slice(from)
}

/** Numbers as the elements of an array of JSON: bigints with all their digits, what JSON does not have in quotes. */
export function numbersText(elements: ArrayLike<number | bigint> & { join(): string }): string {
  const isFinite = !Array.prototype.some.call(
    elements,
    (element: number | bigint) => typeof element === 'number' && !Number.isFinite(element),
  )
  return isFinite
    ? elements.join()
    : Array.from(elements, (element) =>
        typeof element === 'number' && !Number.isFinite(element) ? `"${element}"` : String(element),
      ).join()
}
