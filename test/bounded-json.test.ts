import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonPieces } from '../src/base/bounded-json.ts'
import { doAll } from '../src/base/slices.ts'
import { repetitions } from './support/full.ts'

const parse = (text: string | Buffer, mostValues = 2 ** 26): unknown =>
  doAll(jsonPieces(Buffer.from(text), 'The JSON', { mostValues, mostValuesName: 'most' }))
const piecesOf = (text: string): number =>
  [...jsonPieces(Buffer.from(text), 'The JSON', { mostValues: 2 ** 26 })].length
/** What is longer is parsed in pieces. */
const long = 33_000

describe('JSON in pieces', () => {
  const documents: [what: string, text: string][] = [
    ['many numbers', `[${'1.5,-2e3, 7 ,'.repeat(long)}0]`],
    ['many objects', `[${'{"a":[1,{"b":"\\"}{"}]},'.repeat(long / 10)}{}]`],
    ['many names', `{${Array.from({ length: 4000 }, (_, at) => `"n${at}":${at}`).join()}}`],
    ['a long text', JSON.stringify('é\n"\\\u{1f41f}a'.repeat(long))],
    ['a long text of escapes', `"${'\\u00e9\\ud83d\\udc1f\\\\\\"'.repeat(long / 10)}"`],
    [
      'large members among small ones',
      `{"a":1,"b":[${'1,'.repeat(long)}2],"c":[],"d":"${'x'.repeat(long)}","e":{"f":[[${'"y",'.repeat(long)}null]]}}`,
    ],
    [
      'large items among small ones',
      `[1,[${'1,'.repeat(long)}2],"${'x'.repeat(long)}" , {"f":[${'"y",'.repeat(long)}null]},true]`,
    ],
    [
      'prototypes for names',
      `{"__proto__":{"x":1},"z":[${'1,'.repeat(long)}2],"__proto__":[${'{"__proto__":1},'.repeat(long / 10)}2]}`,
    ],
    ['a name twice', `{"a":1,"a":[${'1,'.repeat(long)}2],"a":"${'x'.repeat(long)}","b":2,"b":3}`],
    [
      'space around',
      `${' \n\r\t'.repeat(long / 4)}{ "a" : [ ${'1 , '.repeat(long)} 2 ] , "b" : 0 }${' '.repeat(long)}`,
    ],
    ['nothing in much', `[[],{},[${' '.repeat(long)}],{${'\n'.repeat(long)}}]`],
    ['what is short', '{"inputs":[]}'],
  ]
  it.each(documents)('is what JSON.parse makes of it: %s', (_, text) => {
    const parsed = parse(text)
    expect(parsed).toEqual(JSON.parse(text))
    expect(JSON.stringify(parsed)).toBe(JSON.stringify(JSON.parse(text))) // in the same order, with names that are prototypes'
  })

  const broken: [what: string, text: string][] = [
    ['a comma at the end', `[${'1,'.repeat(long)}]`], ['a comma at the beginning', `[,${'1,'.repeat(long)}1]`],
    ['a comma behind a large item', `[[${'1,'.repeat(long)}1],]`], ['a comma before one', `[,[${'1,'.repeat(long)}1]]`], ['two between', `[1,,[${'1,'.repeat(long)}1]]`],
    ['no comma behind', `[[${'1,'.repeat(long)}1]1]`], ['no comma before', `[1[${'1,'.repeat(long)}1]]`], ['a minus before', `[-[${'1,'.repeat(long)}1]]`],
    ['no name', `{[${'1,'.repeat(long)}1]}`], ['no colon', `{"a"[${'1,'.repeat(long)}1]}`], ['a name in an array', `["a":[${'1,'.repeat(long)}1]]`],
    ['no name in many', `{${`"a":"${'x'.repeat(long / 1000)}",`.repeat(4000)}1}`], ['too many names', `{${'"a":1,'.repeat(4097)}"a":1}`], ['a text that does not end', `["${'x'.repeat(long)}]`], ['a line within a text', `["${'x'.repeat(long)}\n"]`],
    ['a broken escape', `["${'x'.repeat(long)}\\x"]`], ['another bracket', `[${'1,'.repeat(long)}1}`], ['another bracket within', `[[${'1,'.repeat(long)}1},1]`],
    ['no end', `{"a":[${'1,'.repeat(long)}`], ['an end too many', `[${'1,'.repeat(long)}1]]`], ['something behind', `[${'1,'.repeat(long)}1] x`],
    ['a name for a name', `{"${'x'.repeat(long)}":1}`], ['digits without end', `[${'1'.repeat(10 * long)}]`], ['nothing', ''], ['a word', 'nothing'],
    ['128 KiB of spaces before it', `${' '.repeat(2 ** 17)}{}`], ['128 KiB of spaces behind it', `{}${' '.repeat(2 ** 17)}`],
    ['more behind a large item', `[[${'1,'.repeat(long)}1]${' '.repeat(2 ** 17 + 1)},1]`],
  ] // prettier-ignore
  it.each(broken)('is refused: %s', (_, text) => {
    expect(() => parse(text)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        argument: 'The JSON',
        message: expect.stringMatching(
          /^The JSON: expected (a JSON object, received text that cannot be parsed|fewer than|objects with 4096 names)/,
        ),
      }),
    )
  })

  it('is refused, or is what JSON.parse makes of it, wherever a byte is another one', () => {
    const whole = Buffer.from(
      `{"a":[{"b":"${'\\"é'.repeat(long / 4)}","c":[ ${'1, [2] ,{} ,'.repeat(long / 10)} null ]},"d" , 5 ],"e":{"f":"g"},"h":[${'true,'.repeat(long / 4)}0]}`,
    )
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.constantFrom(...'[]{},:"\\ -0x\n'), (at, character) => {
        const bytes = Buffer.from(whole)
        bytes[at] = character.charCodeAt(0)
        let expected: unknown
        try {
          expected = JSON.parse(new TextDecoder('utf8', { fatal: true }).decode(bytes))
        } catch {
          expect(() => parse(bytes)).toThrow()
          return
        }
        expect(parse(bytes)).toEqual(expected)
      }),
      { numRuns: repetitions(300, 40) },
    )
  })

  it('is parsed in many pieces where it is long', () => {
    expect(piecesOf('{"inputs":[]}')).toBe(0)
    for (const [, text] of documents.slice(0, 7))
      expect(piecesOf(text)).toBeGreaterThanOrEqual(Math.floor(text.length / 100_000))
    expect(piecesOf(JSON.stringify({ inputs: [{ data: Array(500_000).fill(1.5) }] }))).toBeGreaterThan(50)
  })
})

