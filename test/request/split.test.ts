import { describe, expect, it } from 'vitest'
import { joinRows, splitRows } from '../../src/request/split.ts'
import type { AnyOutputs } from '../../src/options/model-signature.ts'
import { Tensor } from '../../src/index.ts'

const part = (dims: readonly number[], data: unknown, name = 'y') =>
  ({ [name]: { type: 'float32', dims, data } }) as unknown as AnyOutputs
const whole = { model: 'm', outputs: [], rows: [1, 1], report: false, requestId: 'r' }

describe('parts that cannot be joined are a typed error', () => {
  const one = new Float32Array(1)
  const cases: [what: string, parts: AnyOutputs[], message: RegExp][] = [
    ['of other shapes', [part([1, 1], one), part([1, 2], new Float32Array(2))], /\[1, 1\] and \[1, 2\]/],
    ['without rows', [part([], one), part([], one)], /\[\] and \[\]/],
    ['one without rows', [part([1], one), part([], one)], /\[1\] and \[\]/],
    [
      'of more elements than an array has',
      [part([2 ** 50, 1], one), part([2 ** 50, 1], one)],
      /cannot be joined: .*(length|allocation)/i,
    ],
  ]
  it.each(cases)('%s', (_, parts, message) => {
    const error = {
      code: 'ERR_EXECUTION',
      argument: 'y',
      model: 'm',
      requestId: 'r',
      message: expect.stringMatching(message),
      cause: expect.any(Error),
    }
    expect(() => joinRows(parts, whole)).toThrow(expect.objectContaining(error))
  })
})

const inputs = [
  { name: 'a', type: 'float32', shape: ['N', 1] },
  { name: 'b', type: 'int64', shape: [] },
  { name: 'c', type: 'string', shape: ['N'] },
] as const

it('parts are views of the same memory', () => {
  const data = Float32Array.of(1, 2, 3, 4, 5)
  const parts = splitRows(
    {
      rows: 5,
      bucketKey: '',
      whole: false,
      data: [data, null, ['a', 'b', 'c', 'd', 'e']],
      dims: [[5, 1], [], [5]],
    },
    2,
    inputs,
  )
  expect(parts.map(({ rows }) => rows)).toEqual([2, 2, 1])
  expect(parts.map((own) => own.data)).toEqual([
    [Float32Array.of(1, 2), null, ['a', 'b']],
    [Float32Array.of(3, 4), null, ['c', 'd']],
    [Float32Array.of(5), null, ['e']],
  ])
  expect(parts.every(({ isPart }) => isPart)).toBe(true)
  expect(parts.every((own) => (own.data[0] as Float32Array).buffer === data.buffer)).toBe(true)
  expect(parts[2]!.dims).toEqual([[1, 1], [], [1]])
})

it('an output named __proto__ is joined like any other', () => {
  const parts = [1, 2].map((value) =>
    Object.fromEntries([['__proto__', new Tensor('float32', Float32Array.of(value), [1])]]),
  )
  const outputs = joinRows(parts, whole) as AnyOutputs
  expect(Object.keys(outputs)).toEqual(['__proto__'])
  expect((outputs.__proto__ as Tensor).data).toEqual(Float32Array.of(1, 2))
})
