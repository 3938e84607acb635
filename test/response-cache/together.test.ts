import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import {
  Tensor,
  type Feeds,
  type FeedValue,
  type Model,
  type ModelOptions,
  type OutputValue,
  type RawTensor,
} from '../../src/index.ts'
import { optionalBias } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { describeNative } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf, reported } from '../scheduling/outcome.ts'

const engine = sharedEngine()
const open = (path: string, options: ModelOptions = {}) =>
  load(engine, path, { responseCache: true, ...options })
const rows = (values: readonly number[], width = 4): Feeds => ({
  x: new Tensor('float32', Float32Array.from(values.flatMap((value) => Array<number>(width).fill(value))), [
    values.length,
    width,
  ]),
})
const valuesOf = (value: unknown) => [...((value as Tensor).data as Float32Array)]
/** How many were run, and how many were not: whether they came while the run was in flight or after it is a matter of time. */
const counts = (model: Model) => {
  const { hits, misses, coalesced } = model.stats().responseCache!
  return [misses, hits + coalesced]
}

describe('a request of several rows', () => {
  it('is one: it is neither answered from its rows nor they from it', async () => {
    const model = await open(small.elementSquares())
    await model.infer(rows([1, 2]))
    expect(valuesOf((await model.infer(rows([1]))).y)).toEqual([1, 1, 1, 1])
    expect(valuesOf((await model.infer(rows([1, 2]))).y)).toEqual([1, 1, 1, 1, 4, 4, 4, 4])
    expect(counts(model)).toEqual([2, 1])
  })

  it('and one of none may be kept', async () => {
    const model = await open(small.elementSquares())
    for (let time = 0; time < 2; time++) expect((await model.infer(rows([]))).y!.dims).toEqual([0, 4])
    expect(counts(model)).toEqual([1, 1])
  })
})

describe('a request that is split', () => {
  const values = Array.from({ length: 10 }, (_, at) => at)
  const squares = values.flatMap((value) => Array<number>(4).fill(value ** 2))

  it('is kept and shared whole', async () => {
    const model = await open(small.elementSquares(), { maxBatchSize: 4, splitOversized: true })
    const [first, joined] = await Promise.all([reported(model, rows(values)), reported(model, rows(values))])
    const hit = await reported(model, rows(values))
    for (const { outputs, report } of [first, joined, hit]) {
      expect(valuesOf(outputs.y)).toEqual(squares)
      expect(report.parts).toHaveLength(3)
    }
    expect([
      joined.report.coalesced ?? joined.report.cached,
      hit.report.cached,
      hit.report.parts![2]!.batchId,
    ]).toEqual([true, true, first.report.parts![2]!.batchId])
    expect(counts(model)).toEqual([1, 2])
    expect(model.stats().inferenceStats.success.count).toBe(3)
    expect(model.stats().inferenceCount).toBe(10)
  })

  it('is withdrawn when all who wait for it are, and times out for each by itself', async () => {
    const model = await open(small.elementSquares(), {
      maxBatchSize: 4,
      splitOversized: true,
      dynamicBatching: { holdUntilQueued: 100 },
    })
    const leaves = new AbortController()
    const calls = [{ signal: leaves.signal }, { signal: leaves.signal }, { timeoutMs: 5 }].map((options) =>
      outcomeOf(model.infer(rows(values), options)),
    )
    expect(model.stats().pendingRequestCount).toBe(3)
    leaves.abort('left')
    expect(await Promise.all(calls)).toEqual(['left', 'left', 'ERR_TIMEOUT'])
    expect(model.stats().pendingRequestCount).toBe(0)
    expect(model.stats().rejections).toMatchObject({ cancelled: 2, timeout: 1 })
  })
})

describe('padding', () => {
  it('stays out of the answers, and lengths are told apart', async () => {
    const padding = [{ input: 'x', dim: 1, sizes: [8], outputs: [{ name: 'y', dim: 1 }] }]
    const model = await open(small.identityVariable('float32'), { padding })
    for (let time = 0; time < 2; time++) {
      const answers = await Promise.all([3, 5, 3].map((width) => model.infer(rows([2], width))))
      expect(answers.map(({ y }) => [y!.dims, valuesOf(y).length])).toEqual([
        [[1, 3], 3],
        [[1, 5], 5],
        [[1, 3], 3],
      ])
    }
    expect(counts(model)).toEqual([2, 4])
  })
})

