import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeptAnswers, keptBytes } from '../../src/features/response-cache/kept-answers.ts'
import { RequestKeys } from '../../src/features/response-cache/request-keys.ts'
import { type BatchReport, Tensor } from '../../src/index.ts'
import type { ParsedFeeds } from '../../src/request/infer-request.ts'
import type { ModelMetadata } from '../../src/tensor/metadata.ts'
import type { MailedValue } from '../../src/tensor/values.ts'
import { repetitions } from '../support/full.ts'

const metadata: Pick<ModelMetadata, 'name' | 'inputs' | 'outputs'> = {
  name: 'm',
  inputs: [
    { name: 'a', type: 'float32', shape: ['N', 'L'] },
    { name: 'b', type: 'string', shape: ['N'] },
  ],
  outputs: ['w', 'x', 'y', 'z'].map((name) => ({ name, type: 'float32', shape: ['N'] })),
}
const keys = new RequestKeys(metadata)
const feeds = (data: ParsedFeeds['data'], rest: Partial<ParsedFeeds> = {}): ParsedFeeds => ({
  rows: 1,
  bucketKey: '',
  whole: false,
  dims: null,
  data,
  ...rest,
})
const keyOf = (data: ParsedFeeds['data'], rest: Partial<ParsedFeeds> = {}, outputs: number[] | null = null) =>
  keys.of(feeds(data, rest), outputs)
const bytes = (length: number, of = 7) => new Uint8Array(length).fill(of)

