import { describe, expect, it } from 'vitest'
import type { ElementType } from '../src/tensor/tensor.ts'
import { cutElements, joinElements, packed, unpacked } from '../src/tensor/elements.ts'

/** Values of each type whose elements share bytes. */
const ranges = [
  ['int4', -8, 7],
  ['uint4', 0, 15],
] as const
const some = (from: number, to: number, count: number) =>
  Array.from({ length: count }, (_, at) => from + ((at * 5) % (to - from + 1)))

describe('packed elements', () => {
  it('lie in a byte with the first in the low half', () => {
    expect(packed([1, -1, 7])).toEqual(Uint8Array.of(0xf1, 0x07))
    expect(packed([15, 2])).toEqual(Uint8Array.of(0x2f))
  })

  it.each(ranges)('of %s are the same when unpacked', (type, from, to) => {
    const values = some(from, to, 19)
    expect([...unpacked(type, packed(values), 19)]).toEqual(values)
  })

  it.each(ranges)('of %s are cut wherever a row begins, with nothing of the next', (type, from, to) => {
    const values = some(from, to, 23)
    const data = packed(values)
    for (let start = 0; start <= 23; start++) {
      for (let end = start; end <= 23; end++)
        expect(cutElements(type, data, start, end)).toEqual(packed(values.slice(start, end)))
    }
  })

  it.each(ranges)('of %s are joined whatever their numbers', (type, from, to) => {
    const parts = [3, 1, 0, 4, 5, 8, 2].map((count) => some(from, to, count))
    expect(
      joinElements(
        type,
        parts.map((part) => ({ data: packed(part), count: part.length })),
      ),
    ).toEqual(packed(parts.flat()))
  })
})

it.each<[ElementType, ArrayLike<unknown>]>([
  ['float32', Float32Array.of(1, 2, 3)],
  ['int64', BigInt64Array.of(1n, 2n, 3n)],
  ['string', ['a', 'b', 'c']],
])('elements of %s are cut and joined', (type, data) => {
  const elements = data as Float32Array
  const parts = [cutElements(type, elements, 1, 3), cutElements(type, elements, 0, 1)]
  expect(parts).toEqual([elements.slice(1, 3), elements.slice(0, 1)])
  expect(
    joinElements(
      type,
      parts.map((part) => ({ data: part, count: part.length })),
    ),
  ).toEqual(
    joinElements(type, [
      { data: elements.slice(1), count: 2 },
      { data: elements.slice(0, 1), count: 1 },
    ]),
  )
  expect(parts[0]).not.toBe(elements)
})