describe('preserveOrdering', () => {
  it('holds for what is answered from the cache, or with others, too', async () => {
    const model = await load(ownEngine({ cpuWorkers: 2 }), small.matmulSlow(64, 50), {
      responseCache: true,
      maxBatchSize: 4,
      instanceGroup: [{ kind: 'cpu', count: 2 }],
      dynamicBatching: { preserveOrdering: true },
    })
    await model.infer(rows([1], 64))
    const order: number[] = []
    const sent = [2, 1, 3, 2, 1, 4, 4, 3, 1, 5]
    await Promise.all(
      sent.map((value, at) => outcomeOf(model.infer(rows([value], 64))).then(() => order.push(at))),
    )
    expect(order).toEqual(sent.map((_, at) => at))
    expect(counts(model)).toEqual([5, 6])
  })

  it('gives way to what is withdrawn or refused, and errors keep their place', async () => {
    const model = await load(ownEngine(), small.gatherRow(), {
      responseCache: true,
      maxBatchSize: 4,
      sessionOptions: { logSeverityLevel: 4 },
      dynamicBatching: { preserveOrdering: true, defaultQueuePolicy: { maxQueueSize: 5 } },
    })
    const index = (value: bigint) => ({ index: new Tensor('int64', BigInt64Array.from([value]), [1, 1]) })
    await model.infer(index(1n))
    const leaves = new AbortController()
    const order: number[] = []
    const calls = [
      model.infer(index(99n)),
      model.infer(index(2n), { signal: leaves.signal }),
      model.infer(index(1n), { signal: leaves.signal }),
      model.infer(index(1n)),
      model.infer(index(3n)),
      model.infer(index(4n)),
      model.infer(index(99n)),
    ].map((call, at) => outcomeOf(call).finally(() => order.push(at)))
    leaves.abort('left')
    expect(await Promise.all(calls)).toEqual([
      'ERR_EXECUTION',
      'left',
      'left',
      'answered',
      'answered',
      'ERR_QUEUE_FULL',
      'ERR_EXECUTION',
    ])
    expect(order.filter((at) => [0, 3, 4, 6].includes(at))).toEqual([0, 3, 4, 6])
    const { success, fail } = model.stats().inferenceStats
    expect(success.count + fail.count).toBe(8)
  })
})

describe('optional inputs', () => {
  it('that are left out are not the same as those that are given', async () => {
    const model = await open(optionalBias(), { optionalInputs: ['bias'] })
    const zeros = { bias: rows([0])['x']! }
    for (let time = 0; time < 2; time++) {
      for (const feeds of [rows([1]), { ...rows([1]), ...zeros }])
        expect(valuesOf((await model.infer(feeds)).y)).toEqual([1, 1, 1, 1])
    }
    expect(counts(model)).toEqual([2, 2])
  })
})

describe('inferMany', () => {
  it('runs equal items once', async () => {
    const model = await open(small.elementSquares())
    const results: number[] = []
    for await (const { outputs } of model.inferMany(Array.from({ length: 30 }, (_, at) => rows([at % 3]))))
      results.push(valuesOf(outputs!.y)[0]!)
    expect(results).toEqual(Array.from({ length: 30 }, (_, at) => (at % 3) ** 2))
    expect(counts(model)).toEqual([3, 27])
    expect(model.stats().inferenceCount).toBe(3)
  })
})

describe('rejectNonFinite', () => {
  it('refuses the same again, of inputs and of outputs', async () => {
    const infinite = rows([Infinity])
    const inputs = await open(small.elementSquares(), { rejectNonFinite: 'inputs' })
    expect(await outcomesOf([inputs.infer(infinite), inputs.infer(infinite)])).toEqual([
      'ERR_INVALID_ARG',
      'ERR_INVALID_ARG',
    ])
    expect(counts(inputs)).toEqual([0, 0])
    const outputs = await open(small.elementSquares(), { rejectNonFinite: 'outputs' })
    expect(
      await outcomesOf([outputs.infer(infinite), outputs.infer(infinite), outputs.infer(rows([2]))]),
    ).toEqual(['ERR_EXECUTION', 'ERR_EXECUTION', 'answered'])
    expect(await outcomeOf(outputs.infer(infinite))).toBe('ERR_EXECUTION')
    expect(counts(outputs)).toEqual([3, 1])
    expect(outputs.stats().rejections.execution).toBe(3)
  })
})

describe('a model whose requests are not joined', () => {
  it('keeps and shares its answers as well', async () => {
    const model = await open(small.identityUnbatched('float32', [2, 3]))
    const feeds = (value: number) => ({ x: new Tensor('float32', new Float32Array(6).fill(value), [2, 3]) })
    const answers = await Promise.all([1, 2, 1].map((value) => model.infer(feeds(value))))
    expect(answers.map(({ y }) => valuesOf(y)[0])).toEqual([1, 2, 1])
    expect(valuesOf((await model.infer(feeds(2))).y)[0]).toBe(2)
    expect(counts(model)).toEqual([2, 2])
  })

  it('tells a request that runs alone as it is from one in rows', async () => {
    const model = await open(small.elementSquares(), { splitOversized: true })
    const many = Array.from({ length: 100 }, (_, at) => at)
    for (const splitOversized of [true, false, true, false]) {
      expect(valuesOf((await model.infer(rows(many), { splitOversized })).y)).toEqual(
        many.flatMap((value) => Array<number>(4).fill(value ** 2)),
      )
    }
    expect(counts(model)).toEqual([2, 2])
  })
})

