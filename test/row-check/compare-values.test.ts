import { describe, expect, it } from 'vitest'
import { compareValue, valuesTellApart } from '../../src/models/row-check/compare-rows.ts'
import type { MailedTensor } from '../../src/tensor/tensor.ts'
import type { MailedMaps, MailedValue } from '../../src/tensor/values.ts'

const floats = (values: number[], dims = [values.length]): MailedTensor => ({
  type: 'float32',
  dims,
  data: Float32Array.from(values).buffer,
})
const sequence = (...items: number[][]): MailedValue => ({ items: items.map((values) => floats(values)) })
const maps = (...all: Record<string, number>[]): MailedMaps => {
  const keys = all.flatMap((map) => Object.keys(map))
  return {
    keys: { type: 'string', dims: [keys.length], data: keys },
    values: floats(all.flatMap((map) => Object.values(map))),
    entries: all.map((map) => Object.keys(map).length),
  }
}
const compare = (alone: MailedValue[], joined: MailedValue) =>
  compareValue(
    'y',
    alone,
    alone.map(() => 1),
    joined,
  )

describe('sequences compared', () => {
  it('are equal entry by entry, whatever the shapes of these', () => {
    expect(compare([sequence([1, 2]), sequence([3])], sequence([1, 2], [3]))).toEqual({
      difference: 0,
      reason: null,
    })
    expect(compare([sequence([1, 2]), sequence([3])], sequence([3], [1, 2])).reason).toContain(
      "output 'y' has rows of shape [1] in one run and [2] in another",
    )
  })

  it('of maps have equal keys, and values within the tolerance of floats', () => {
    const alone = [maps({ a: 1, b: 0.5 }), maps({ a: 2 })]
    expect(compare(alone, maps({ a: 1.0001, b: 0.5 }, { a: 2 }))).toMatchObject({
      difference: expect.closeTo(1e-4, 6),
      reason: null,
    })
    expect(compare(alone, maps({ a: 1.1, b: 0.5 }, { a: 2 })).reason).not.toBeNull()
    expect(compare(alone, maps({ a: 1, c: 0.5 }, { a: 2 }))).toMatchObject({
      difference: Infinity,
      reason: expect.stringContaining("output 'y'"),
    })
    expect(compare(alone, maps({ a: 1 }, { b: 0.5, a: 2 })).reason).not.toBeNull()
  })

  it('need an entry for each row, alone and joined', () => {
    expect(compare([sequence([1], [2])], sequence([1], [2])).reason).toBe(
      "output 'y' of 2 entries is not divided by rows (1)",
    )
    expect(compare([sequence([1]), sequence([2])], sequence([1])).reason).toBe(
      "output 'y' of 1 entries is not divided by rows (2)",
    )
    expect(compare([{ absent: true }], { absent: true }).reason).toBe("output 'y' is not divided by rows")
  })
})

describe('values that ran alone', () => {
  it.each([
    ['other values', [maps({ a: 1 }), maps({ a: 3 })], true],
    ['other keys', [maps({ a: 1 }), maps({ b: 1 })], true],
    ['the same', [maps({ a: 1 }), maps({ a: 1 })], false],
    ['nearly the same', [sequence([1]), sequence([1.001])], false],
    ['other entries', [sequence([1]), sequence([1], [1])], true],
    ['nothing', [sequence(), sequence()], false],
  ])('tell each other apart by %s: %j', (_, alone, telling) => {
    expect(valuesTellApart(alone)).toBe(telling)
  })
})
