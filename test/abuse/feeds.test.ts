import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Tensor, type Feeds } from '../../src/index.ts'
import { benchOfTwoInputs, keepsGoodOnesWell, refusedAmongGoodOnes, type Bench } from './among-good-ones.ts'
import { expectNoWarnings, type Refusal } from './refusal.ts'

let bench: Bench
beforeAll(async () => void (bench = await benchOfTwoInputs()))
afterAll(() => bench.engine.close())
expectNoWarnings()

const a = new Float32Array(4)
const b = new BigInt64Array(1)
const zeros = (dims: readonly number[]) => new Float32Array(dims.reduce((x, y) => x * y, 1))
const tensor = (dims: readonly number[], type = 'float32', data: unknown = zeros(dims)) =>
  new Tensor(type as 'float32', data as Float32Array, dims)
/** What only looks like a tensor: nobody has checked it before. */
const fake = (dims: unknown, data: unknown = new Float32Array(4), type: unknown = 'float32') => ({
  type,
  dims,
  data,
})

function detached(): Float32Array {
  const data = new Float32Array(4)
  structuredClone(data.buffer, { transfer: [data.buffer] })
  return data
}

function shrunk(): Float32Array {
  const buffer = new ArrayBuffer(16, { maxByteLength: 64 })
  const data = new Float32Array(buffer)
  buffer.resize(8)
  return data
}

function disposed(): Tensor {
  const value = tensor([1, 4])
  value.dispose()
  return value
}

function holed(): number[] {
  const dims: number[] = []
  dims[1] = 4
  return dims
}

const noBuffer = 'an empty or detached buffer'
const inputA = { argument: "input 'a'" }
type Case = [what: string, feeds: () => unknown, refusal: Refusal]