describe('the limits of JSON', () => {
  it('are kept before any of it is parsed', () => {
    const noJson = (text: string) => `${text}x`
    expect(() => parse(noJson('['.repeat(8_000_000)))).toThrow('arrays and objects within 64 others at most')
    for (const bracket of ['[', '{"a":'])
      expect(() => parse(noJson(bracket.repeat(65)))).toThrow('within 64 others')
    expect(() => parse(noJson('{},'.repeat(101)), 100)).toThrow('100 values at most (most)')
    expect(() => parse(noJson('"a":1,'.repeat(51)), 100)).toThrow('100 values at most (most)')
  })

  it('count what is in texts for nothing', () => {
    const text = JSON.stringify({ text: '[{,:'.repeat(1000), ':': ':'.repeat(10_000) })
    expect(parse(text, 10)).toEqual(JSON.parse(text))
  })

  it('bound the names of each object, however they are written, and before it is parsed', () => {
    const names = (count: number, nameOf: (at: number) => string | number) =>
      Array.from({ length: count }, (_, at) => `"${nameOf(at)}":1`).join()
    for (const nameOf of [(at: number) => (at * 8191) % 4294967, (at: number) => `k${at}`, () => 'a']) {
      const most = `{${names(4096, nameOf)}}`
      expect(parse(most)).toEqual(JSON.parse(most))
      const each = `[${most},{"a":${most},"b":${most}},{"c":[${most}]}]`
      expect(parse(each)).toEqual(JSON.parse(each))
      for (const wrong of [
        `{${names(4097, nameOf)}x`,
        `{"a":{${names(4097, nameOf)}x`,
        `{${names(4096, nameOf)},"a":[{}],"b":{x`,
      ])
        expect(() => parse(wrong)).toThrow('The JSON: expected objects with 4096 names at most')
    }
  })

  it('let through what is within them', () => {
    expect(parse('['.repeat(64) + ']'.repeat(64))).toBeTruthy()
    expect(parse(`[${'0,'.repeat(97)}0]`, 100)).toHaveLength(98)
  })
})
