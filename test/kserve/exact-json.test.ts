import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { numbersText, parseExact } from '../../src/adapters/kserve/json-fields.ts'

describe('JSON whose numbers stay as they are', () => {
  it('is what JSON.parse makes of it, but for whole numbers beyond 2^53', () => {
    const asNumbers = (text: string) =>
      JSON.parse(
        JSON.stringify(parseExact(text), (_, value: unknown) =>
          typeof value === 'bigint' ? Number(value) : value,
        ),
      ) as unknown
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(asNumbers(json)).toEqual(JSON.parse(JSON.stringify(JSON.parse(json))))
      }),
    )
    const value = fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
      fc.double({ noDefaultInfinity: true, noNaN: true, min: -1e15, max: 1e15 }).map((each) => each + 0),
      fc.string(),
    )
    fc.assert(
      fc.property(fc.array(value), fc.constantFrom('', ' ', '\n'), (values, space) => {
        const text = `{"a":[${values.map((each) => (typeof each === 'bigint' ? String(each) : JSON.stringify(each))).join(`${space},${space}`)}]}`
        const read = (parseExact(text) as { a: unknown[] }).a
        expect(
          read.map((each, index) => (typeof values[index] === 'bigint' ? BigInt(each as number) : each)),
        ).toEqual(values)
      }),
    )
  })

  it('takes NaN and infinities without quotes, outside of strings', () => {
    expect(parseExact('[NaN, -Infinity,Infinity,"NaN \\" NaN","\\\\",NaN,{"Infinity":-Infinity}]')).toEqual([
      'NaN',
      '-Infinity',
      'Infinity',
      'NaN " NaN',
      '\\',
      'NaN',
      { Infinity: '-Infinity' },
    ])
    for (const wrong of ['[NaNNaN]', '[-NaN]', '[NaN1]', '[+Infinity]', '["NaN]', '[Inf]', 'x NaN', '"NaN\\'])
      expect(() => parseExact(wrong)).toThrow(SyntaxError)
  })

  it('has no prototype of another, and no more depth than there is room for', () => {
    const read = parseExact('{"__proto__":{"a":9007199254740993},"b":1,"b":2}') as Record<string, unknown>
    expect([Object.keys(read), read['b'], ({} as Record<string, unknown>)['a']]).toEqual([
      ['__proto__', 'b'],
      2,
      undefined,
    ])
    expect(() => parseExact(`[9007199254740993,${'['.repeat(1_000_000)}`)).toThrow()
    expect(parseExact(`[${'9'.repeat(100_000)}]`)).toEqual([Infinity])
  })

  it('is written with all digits, and with words in quotes', () => {
    expect(numbersText(BigInt64Array.of(-(2n ** 63n), 9007199254740993n))).toBe(
      '-9223372036854775808,9007199254740993',
    )
    expect(numbersText(Float32Array.of(1, NaN, -Infinity, Infinity))).toBe('1,"NaN","-Infinity","Infinity"')
    expect(numbersText(Float64Array.of(0.1, 1e300))).toBe('0.1,1e+300')
  })
})