const cases: Record<string, Case[]> = {
  'the feeds are not an object of inputs': [
    ['undefined', () => undefined, { argument: 'feeds', received: undefined }],
    ['null', () => null, { argument: 'feeds', received: null }],
    ['a number', () => 7, { argument: 'feeds', received: 7 }],
    ['a string', () => 'a', { argument: 'feeds', received: 'a' }],
    ['an array', () => [a, b], { argument: 'feeds' }],
    [
      'a Promise of them',
      () => Promise.resolve({ a, b }),
      { argument: 'feeds', expected: /object of inputs/ },
    ],
    ['a typed array', () => a, { argument: 'feeds', received: 'Float32Array(4)' }],
    ['a tensor', () => tensor([1, 4]), { argument: 'feeds' }],
    ['a function', () => () => ({ a, b }), { argument: 'feeds' }],
    ['a Map', () => new Map(Object.entries({ a, b })), inputA],
  ],
  'the names are wrong': [
    ['none at all', () => ({}), { ...inputA, expected: /given/ }],
    ['one is missing', () => ({ a }), { argument: "input 'b'", expected: /given/ }],
    ['one is undefined', () => ({ a, b: undefined }), { argument: "input 'b'" }],
    ['one is too many', () => ({ a, b, c: a }), { argument: "input 'c'", received: 'c' }],
    ['one is misspelt', () => ({ A: a, b }), { ...inputA, received: ['A'] }],
  ],
  'a type is wrong': [
    [
      'a tensor of another type',
      () => ({ a: tensor([1, 4], 'float64', new Float64Array(4)), b }),
      { ...inputA, received: 'float64' },
    ],
    [
      'a tensor of strings',
      () => ({ a: tensor([1, 4], 'string', ['1', '2', '3', '4']), b }),
      { ...inputA, received: 'string' },
    ],
    ['another typed array', () => ({ a: new Float64Array(4), b }), { ...inputA, expected: /Float32Array/ }],
    [
      '32-bit integers for 64-bit ones',
      () => ({ a, b: new Int32Array(1) }),
      { argument: "input 'b'", expected: /BigInt64Array/ },
    ],
    ['an array of numbers', () => ({ a: [1, 2, 3, 4], b }), inputA],
    ['an array of strings', () => ({ a: ['1', '2', '3', '4'], b }), inputA],
    ['a DataView', () => ({ a: new DataView(new ArrayBuffer(16)), b }), inputA],
    ['an ArrayBuffer', () => ({ a: new ArrayBuffer(16), b }), inputA],
    ['a Buffer', () => ({ a: Buffer.alloc(16), b }), inputA],
    ['a number', () => ({ a: 1, b }), { ...inputA, received: 1 }],
    ['null', () => ({ a: null, b }), { ...inputA, received: null }],
    ['a Promise', () => ({ a: Promise.resolve(a), b }), inputA],
  ],
  'a shape is wrong': [
    ['rank too low', () => ({ a: tensor([4]), b }), { ...inputA, expected: /rank 2/, received: [4] }],
    ['rank too high', () => ({ a: tensor([1, 1, 4]), b }), { ...inputA, expected: /rank 2/ }],
    ['a scalar', () => ({ a: tensor([], 'float32', new Float32Array(1)), b }), { ...inputA, received: [] }],
    [
      'a dimension too small',
      () => ({ a: tensor([1, 3]), b }),
      { ...inputA, expected: /shape \[N, 4\]/, received: [1, 3] },
    ],
    ['a dimension too large', () => ({ a: tensor([1, 5]), b }), { ...inputA, received: [1, 5] }],
    ['a dimension of zero', () => ({ a: tensor([1, 0]), b }), { ...inputA, received: [1, 0] }],
    [
      'more rows than maxBatchSize',
      () => ({ a: tensor([9, 4]), b: tensor([9, 1], 'int64', new BigInt64Array(9)) }),
      { ...inputA, received: 9 },
    ],
    [
      'other rows in the second input',
      () => ({ a: tensor([2, 4]), b: tensor([3, 1], 'int64', new BigInt64Array(3)) }),
      { argument: "input 'b'", received: 3 },
    ],
    [
      'several rows beside a bare row',
      () => ({ a: tensor([2, 4]), b }),
      { argument: "input 'b'", received: 1 },
    ],
    [
      'bare data of two rows',
      () => ({ a: new Float32Array(8), b }),
      { ...inputA, expected: /4 elements/, received: 8 },
    ],
    ['bare data of no row', () => ({ a: new Float32Array(0), b }), { ...inputA, expected: /4 elements/ }],
  ],
  'data are gone': [
    ['a detached buffer', () => ({ a: detached(), b }), { ...inputA, received: noBuffer }],
    [
      'a detached buffer in a tensor',
      () => ({ a: fake([1, 4], detached()), b }),
      { ...inputA, received: noBuffer },
    ],
    ['a buffer that was made smaller', () => ({ a: shrunk(), b }), { ...inputA, received: 2 }],
    ['a disposed tensor', () => ({ a: disposed(), b }), { ...inputA, received: 'a disposed tensor' }],
  ],
  'a tensor is not what it says': [
    [
      'more elements than its dims say',
      () => ({ a: fake([1, 4], new Float32Array(5)), b }),
      { ...inputA, received: 5 },
    ],
    ['a negative dimension', () => ({ a: fake([-1, 4]), b }), { ...inputA, received: [-1, 4] }],
    [
      'a fractional dimension',
      () => ({ a: fake([0.5, 4], new Float32Array(2)), b }),
      { ...inputA, received: [0.5, 4] },
    ],
    ['a dimension of NaN', () => ({ a: fake([NaN, 4]), b }), { ...inputA, received: [NaN, 4] }],
    ['an infinite dimension', () => ({ a: fake([Infinity, 4]), b }), inputA],
    ['a dimension past what counts', () => ({ a: fake([2 ** 60, 4]), b }), inputA],
    ['a dimension as text', () => ({ a: fake(['1', 4]), b }), { ...inputA, received: ['1', 4] }],
    ['dims in a typed array', () => ({ a: fake(new Int32Array([1, 4])), b }), inputA],
    ['dims with a hole', () => ({ a: fake(holed()), b }), inputA],
    ['no dims', () => ({ a: fake(undefined), b }), { ...inputA, received: undefined }],
    [
      'a type that there is not',
      () => ({ a: fake([1, 4], new Float32Array(4), 'float33'), b }),
      { ...inputA, received: 'float33' },
    ],
    ['a type of its own making', () => ({ a: fake([1, 4], new Float32Array(4), {}), b }), inputA],
    ['no data', () => ({ a: fake([1, 4], null), b }), { ...inputA, received: null }],
    ['an array of numbers as data', () => ({ a: fake([1, 4], [1, 2, 3, 4]), b }), inputA],
    ['data on another device', () => ({ a: { ...fake([1, 4]), location: 'gpu-buffer' }, b }), inputA],
  ],
}

describe.each(Object.entries(cases))('a request is refused alone when %s', (_, table) => {
  it.each(table)('%s', (_what, feeds, refusal) =>
    refusedAmongGoodOnes(bench, () => bench.model.infer(feeds() as Feeds), refusal),
  )
})

describe("an exception out of something of the caller's own is the cause of the refusal", () => {
  const thrown = new Error('from a getter')
  const throws = (): never => {
    throw thrown
  }
  const throwing = (property: string, rest: object) =>
    Object.defineProperty({ ...rest }, property, { get: throws, enumerable: true })
  const revoked = () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }
  const own: [what: string, feeds: () => unknown][] = [
    ['a getter of the feeds', () => throwing('a', { b })],
    ['a getter of the type', () => ({ a: throwing('type', fake([1, 4])), b })],
    ['a getter of the dims', () => ({ a: throwing('dims', fake([1, 4])), b })],
    ['a getter of the data', () => ({ a: throwing('data', fake([1, 4])), b })],
    ['a getter of one dimension', () => ({ a: fake(Object.defineProperty([1, 4], 1, { get: throws })), b })],
    ['a trap of a proxy', () => new Proxy({ a, b }, { get: throws })],
  ]
  it.each(own)('%s', async (_, feeds) => {
    const error = await keepsGoodOnesWell(bench, () => bench.model.infer(feeds() as Feeds))
    expect(error).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'feeds',
      cause: thrown,
      message: expect.stringContaining('from a getter'),
    })
  })

  it('a proxy that was revoked', async () => {
    const error = await keepsGoodOnesWell(bench, () => bench.model.infer(revoked() as Feeds))
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'feeds', cause: expect.any(TypeError) })
  })
})
