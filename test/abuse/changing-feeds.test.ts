import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Tensor, type Feeds } from '../../src/index.ts'
import { benchOfTwoInputs, refusedAmongGoodOnes, type Bench } from './among-good-ones.ts'
import { expectNoWarnings } from './refusal.ts'

let bench: Bench
beforeAll(async () => void (bench = await benchOfTwoInputs()))
afterAll(() => bench.engine.close())
expectNoWarnings()

const b = new BigInt64Array(1)
const whole = () => ({ type: 'float32', dims: [1, 4], data: Float32Array.of(1, 2, 3, 4) })

/** `object` with a property that is something else from its second reading on, and how often it was read. */
function changing<T extends object>(object: T, property: string | number, later: unknown) {
  const first = (object as Record<string | number, unknown>)[property]
  let reads = 0
  Object.defineProperty(object, property, { get: () => (reads++ === 0 ? first : later), enumerable: true })
  return { object, reads: () => reads }
}

const answer = async (a: unknown) => [
  ...((await bench.model.infer({ a, b } as Feeds)).y!.data as Float32Array),
]

describe('what a caller gives is read once', () => {
  const properties: [property: string, later: unknown][] = [
    ['dims', [2, 4]],
    ['dims', [NaN, 4]],
    ['data', new Float32Array(0)],
    ['type', 'int64'],
  ]
  it.each(properties)('the %s of a tensor, though they are %j later', async (property, later) => {
    const { object, reads } = changing(whole(), property, later)
    expect(await answer(object)).toEqual([1, 2, 3, 4])
    expect(reads()).toBe(1)
  })

  it.each([
    [0, NaN],
    [0, 2],
    [1, 0],
    [1, Infinity],
  ])('dimension %i, though it is %d later', async (axis, later) => {
    const tensor = whole()
    const { reads } = changing(tensor.dims, axis, later)
    expect(await answer(tensor)).toEqual([1, 2, 3, 4])
    expect(reads()).toBe(1)
    expect(bench.model.capacity().estimatedMs).toBeGreaterThan(0) // and not NaN for ever
    expect(Number.isFinite(bench.model.capacity().estimatedMs)).toBe(true)
  })

  it('an input of the feeds', async () => {
    const { object, reads } = changing({ a: Float32Array.of(1, 2, 3, 4), b }, 'a', new Float32Array(1))
    const { y } = await bench.model.infer(object)
    expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4])
    expect(reads()).toBe(1)
  })

  it('dims that are changed after infer() was called', async () => {
    const tensor = whole()
    const call = answer(tensor)
    tensor.dims.push(9)
    tensor.dims[0] = 8
    expect(await call).toEqual([1, 2, 3, 4])
  })
})

describe('a request is refused alone', () => {
  const refusal = { argument: "input 'a'" }

  it('when what is read once is not right', async () => {
    const { object } = changing({ ...whole(), dims: [2, 4] }, 'dims', [1, 4])
    await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: object, b } as unknown as Feeds), {
      ...refusal,
      expected: /8 elements/,
      received: 4,
    })
  })

  it('when its dims have another length than elements', async () => {
    const dims = new Proxy([1, 4], {
      get: (target, name) => (name === 'length' ? 3 : Reflect.get(target, name)),
    })
    await refusedAmongGoodOnes(
      bench,
      () => bench.model.infer({ a: { ...whole(), dims }, b } as unknown as Feeds),
      { ...refusal, expected: /rank 2/ },
    )
  })

  it('when a dimension says that it is a number', async () => {
    const dims = [{ valueOf: () => 1 }, 4]
    await refusedAmongGoodOnes(
      bench,
      () => bench.model.infer({ a: { ...whole(), dims }, b } as unknown as Feeds),
      { ...refusal, expected: /whole numbers/ },
    )
  })
})

it('a tensor of onnxruntime-common may be used again while its first request waits', async () => {
  const tensor = new Tensor('float32', Float32Array.of(1, 2, 3, 4), [1, 4])
  expect(await Promise.all([answer(tensor), answer(tensor)])).toEqual([
    [1, 2, 3, 4],
    [1, 2, 3, 4],
  ])
})
