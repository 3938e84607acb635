import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { InferenceEngine, Tensor, type Feeds, type Model } from '../../src/index.ts'
import { identity, identityVariable } from '../models/small.ts'
import { sharedEngine } from '../support/open.ts'
import { expectNoPattern, fillSlots } from '../support/slot-pattern.ts'
import { benchOfTwoInputs, refusedAmongGoodOnes, type Bench } from './among-good-ones.ts'
import { expectNoWarnings, expectRefusal, rejectionOf } from './refusal.ts'

let bench: Bench
beforeAll(async () => void (bench = await benchOfTwoInputs()))
afterAll(() => bench.engine.close())
expectNoWarnings()
beforeEach(fillSlots)
afterEach(() => vi.restoreAllMocks())

const b = new BigInt64Array(1)
/** What says of itself what a real array of four numbers would. */
const pretends = {
  length: 4,
  byteLength: 16,
  byteOffset: 0,
  buffer: new ArrayBuffer(16),
  [Symbol.toStringTag]: 'Float32Array',
}

/** A subclass, an instance and a prototype that pretend: each given an empty array, or any other. */
class Pretender extends Float32Array {}
for (const [name, value] of Object.entries(pretends))
  Object.defineProperty(Pretender.prototype, name, { get: () => value })
const withOwn = (data: Float32Array) => {
  for (const [name, value] of Object.entries(pretends)) Object.defineProperty(data, name, { value })
  return data
}
const tricks: [what: string, make: (elements: number) => Float32Array][] = [
  ['of a class of its own', (elements) => new Pretender(elements)],
  ['with properties of its own', (elements) => withOwn(new Float32Array(elements))],
  ['with another prototype', (elements) => Object.setPrototypeOf(new Float32Array(elements), pretends)],
]

describe.each(tricks)('an array %s', (_, make) => {
  it.each([0, 3, 5])('is refused alone when it has not the length that it says, but %i', async (elements) => {
    const received = elements === 0 ? 'an empty or detached buffer' : elements
    const refusal = { argument: "input 'a'", expected: /4 elements/, received }
    await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: make(elements), b }), refusal)
    const tensor = { type: 'float32', dims: [1, 4], data: make(elements) }
    await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: tensor, b } as unknown as Feeds), refusal)
  })

  it('is refused alone when it is emptied after infer() was called', async () => {
    const data = make(4)
    const emptied = () => {
      const call = bench.model.infer({ a: data, b })
      const buffer = Object.getOwnPropertyDescriptor(
        Object.getPrototypeOf(Uint8Array.prototype),
        'buffer',
      )!.get!.call(data) as ArrayBuffer
      structuredClone(buffer, { transfer: [buffer] })
      return call
    }
    await refusedAmongGoodOnes(
      bench,
      emptied,
      { argument: "input 'a'", expected: /4 elements/, received: 0 },
      true,
    )
  })

  it('is taken for the elements it has', async () => {
    const data = make(4)
    Float32Array.prototype.set.call(data, [1, 2, 3, 4])
    const answers = await Promise.all([
      bench.model.infer({ a: data, b }),
      bench.model.infer({ a: new Float32Array(4), b }),
    ])
    expect(answers.map(({ y }) => [...(y!.data as Float32Array)])).toEqual([
      [1, 2, 3, 4],
      [0, 0, 0, 0],
    ])
  })
})

it('an array of another kind stays what it is, whatever its tag says', async () => {
  const data = Object.defineProperty(new Uint32Array(4), Symbol.toStringTag, { value: 'Float32Array' })
  await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: data, b }), {
    argument: "input 'a'",
    expected: /Float32Array/,
  })
})

it('a proxy of an array is no array', async () => {
  const data = new Proxy(new Float32Array(4), {})
  await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: data, b }), {
    argument: "input 'a'",
    expected: /Float32Array/,
  })
})

it('arrays of another realm are taken as those of this one', async () => {
  const a = runInNewContext('Float32Array.of(1, 2, 3, 4)') as Float32Array
  const dims = runInNewContext('[1, 1]') as number[]
  const { y } = await bench.model.infer({
    a,
    b: { type: 'int64', dims, data: runInNewContext('BigInt64Array.of(5n)') },
  } as unknown as Feeds)
  expect([...(y!.data as Float32Array)]).toEqual([6, 7, 8, 9])
})

