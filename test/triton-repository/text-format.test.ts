import fc from 'fast-check'
import protobuf from 'protobufjs'
import textformat from 'protobufjs/ext/textformat.js'
import { describe, expect, it } from 'vitest'
import { parseTextFormat, type TextField } from '../../src/features/triton-repository/text-format.ts'
import { errorOf } from './temporary.ts'
import { repetitions } from '../support/full.ts'

const parse = (text: string) => parseTextFormat({ model: 'm', file: 'config.pbtxt', text })
/** `[name, values]` of every field, messages likewise. */
const plain = (fields: readonly TextField[]): unknown[] =>
  fields.map(({ name, values }) => [
    name,
    values.map(({ kind, value }) => (kind === 'message' ? plain(value as TextField[]) : value)),
  ])
const only = (text: string): unknown => (plain(parse(text)) as [string, unknown[]][])[0]![1][0]

describe('protobuf text format', () => {
  it('has fields in any layout', () => {
    const fields = [
      ['a', [1n]],
      ['b', [[['c', ['x']]]]],
      ['d', [[]]],
    ]
    expect(plain(parse('a: 1 b { c: "x" } d {}'))).toEqual(fields)
    expect(plain(parse("\uFEFFa:1;b:<c:'x',>,d<>;\r\n"))).toEqual(fields)
    expect(plain(parse('# first\na: 1 # one\nb\n{ # in\n c: "x" }\n\n  d: {} #'))).toEqual(fields)
    expect(parse(' \n# nothing')).toEqual([])
  })
  it('has lists, with or without a colon before messages', () => {
    expect(plain(parse('a: [1, 2] b [{}, {c: 3}] d: [<>] e: [] f []'))).toEqual([
      ['a', [1n, 2n]],
      ['b', [[], [['c', [3n]]]]],
      ['d', [[]]],
      ['e', []],
      ['f', []],
    ])
  })
  it.each([
    ['0', 0n],
    ['-7', -7n],
    ['- 7', -7n],
    ['0x1F', 31n],
    ['-0x10', -16n],
    ['017', 15n],
    ['9223372036854775807', 9223372036854775807n],
    ['1.5', 1.5],
    ['.5', 0.5],
    ['1.', 1],
    ['2e3', 2000],
    ['-1.5e-2f', -0.015],
    ['3f', 3],
    ['inf', Infinity],
    ['-Infinity', -Infinity],
    ['nan', Number.NaN],
    ['KIND_CPU', 'KIND_CPU'],
    ['true', 'true'],
  ])('reads %s', (text, value) => {
    expect(only(`a: ${text}`)).toEqual(value)
  })
  it.each([
    ['"it\'s"', "it's"],
    ['\'say "hi"\'', 'say "hi"'],
    [String.raw`"\a\b\f\n\r\t\v\?\\\'\""`, '\x07\b\f\n\r\t\v?\\\'"'],
    [String.raw`"\101\x42\u0043\U00000044"`, 'ABCD'],
    [String.raw`"\303\251 é \xc3\xa9 \u00e9"`, 'é é é é'],
    [String.raw`"\0011\x0g"`, '\x011\0g'],
    ['"one " \'two\'\n # and\n"three"', 'one twothree'],
    [String.raw`"\303" '\251'`, 'é'],
    ['"# no comment"', '# no comment'],
    ['""', ''],
  ])('reads the string %s', (text, value) => {
    expect(only(`a: ${text}`)).toBe(value)
  })
  it.each([
    ['a: 1\nb', 'end of the file', 2, 2],
    ['a 1', "'1'", 1, 3],
    ['a: {', 'end of the file', 1, 5],
    ['a { b: 1 >', "'>'", 1, 10],
    ['}', "'}'", 1, 1],
    ['a: [1 2]', "'2'", 1, 7],
    ['a: [1,]', "']'", 1, 7],
    ['a [1]', "'1'", 1, 4],
    ['a: -x', "'x'", 1, 5],
    ['a: 08', "'08'", 1, 4],
    ['a: 1x', "'1x'", 1, 4],
    ['a: 1.2.3', "'1.2.3'", 1, 4],
    ['a: 0x', "'0x'", 1, 4],
    ['\n\n a: "b', "'\"b'", 3, 5],
    ['a: "b\nc"', "'\"b'", 1, 4],
    [String.raw`a: "b\q"`, String.raw`'\q'`, 1, 6],
    [String.raw`a: "\400"`, String.raw`'\400'`, 1, 5],
    [String.raw`a: "\ud800"`, String.raw`'\ud800'`, 1, 5],
    [String.raw`a: "\xff"`, 'UTF-8', 1, 4],
    ['[a.b]: 1', "'['", 1, 1],
    ['a: 1,, b: 2', "','", 1, 6],
    ['a: @', "'@'", 1, 4],
    ['"a": 1', '\'"a"\'', 1, 1],
  ])('refuses %s', async (text, received, line, column) => {
    const error = await errorOf(() => parse(text))
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm' })
    expect(error.message).toContain(received)
    expect(error.message).toMatch(new RegExp(`config\\.pbtxt:${line}:${column}$`))
  })
  it('refuses messages nested without end', async () => {
    expect((await errorOf(() => parse('a {'.repeat(100_000)))).message).toContain(
      'at most 100 messages in one another',
    )
    expect(parse('a {'.repeat(100) + '}'.repeat(100))).toHaveLength(1)
  })
  it('never fails in another way, whatever the text', () => {
    const token = fc.constantFrom(
      'a',
      ':',
      '{',
      '}',
      '<',
      '>',
      '[',
      ']',
      ',',
      ';',
      '-',
      '1',
      '0x',
      '.5',
      '"',
      "'",
      '\\',
      '#',
      '\n',
      ' ',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(token).map((tokens) => tokens.join('')),
        ),
        (text) => {
          try {
            parse(text)
          } catch (error) {
            expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG' })
          }
        },
      ),
    )
  })
})