describe('while a model is closed', () => {
  it('what was shared comes to its end', async () => {
    const own = ownEngine()
    const model = await load(own, small.elementSquares(), {
      responseCache: true,
      dynamicBatching: { maxQueueDelayMs: 600_000, preferredBatchSize: 4 },
    })
    const calls = [1, 1, 2].map((value) => outcomeOf(model.infer(rows([value]))))
    await until(() => model.stats().pendingRequestCount === 2)
    await own.close()
    expect(await Promise.all(calls)).toEqual(['answered', 'answered', 'answered'])
  })

  it('at once, all are rejected', async () => {
    const own = ownEngine()
    const model = await load(own, small.elementSquares(), {
      responseCache: true,
      dynamicBatching: { holdUntilQueued: 100 },
    })
    const calls = [1, 1, 2].map((value) => outcomeOf(model.infer(rows([value]))))
    await own.destroy()
    expect(await Promise.all(calls)).toEqual(['ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED'])
    expect(model.stats().rejections.closed).toBe(3)
  })
})

/** A value with what can be compared of it. */
function shown(value: OutputValue | FeedValue): unknown {
  if (Array.isArray(value)) return value.map((each) => shown(each as OutputValue))
  if (value === null || typeof value !== 'object' || value instanceof Map || !('dims' in value)) return value
  const { type, dims, data } = value as Tensor
  return { type, dims: [...dims], data: [...(data as Float32Array)] }
}

/** Asks thrice, two of them at once, and expects the same each time, that nobody else can change. */
async function sameEachTime(path: string, feeds: () => Feeds, options: ModelOptions = {}, on = engine) {
  const plain = await load(on, path, options)
  const expected = Object.entries(await plain.infer(feeds())).map(([name, value]) => [name, shown(value)])
  const model = await load(on, path, { responseCache: true, ...options })
  const answers = await Promise.all([model.infer(feeds()), model.infer(feeds())])
  answers.push(await model.infer(feeds()))
  for (const answer of answers) {
    expect(
      Object.entries(answer as Record<string, OutputValue>).map(([name, value]) => [name, shown(value)]),
    ).toEqual(expected)
    for (const value of Object.values(answer as Record<string, OutputValue>)) spoil(value)
  }
  const last: Record<string, OutputValue> = await model.infer(feeds())
  expect(Object.entries(last).map(([name, value]) => [name, shown(value)])).toEqual(expected)
  expect(counts(model)).toEqual([1, 3])
}

/** Changes all that can be changed. */
function spoil(value: OutputValue): void {
  if (value === null) return
  if (Array.isArray(value)) {
    for (const each of value) spoil(each)
    value.length = 0
  } else if (value instanceof Map) value.clear()
  else if (Array.isArray((value as Tensor).dims))
    ((value as Tensor).data as Float32Array).fill(
      ((value as Tensor).type === 'string'
        ? 'spoilt'
        : (value as Tensor).type.includes('int64')
          ? 9n
          : 9) as never,
    )
  else for (const key of Object.keys(value)) (value as Record<string, number>)[key] = 9
}

describe('inputs and outputs of all kinds', () => {
  it('of strings are told apart by every character', async () => {
    const words = (...data: string[]) => ({
      a: new Tensor('string', data, [1, 2]),
      b: new Tensor('string', ['x', ''], [1, 2]),
    })
    await sameEachTime(small.stringConcat(), () => words('ä', 'b'))
    const model = await open(small.stringConcat())
    const answers = [
      ['ab', ''],
      ['a', 'b'],
      ['', 'ab'],
      ['a', 'b'],
    ].map(async (data) => (await model.infer(words(...data))).y!.data)
    expect(await Promise.all(answers)).toEqual([
      ['abx', ''],
      ['ax', 'b'],
      ['x', 'ab'],
      ['ax', 'b'],
    ])
    expect(counts(model)).toEqual([3, 1])
  })

  it.each([
    'float32',
    'float64',
    'float16',
    'int8',
    'uint8',
    'int16',
    'uint16',
    'int32',
    'uint32',
    'int64',
    'uint64',
    'bool',
  ] as const)('of %s', async (type) => {
    const bits = new Uint8Array(32).fill(1)
    const data = () => {
      if (type.endsWith('64') && type !== 'float64') return new BigInt64Array(bits.slice().buffer)
      return bits.slice()
    }
    const storage = {
      float32: Float32Array,
      float64: Float64Array,
      float16: Uint16Array,
      int8: Int8Array,
      uint8: Uint8Array,
      int16: Int16Array,
      uint16: Uint16Array,
      int32: Int32Array,
      uint32: Uint32Array,
      int64: BigInt64Array,
      uint64: BigUint64Array,
      bool: Uint8Array,
    }[type]
    const feeds = () => {
      const bytes = data()
      return {
        x: new Tensor(type as 'uint8', new storage(bytes.buffer as ArrayBuffer, 0, 4) as Uint8Array, [1, 4]),
      }
    }
    await sameEachTime(small.identity(type), feeds)
  })
})