describe('an array whose parts are made by its own class', () => {
  /** Of every part of it, someone else's: longer, or shorter. */
  const species = (elements: number) =>
    class extends Float32Array {
      static get [Symbol.species](): Float32ArrayConstructor {
        return function () {
          return new Float32Array(elements).fill(99)
        } as unknown as Float32ArrayConstructor
      }
    }
  const engine = sharedEngine({ cpuWorkers: 1 })
  const padding = { input: 'x', dim: 1, sizes: [4], outputs: [{ name: 'y', dim: 1 }] }

  it.each([0, 1, 400])('is padded as what it is (%i)', async (elements) => {
    const model = await engine.load(`padded-${elements}`, { path: identityVariable('float32'), padding })
    const x = {
      type: 'float32',
      dims: [2, 3],
      data: new (species(elements))([1, 2, 3, 4, 5, 6]),
    } as unknown as Tensor
    const { y } = await model.infer({ x })
    expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4, 5, 6])
  })

  it.each([0, 1, 400])('is split as what it is (%i)', async (elements) => {
    const model = await engine.load(`split-${elements}`, {
      path: identity('float32', [1]),
      maxBatchSize: 2,
      splitOversized: true,
    })
    const x = {
      type: 'float32',
      dims: [5, 1],
      data: new (species(elements))([1, 2, 3, 4, 5]),
    } as unknown as Tensor
    const { y } = await model.infer({ x })
    expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4, 5])
  })
})

describe('shared memory that another thread may change', () => {
  const grown = () => new SharedArrayBuffer(16, { maxByteLength: 64 })

  it('is taken at the length it was checked with, or refused', async () => {
    const buffer = grown()
    const refusal = { argument: "input 'a'", expected: /4 elements/, received: 16 }
    const growing = () => {
      const call = bench.model.infer({ a: new Float32Array(buffer), b })
      buffer.grow(64)
      return call
    }
    await refusedAmongGoodOnes(bench, growing, refusal, true)
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
  const holes = (length: number) => Object.assign<unknown[], object>([], { length })
  const infer = (x: unknown) => model.infer({ x: x as string[] })

  it('is not copied before its length is known to be right', async () => {
    let reads = 0
    const huge = new Proxy(holes(1_000_000_000), {
      get: (target, name) => {
        if (name !== 'length' && name !== 'constructor' && typeof name === 'string') reads++
        return Reflect.get(target, name) as unknown
      },
    })
    expectRefusal(await rejectionOf(() => infer(huge)), {
      argument: "input 'x'",
      expected: /2 strings/,
      received: 1_000_000_000,
    })
    expect(reads).toBe(0)
  })

  it('is copied no further than to its first hole', async () => {
    const dims = [1_000_000_000, 2]
    const data = holes(2_000_000_000)
    const anyRows = await engine.load('any-rows', { path: identity('string', [2]), maxBatchSize: 0 })
    expectRefusal(
      await rejectionOf(() => anyRows.infer({ x: { type: 'string', dims, data } as unknown as Tensor })),
      { argument: "input 'x'[0]", expected: /a string/ },
    )
  })

  it('is read once, whatever it says the second time', async () => {
    let reads = 0
    const data = Object.defineProperty(['a', 'b'], 1, { get: () => (reads++ === 0 ? 'b' : 7) })
    expect((await infer(data)).y!.data).toEqual(['a', 'b'])
    expect(reads).toBe(1)
  })

  it('is read by its indices, whatever it gives when it is spread', async () => {
    const data = Object.assign(['a', 'b'], { [Symbol.iterator]: () => ['c'].values() })
    expect((await infer(data)).y!.data).toEqual(['a', 'b'])
  })
})

it('with every slot filled with a pattern, nobody is shown it', async () => {
  const answers = await Promise.all(
    [1, 2, 3].map((value) => bench.model.infer({ a: new Float32Array(4).fill(value), b })),
  )
  for (const outputs of answers) expectNoPattern(outputs)
})
