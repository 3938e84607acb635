import { describe, expect, it } from 'vitest'
import { Tensor, type BatchReport } from '../../src/index.ts'
import { KeptAnswers, keptBytes } from '../../src/features/response-cache/kept-answers.ts'

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
