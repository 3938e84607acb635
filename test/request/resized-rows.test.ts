import { describe, expect, it } from 'vitest'
import { copyResized } from '../../src/request/padding.ts'
import { storageOf, type ElementType, type TensorData } from '../../src/tensor/tensor.ts'
import { mulberry32 } from '../models/random.ts'

type Numbers = number[] | bigint[]

/** The same, element by element. */
function resized(
  source: Numbers,
  target: Numbers,
  targetAt: number,
  outer: number,
  inner: number,
  from: number,
  to: number,
  fill: number | bigint,
): Numbers {
  const result = [...target]
  for (let block = 0; block < outer; block++) {
    for (let at = 0; at < to * inner; at++)
      result[targetAt + block * to * inner + at] =
        at < from * inner ? source[block * from * inner + at]! : fill
  }
  return result as Numbers
}

describe('rows that are brought to another length', () => {
  const types: ElementType[] = ['uint8', 'float16', 'float32', 'int64', 'float64', 'bool']

  it.each(types)('are those that a loop over their elements gives, however many, of %s', (type) => {
    const random = mulberry32(3)
    const upTo = (most: number) => Math.floor(random() * (most + 1))
    const Storage = storageOf(type) as unknown as {
      new (length: number): TensorData
      from(values: Numbers): TensorData
    }
    const wide = type === 'int64'
    const numbers = (count: number) =>
      Array.from({ length: count }, () => (wide ? BigInt(upTo(100)) : upTo(100))) as Numbers
    for (let round = 0; round < 60; round++) {
      const [outer, inner, from, to, targetAt] = [upTo(100), 1 + upTo(3), upTo(9), upTo(9), upTo(5)]
      const source = numbers(outer * inner * from)
      const target = numbers(targetAt + outer * inner * to + 3)
      const fill = wide ? 7n : 7
      const data = Storage.from(target)
      copyResized(Storage.from(source), 0, data, targetAt, outer, inner, from, to, fill)
      expect([...(data as Float32Array)]).toEqual(
        resized(source, target, targetAt, outer, inner, from, to, fill),
      )
    }
  })
})