describe('the text format of protobufjs', () => {
  const { root } = protobuf.parse(`syntax = "proto3";
    enum E { ZERO = 0; ONE = 1; }
    message M { repeated string s = 1; repeated int64 i = 2; repeated double d = 3; repeated bool b = 4; repeated E e = 5; repeated M m = 6; }`)
  const type = root.lookupType('M')

  it('is read as this library reads it', () => {
    fc.assert(
      fc.property(message, (text) => {
        const theirs = type.toObject(textformat.fromText(type, text), { enums: String, longs: String })
        expect(grouped(parse(text))).toEqual(theirs)
      }),
      { numRuns: repetitions(500, 100) },
    )
  })

  const quoted = fc
    .tuple(fc.string({ unit: 'grapheme' }), fc.constantFrom('"', "'"))
    .map(
      ([content, quote]) =>
        quote +
        content.replace(
          /[\\\n\r"']/g,
          (character) => `\\${character.codePointAt(0)!.toString(8).padStart(3, '0')}`,
        ) +
        quote,
    )
  const blank = fc.constantFrom(' ', '\n', '\t ', ' # comment " { \n')
  const scalar = (name: string, value: fc.Arbitrary<string>) =>
    fc
      .tuple(
        blank,
        blank,
        fc.oneof(
          value,
          fc.array(value).map((values) => `[${values.join(' , ')}]`),
        ),
      )
      .map(([before, after, written]) => `${name}${before}:${after}${written}`)
  const { message } = fc.letrec<{ message: string; field: string }>((tie) => ({
    message: fc
      .array(
        fc.tuple(tie('field'), fc.constantFrom(' ', ',', ' ; ', '\n')).map((parts) => parts.join('')),
        { maxLength: 6 },
      )
      .map((fields) => fields.join('')),
    field: fc.oneof(
      { depthSize: 'small' },
      scalar(
        's',
        fc.array(quoted, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(' ')),
      ),
      scalar('i', fc.oneof(fc.maxSafeInteger().map(String), fc.constantFrom('0x7f', '-017', '0'))),
      scalar(
        'd',
        fc.oneof(
          fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
          fc.constantFrom('inf', '-inf', '1.5f', '.5', '2.'),
        ),
      ),
      scalar('b', fc.constantFrom('true', 'false')),
      scalar('e', fc.constantFrom('ZERO', 'ONE')),
      fc
        .tuple(fc.constantFrom('', ':', ' : '), tie('message'))
        .map(([colon, inner]) => `m${colon} {${inner}}`),
      fc
        .array(tie('message'), { maxLength: 3 })
        .map((inner) => `m [${inner.map((each) => `<${each}>`).join(',')}]`),
    ),
  }))
})

/** As `toObject` of protobufjs gives it: every field a list, integers as text. */
function grouped(fields: readonly TextField[]): Record<string, unknown[]> {
  const object: Record<string, unknown[]> = {}
  const typed: Record<string, (value: never) => unknown> = {
    i: String,
    d: Number,
    b: (value) => value === 'true',
    m: (value) => grouped(value),
    s: (value) => value,
    e: (value) => value,
  }
  for (const { name, values } of fields) {
    if (values.length > 0)
      (object[name] ??= []).push(...values.map(({ value }) => typed[name]!(value as never)))
  }
  return object
}