describe('the key of a request', () => {
  it('is the same where all outputs are named and where none is', () => {
    expect(keyOf([bytes(3)], {}, [2, 0, 3, 1])).toBe(keyOf([bytes(3)]))
    expect(keyOf([bytes(3)], {}, [2, 0, 3])).not.toBe(keyOf([bytes(3)]))
  })

  it('has 128 bits', () => {
    expect(keyOf([bytes(3)])).toMatch(/^[\0-\xff]{16}$/)
  })

  it('is the same for equal requests only, whatever their inputs are made of', () => {
    const dims = fc.array(fc.nat(3), { maxLength: 3 })
    const buffer = fc.uint8Array({ max: 1, maxLength: 6 })
    const strings = fc.array(fc.constantFrom('', 'a', 'aa', 'ab', '\ud800', '\udfff', '\ufffd', ',', '1,'), {
      maxLength: 4,
    })
    const tensor = fc.oneof(
      fc.record({
        type: fc.constantFrom('uint8' as const, 'int8' as const),
        dims,
        data: buffer.map(({ buffer: own, byteOffset, byteLength }) =>
          own.slice(byteOffset, byteOffset + byteLength),
        ),
      }),
      fc.record({ type: fc.constant('string' as const), dims, data: strings }),
    )
    const { value } = fc.letrec<{ value: MailedValue }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        tensor,
        fc.constant({ absent: true } as const),
        fc.record({ items: fc.array(tie('value'), { maxLength: 3 }) }),
        fc.record({ keys: tensor, values: tensor }),
        fc.record({ keys: tensor, values: tensor, entries: fc.array(fc.nat(2), { maxLength: 3 }) }),
      ) as fc.Arbitrary<MailedValue>,
    }))
    const input = fc.oneof(buffer, strings, fc.constant(null), value)
    const request = fc.record({
      data: fc.tuple(input, input),
      dims: fc.option(fc.tuple(dims, dims)),
      rows: fc.nat(2),
      whole: fc.boolean(),
      outputs: fc.option(fc.subarray([0, 1, 2], { minLength: 1 })),
    })
    /** The same text for the same request. */
    const told = (drawn: unknown) =>
      JSON.stringify(drawn, (_, each: unknown) => {
        if (each instanceof ArrayBuffer) return { buffer: [...new Uint8Array(each)] }
        if (ArrayBuffer.isView(each)) return { view: [...(each as Uint8Array)] }
        return typeof each === 'string' ? Buffer.from(each, 'utf16le').toString('hex') : each
      })
    const byText = new Map<string, string>()
    const byKey = new Map<string, string>()
    fc.assert(
      fc.property(request, ({ outputs, ...rest }) => {
        // An optional value that is not there is the same as none.
        const text = told([outputs, rest]).replaceAll('{"absent":true}', 'null')
        const key = keys.of(feeds(rest.data as ParsedFeeds['data'], rest as Partial<ParsedFeeds>), outputs)
        expect(byText.get(text) ?? key).toBe(key)
        expect(byKey.get(key) ?? text).toBe(text)
        byText.set(text, key)
        byKey.set(key, text)
      }),
      { numRuns: repetitions(5000, 500) },
    )
    expect(byKey.size).toBeGreaterThan(repetitions(2000, 200))
  })

  it('is that of the bytes, wherever they lie and however many there are', () => {
    for (const length of [0, 1, 4000, 4050, 4096, 5000, 100_000]) {
      const buffer = new ArrayBuffer(length + 16)
      const shifted = new Uint8Array(buffer, 8, length).fill(7)
      const key = keyOf([bytes(length), bytes(9)])
      expect(keyOf([shifted, bytes(9)])).toBe(key)
      if (length === 0) continue
      for (const at of [0, length >> 1, length - 1]) {
        shifted[at] = 8
        expect(keyOf([shifted, bytes(9)])).not.toBe(key)
        shifted[at] = 7
      }
      expect(keyOf([bytes(length + 1), bytes(8)])).not.toBe(key)
    }
  })

  it('is that of the elements that a typed array has, whatever its object says', () => {
    const lying = Object.defineProperties(bytes(8), {
      byteLength: { value: 0 },
      length: { value: 1 },
      buffer: { value: new ArrayBuffer(8) },
    })
    expect(keyOf([lying])).toBe(keyOf([bytes(8)]))
  })

  it('is not the one of the same bytes in other dims, rows or inputs, alone as they are, or for other outputs', () => {
    const all = [
      keyOf([bytes(4)]),
      keyOf([bytes(4)], { dims: [[2, 2]] }),
      keyOf([bytes(4)], { dims: [[4, 1]] }),
      keyOf([bytes(4)], { dims: [[4]] }),
      keyOf([bytes(4)], { dims: [[]] }),
      keyOf([bytes(4)], { rows: 2 }),
      keyOf([bytes(4)], { whole: true }),
      keyOf([bytes(4), null]),
      keyOf([null, bytes(4)]),
      keyOf([bytes(2), bytes(2)]),
      keyOf([bytes(3), bytes(1)]),
      keyOf([new Uint16Array(bytes(4).buffer)]),
      keyOf([bytes(4)], {}, [0]),
      keyOf([bytes(4)], {}, [1]),
      keyOf([bytes(4)], {}, [0, 1]),
      keyOf([bytes(4)], {}, [10]),
    ]
    expect(new Set(all).size).toBe(all.length)
    expect(keyOf([bytes(4)], {}, [1, 0])).toBe(keyOf([bytes(4)], {}, [0, 1]))
  })

  it('tells many strings with many lengths apart', () => {
    const many = Array.from({ length: 10_000 }, () => 'ab')
    expect(keyOf([many])).toBe(keyOf([[...many]]))
    expect(keyOf([many])).not.toBe(keyOf([[...many.slice(2), 'aba', 'b']]))
  })

  it('is another in another model, version or load', () => {
    const request = feeds([bytes(4)])
    const others = [
      new RequestKeys(metadata),
      new RequestKeys(metadata),
      new RequestKeys({ ...metadata, name: 'n' }),
      new RequestKeys(metadata, 2),
    ]
    expect(new Set([keys, ...others].map((each) => each.of(request, null))).size).toBe(5)
  })
})

