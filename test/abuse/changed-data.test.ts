import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { InferenceEngine, Tensor, type Model } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { benchOfTwoInputs, refusedAmongGoodOnes, type Bench } from './among-good-ones.ts'
import { expectNoWarnings } from './refusal.ts'

let bench: Bench
beforeAll(async () => void (bench = await benchOfTwoInputs()))
afterAll(() => bench.engine.close())
expectNoWarnings()

const b = new BigInt64Array(1)
/** A bad request: `change` is called once infer() has accepted it, and before its batch is formed. */
function changing(data: Float32Array, change: () => void, dims: readonly number[] | null = null) {
  return () => {
    const a = dims === null ? data : new Tensor('float32', data, dims)
    const call = bench.model.infer({ a, b })
    change()
    return call
  }
}

describe('a request whose data change after infer() was called is refused alone', () => {
  const refusal = { argument: "input 'a'", expected: /4 elements/, received: 0 }

  it('when its buffer was transferred', async () => {
    const data = new Float32Array(4)
    const transfer = () => void structuredClone(data.buffer, { transfer: [data.buffer] })
    await refusedAmongGoodOnes(bench, changing(data, transfer), refusal, true)
  })

  it('when the buffer of its tensor was transferred', async () => {
    const data = new Float32Array(4)
    const transfer = () => void structuredClone(data.buffer, { transfer: [data.buffer] })
    await refusedAmongGoodOnes(bench, changing(data, transfer, [1, 4]), refusal, true)
  })

  it('when its buffer was made smaller', async () => {
    const buffer = new ArrayBuffer(16, { maxByteLength: 64 })
    const shrink = () => buffer.resize(4)
    await refusedAmongGoodOnes(
      bench,
      changing(new Float32Array(buffer), shrink),
      { ...refusal, received: 1 },
      true,
    )
  })

  it('when its buffer was made larger', async () => {
    const buffer = new ArrayBuffer(16, { maxByteLength: 64 })
    const grow = () => buffer.resize(64)
    await refusedAmongGoodOnes(
      bench,
      changing(new Float32Array(buffer), grow),
      { ...refusal, received: 16 },
      true,
    )
  })
})

describe('a request that shares its batch with one whose data were changed', () => {
  const emptied = (model: Model) => {
    const data = new Float32Array(4)
    const refused = expect(model.infer({ x: data })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
    structuredClone(data.buffer, { transfer: [data.buffer] })
    return refused
  }

  it('is answered before its model is gone', async () => {
    await using engine = new InferenceEngine({ cpuWorkers: 1 })
    const model = await engine.load('m', { path: identity('float32'), maxBatchSize: 8 })
    const x = Float32Array.of(1, 2, 3, 4)
    const answered = model.infer({ x })
    const refused = emptied(model)
    const unloaded = model.unload()
    await refused
    expect((await answered).y!.data).toEqual(x)
    await unloaded
  })
})

describe('an array of strings', () => {
  let engine: InferenceEngine
  let model: Model
  beforeAll(async () => {
    engine = new InferenceEngine({ cpuWorkers: 1 })
    model = await engine.load('strings', { path: identity('string', [2]), maxBatchSize: 8 })
  })
  afterAll(() => engine.close())

  const wrong: [what: string, x: unknown, argument: string][] = [
    ['a number', ['a', 5], "input 'x'[1]"],
    ['undefined', ['a', undefined], "input 'x'[1]"],
    ['a String object', [Object('a'), 'b'], "input 'x'[0]"],
    ['too few', ['a'], "input 'x'"],
    ['too many', ['a', 'b', 'c'], "input 'x'"],
    ['bytes instead', new Uint8Array(2), "input 'x'"],
  ]
  it.each(wrong)('is refused alone with %s in it', async (_, x, argument) => {
    const good = model.infer({ x: ['good', 'one'] })
    const bad = model.infer({ x: x as string[] })
    const alsoGood = model.infer({ x: ['another', 'one'] })
    await expect(bad).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
      expected: expect.any(String),
    })
    expect([(await good).y!.data, (await alsoGood).y!.data]).toEqual([
      ['good', 'one'],
      ['another', 'one'],
    ])
  })

  it('may be changed after infer() was called: what was checked is what is run', async () => {
    const x = ['before', 'the call']
    const good = model.infer({ x: ['good', 'one'] })
    const call = model.infer({ x })
    const values = x as unknown[]
    values[0] = 5
    values[1] = () => 'cannot be sent to another thread'
    values.push('more')
    expect([(await good).y!.data, (await call).y!.data]).toEqual([
      ['good', 'one'],
      ['before', 'the call'],
    ])
  })
})
