import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { decodeImage, imageConcurrency, imageDims } from '../../src/features/image/exports.ts'
import { type Feeds, InferenceEngine, InferenceError, type Model, Tensor } from '../../src/index.ts'
import { identity, identityVariable } from '../models/small.ts'
import { sharedEngine } from '../support/open.ts'
import { expectNoPattern, fillSlots } from '../support/slot-pattern.ts'
import { type Bench, benchOfTwoInputs, keepsGoodOnesWell, refusedAmongGoodOnes } from './among-good-ones.ts'
import { expectNoWarnings, expectRefusal, type Refusal, rejectionOf } from './refusal.ts'

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

describe('array tricks', () => {
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
    it.each([0, 3, 5])(
      'is refused alone when it has not the length that it says, but %i',
      async (elements) => {
        const received = elements === 0 ? 'an empty or detached buffer' : elements
        const refusal = { argument: "input 'a'", expected: /4 elements/, received }
        await refusedAmongGoodOnes(bench, () => bench.model.infer({ a: make(elements), b }), refusal)
        const tensor = { type: 'float32', dims: [1, 4], data: make(elements) }
        await refusedAmongGoodOnes(
          bench,
          () => bench.model.infer({ a: tensor, b } as unknown as Feeds),
          refusal,
        )
      },
    )

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
})

expectNoWarnings()

const path = identity('float32')
const fails = (): never => {
  throw new Error("from the caller's own code")
}
const traps = {
  get: fails,
  has: fails,
  ownKeys: fails,
  getPrototypeOf: fails,
  getOwnPropertyDescriptor: fails,
}
function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** Values that throw whatever is done with them. */
const values: [what: string, make: () => unknown][] = [
  ['an object whose traps throw', () => new Proxy({}, traps)],
  ['an array whose traps throw', () => new Proxy([], traps)],
  ['a revoked object', () => revoked({})],
  ['a revoked array', () => revoked([])],
  [
    'a getter that throws for every option',
    () =>
      Object.defineProperties(
        {},
        Object.fromEntries(
          ['path', 'cpuWorkers', 'timeoutMs', 'outputs', 'models', 'maxInFlight', 'width', 'into'].map(
            (name) => [name, { get: fails, enumerable: true }],
          ),
        ),
      ),
  ],
]

const calls: [what: string, call: (value: never, engine: InferenceEngine) => unknown][] = [
  ['new InferenceEngine(options)', (value) => new InferenceEngine(value)],
  ['engine.load(name)', (value, engine) => engine.load(value, { path })],
  ['engine.load(name, config)', (value, engine) => engine.load('second', value)],
  [
    'engine.load(name, { instanceGroup })',
    (value, engine) => engine.load('second', { path, instanceGroup: value }),
  ],
  [
    'engine.load(name, { dynamicBatching })',
    (value, engine) => engine.load('second', { path, dynamicBatching: value }),
  ],
  [
    'engine.load(name, { sessionOptions })',
    (value, engine) => engine.load('second', { path, sessionOptions: value }),
  ],
  [
    'engine.load(name, { sessionOptions: { extra } })',
    (value, engine) => engine.load('second', { path, sessionOptions: { extra: value } }),
  ],
  [
    'engine.load(name, { sessionOptions: { logId } })',
    (value, engine) => engine.load('second', { path, sessionOptions: { logId: value } }),
  ],
  [
    'engine.load(name, { executionProviders })',
    (value, engine) => engine.load('second', { path, executionProviders: value }),
  ],
  [
    'engine.load(name, { warmup: [{ feeds }] })',
    (value, engine) => engine.load('second', { path, warmup: [{ feeds: value }, value] }),
  ],
  ['engine.loadRepository(path)', (value, engine) => engine.loadRepository(value)],
  ['engine.loadRepository(path, options)', (value, engine) => engine.loadRepository('.', value)],
  [
    'engine.loadRepository(path, { models })',
    (value, engine) => engine.loadRepository('.', { models: value, onNote: value }),
  ],
  ['engine.infer(name)', (value, engine) => engine.infer(value, {})],
  ['engine.unload(name)', (value, engine) => engine.unload(value)],
  ['engine.close(options)', (value, engine) => engine.close(value)],
  ['engine.close({ timeoutMs })', (value, engine) => engine.close({ timeoutMs: value })],
  [
    'model.infer(feeds, options)',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, value),
  ],
  [
    'model.infer(feeds, { outputs })',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, { outputs: value }),
  ],
  [
    'model.infer(feeds, { signal })',
    (value, engine) => engine.infer('first', { x: new Float32Array(4) }, { signal: value }),
  ],
  ['model.inferMany(source)', (value, engine) => engine.models()[0]!.inferMany(value).next()],
  ['model.inferMany(source, options)', (value, engine) => engine.models()[0]!.inferMany([], value).next()],
  ['decodeImage(source)', (value) => decodeImage(value, { width: 1, height: 1 })],
  ['decodeImage(source, options)', (value) => decodeImage(Buffer.alloc(9), value)],
  [
    'decodeImage(source, { mean })',
    (value) =>
      decodeImage(Buffer.alloc(9), { width: 1, height: 1, mean: value, std: value, background: value }),
  ],
  [
    'decodeImage(source, { formats })',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1, formats: value }),
  ],
  [
    'decodeImage(source, options, target)',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1 }, value),
  ],
  [
    'decodeImage(source, options, { into })',
    (value) => decodeImage(Buffer.alloc(9), { width: 1, height: 1 }, { into: value }),
  ],
  ['imageDims(options)', (value) => imageDims(value)],
  ['imageConcurrency(concurrency)', (value) => imageConcurrency(value)],
]

describe.each(values)('%s', (_, make) => {
  it('is answered with an InferenceError by every public function, and the engine serves on', async () => {
    const engine = new InferenceEngine({ cpuWorkers: 1 })
    onTestFinished(() => engine.destroy())
    await engine.load('first', { path })
    for (const [what, call] of calls) {
      let error: unknown
      try {
        await call(make() as never, engine)
      } catch (reason) {
        error = reason
      }
      expect(error, what).toBeInstanceOf(InferenceError)
      expect((error as InferenceError).message.length, what).toBeLessThan(1000)
    }
    const { y } = await engine.infer('first', { x: Float32Array.of(1, 2, 3, 4) })
    expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 4])
  })
})