const report: BatchReport = {
  batchId: 1,
  batchSize: 1,
  paddedTo: null,
  position: 0,
  queuedMs: 1,
  computeMs: 1,
  reason: 'idle',
  inline: false,
  instance: 'm_0',
  attempts: 1,
}
const floats = (...values: number[]) => ({
  y: new Tensor('float32', Float32Array.from(values), [values.length]),
})
const size = keptBytes(floats(1))
const valuesOf = (value: unknown) => [...((value as Tensor).data as Float32Array)]

describe('answers that are kept', () => {
  it('are as many as fit, and those not asked for longest go', () => {
    const kept = new KeptAnswers(3 * size)
    for (const key of ['a', 'b', 'c']) kept.put(key, floats(1), report)
    expect([kept.entries, kept.bytes, kept.evictions]).toEqual([3, 3 * size, 0])
    kept.get('a')
    kept.put('d', floats(1), report)
    expect(['a', 'b', 'c', 'd'].filter((key) => kept.get(key) !== undefined)).toEqual(['a', 'c', 'd'])
    expect([kept.entries, kept.bytes, kept.evictions]).toEqual([3, 3 * size, 1])
  })

  it('make room for a large one, several of them, but not for one that is larger than all', () => {
    const kept = new KeptAnswers(4 * size)
    for (const key of ['a', 'b', 'c', 'd']) kept.put(key, floats(1), report)
    kept.put('too large', floats(...Array<number>(size).fill(0)), report)
    expect([kept.entries, kept.evictions]).toEqual([4, 0])
    const large = floats(...Array<number>(size / 4).fill(0))
    kept.put('large', large, report)
    expect([kept.entries, kept.evictions, kept.bytes]).toEqual([3, 2, 2 * size + keptBytes(large)])
    expect(kept.bytes).toBeLessThanOrEqual(4 * size)
  })

  it('are replaced under their key, which is no eviction', () => {
    const kept = new KeptAnswers(4 * size)
    kept.put('a', floats(1), report)
    kept.put('a', floats(2, 3), report)
    expect([kept.entries, kept.bytes, kept.evictions]).toEqual([1, keptBytes(floats(2, 3)), 0])
    expect(valuesOf(kept.get('a')!.outputs['y'])).toEqual([2, 3])
  })

  it('are copies', () => {
    const kept = new KeptAnswers(2 ** 20)
    const outputs = floats(1, 2)
    const own = { ...report, parts: [{ ...report }] }
    kept.put('a', outputs, own)
    outputs.y.data[0] = 9
    own.parts[0]!.batchId = 9
    expect(valuesOf(kept.get('a')!.outputs['y'])).toEqual([1, 2])
    expect(kept.get('a')!.report.parts![0]!.batchId).toBe(1)
  })

  it('are gone when they are cleared', () => {
    const kept = new KeptAnswers(2 ** 20)
    kept.put('a', floats(1), report)
    kept.clear()
    expect([kept.entries, kept.bytes, kept.evictions, kept.get('a')]).toEqual([0, 0, 0, undefined])
  })
})

describe('the bytes of an answer', () => {
  it('are those of its data, with what it takes to hold them', () => {
    const of = (length: number) => keptBytes({ y: new Tensor('float32', new Float32Array(length), [length]) })
    expect(of(1000) - of(0)).toBe(4000)
    expect(of(0)).toBeGreaterThan(500)
  })

  it('count what is no tensor, too', () => {
    const text = (value: string) => keptBytes({ y: new Tensor('string', [value], [1]) })
    expect(text('x'.repeat(100)) - text('')).toBe(200)
    const maps = (count: number) =>
      keptBytes({ y: Array.from({ length: count }, () => new Map([[1n, 0.5]])) })
    expect(maps(11) - maps(1)).toBeGreaterThan(10 * 16)
    const named = (name: string) => keptBytes({ y: [{ [name]: 1 }] })
    expect(named('x'.repeat(100)) - named('')).toBe(200)
    expect(keptBytes({ y: null })).toBeGreaterThan(0)
  })
})