describeNative('with the native executor', () => {
  const native = sharedEngine({ executor: 'native', cpuWorkers: 1 })
  const raw = (type: RawTensor['type'], bits: readonly number[]) =>
    ({ type, dims: [1, 4], data: (type === 'bfloat16' ? Uint16Array : Uint8Array).from(bits) }) as RawTensor
  const floats = (values: readonly number[], dims: readonly number[] = [1, values.length]) =>
    new Tensor('float32', Float32Array.from(values), dims)
  const integers = (...values: bigint[]) => new Tensor('int64', BigInt64Array.from(values), [values.length])
  const sklearn = (name: string) => fileURLToPath(new URL(`../models/sklearn/${name}.onnx`, import.meta.url))

  it.each<[what: string, path: string, feeds: () => Feeds]>([
    ['raw bits', small.identity('bfloat16'), () => ({ x: raw('bfloat16', [1, 2, 3, 4]) })],
    ['elements of four bits', small.int4Input(), () => ({ q: raw('int4', [0x21, 0x43]) })],
    ['raw bits out of floats', small.int4Output(), () => ({ x: floats([1, 2, 3, 4]) })],
    ['sequences of tensors', small.sequenceAndTensor(), () => ({ x: floats([1, 2, 3, 4]) })],
    ['sequences of strings', small.stringsAsSequence(), () => ({ x: new Tensor('string', ['ä'], [1]) })],
    ['sequences that are given', small.joinedSequence(), () => ({ s: [integers(1n, 2n), integers(3n)] })],
    ['maps', small.mapOutput(), () => ({ x: floats([1, 2, 3, 4, 5, 6], [2, 3]) })],
    ['maps of strings', sklearn('logistic'), () => ({ X: floats([5, 3, 1, 0.2]) })],
    ['maps that are given', small.mapInput(), () => ({ m: { a: 1, c: 2 } })],
    [
      'maps of integers that are given',
      small.integerMapInput(),
      () => ({
        m: new Map([
          [0n, 1],
          [2n, 5],
        ]),
      }),
    ],
    ['what is optional', small.optionalOutput(), () => ({ x: floats([1, 2, 3, 4]) })],
  ])('keeps and shares %s', async (_, path, feeds) => {
    await sameEachTime(path, feeds, {}, native)
  })

  it('tells sequences and maps apart by how they are divided', async () => {
    const sequences = await load(native, small.joinedSequence(), { responseCache: true })
    const divided = [
      [integers(1n, 2n), integers(3n)],
      [integers(1n), integers(2n, 3n)],
      [integers(1n, 2n, 3n)],
    ]
    const numbers = await Promise.all(
      divided.map(async (s) => Number((await sequences.infer({ s })).n!.data[0])),
    )
    expect(numbers).toEqual([2, 2, 1])
    expect(counts(sequences)).toEqual([3, 0])
    const maps = await load(native, small.mapInput(), { responseCache: true })
    const values = await Promise.all(
      ([{ a: 1 }, { b: 1 }, { a: 1, b: 0 }] as Record<string, number>[]).map(async (m) =>
        valuesOf((await maps.infer({ m })).y),
      ),
    )
    expect(values).toEqual([
      [1, 0, 0],
      [0, 1, 0],
      [1, 0, 0],
    ])
    expect(counts(maps)).toEqual([3, 0])
  })

  it("shares and keeps what the application's thread runs itself", async () => {
    const inline = ownEngine({ executor: 'native', cpuWorkers: 1, inline: { maxUs: 100_000, loopShare: 1 } })
    const model = await load(inline, small.elementSquares(), {
      responseCache: true,
      sessionOptions: { intraOpNumThreads: 1 },
    })
    for (let value = 0; value < 200; value++) {
      const [first, second] = await Promise.all([model.infer(rows([value])), model.infer(rows([value]))])
      expect([valuesOf(first.y)[0], valuesOf(second.y)[0]]).toEqual([value ** 2, value ** 2])
      expect(valuesOf((await model.infer(rows([value]))).y)[0]).toBe(value ** 2)
    }
    expect(counts(model)).toEqual([200, 400])
    expect(model.stats().inlineCount).toBeGreaterThan(0)
  })
})
