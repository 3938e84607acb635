import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { describe, expect, it } from 'vitest'
import { graph } from './models/builder.ts'
import { modelPath } from './models/cache.ts'
import { mlp } from './models/networks.ts'
import { mulberry32, uniform } from './models/random.ts'
import * as small from './models/small.ts'

// Each test says what plain onnxruntime-node makes of a model, which is what the engine's own tests rely on.

type Values = readonly (number | bigint | string)[]

const open = (path: string) => InferenceSession.create(path, { logSeverityLevel: 4 })
const quiet = { logSeverityLevel: 4 } as const
const floats = (dims: number[], values: readonly number[]) =>
  new Tensor('float32', Float32Array.from(values), dims)
const count = (dims: number[], first = 1) => {
  const size = dims.reduce((product, dim) => product * dim, 1)
  return floats(
    dims,
    Array.from({ length: size }, (_, i) => first + i),
  )
}
const integers = (dims: number[], values: number[]) =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims)
const strings = (dims: number[], values: string[]) => new Tensor('string', values, dims)
const bools = (dims: number[], values: number[]) => new Tensor('bool', Uint8Array.from(values), dims)
const shapes = (values: readonly InferenceSession.ValueMetadata[]) =>
  values.map((value) =>
    value.isTensor ? [value.name, value.type, value.shape] : [value.name, 'not a tensor'],
  )

async function run(path: string, feeds: Record<string, Tensor>, fetches?: string[]) {
  const session = await open(path)
  const results = await (fetches ? session.run(feeds, fetches, quiet) : session.run(feeds, quiet))
  return Object.fromEntries(
    Object.entries(results).map(([name, { type, dims, data }]) => [
      name,
      { type, dims: [...dims], data: Array.from(data as ArrayLike<number | bigint | string>) },
    ]),
  )
}

const expected = (type: string, dims: number[], data: Values) => ({ type, dims, data: [...data] })

describe('identity models', () => {
  const elements = {
    float32: Float32Array.of(1.5, -2, 3, 4),
    float64: Float64Array.of(1.5, -2, 3, 4),
    float16: Uint16Array.of(0x3c00, 0x4000, 0, 0xfc00),
    int8: Int8Array.of(-128, 127, 0, 1),
    uint8: Uint8Array.of(255, 0, 1, 2),
    int16: Int16Array.of(-32768, 32767, 0, 1),
    uint16: Uint16Array.of(65535, 0, 1, 2),
    int32: Int32Array.of(-(2 ** 31), 2 ** 31 - 1, 0, 1),
    uint32: Uint32Array.of(2 ** 32 - 1, 0, 1, 2),
    int64: BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n, 0n, 1n),
    uint64: BigUint64Array.of(2n ** 64n - 1n, 0n, 1n, 2n),
    bool: Uint8Array.of(0, 1, 1, 0),
    string: ['a', '', 'ü', '😀'],
  }
  for (const [name, data] of Object.entries(elements)) {
    const type = name as keyof typeof elements
    // The 16-bit float path of onnxruntime-common depends on the Node version; the engine's tests cover it.
    const runs = type !== 'float16' || !('Float16Array' in globalThis)
    it(`${type}: returns its input${runs ? '' : ' (load only: Float16Array)'}`, async () => {
      const session = await open(small.identity(type))
      expect(shapes(session.inputMetadata)).toEqual([['x', type, ['N', 4]]])
      expect(shapes((await open(small.identityScalar(type))).outputMetadata)).toEqual([['y', type, []]])
      if (!runs) return
      const results = await session.run({ x: new Tensor(type as 'float32', data as Float32Array, [1, 4]) })
      expect(Array.from(results.y!.data as ArrayLike<unknown>)).toEqual(
        Array.from(data as ArrayLike<unknown>),
      )
    })
  }
})

describe('models that run', () => {
  const pair = { a: count([1, 16]), b: count([1, 16], 0) }
  const [x, ramp] = [count([2, 4]), [1, 2, 3, 4, 5, 6, 7, 8]]
  const doubled = expected('float32', [2, 8], [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8])
  const keep = bools([2], [0, 1])
  const same = expected('float32', [2, 4], ramp)
  type Outputs = Record<string, ReturnType<typeof expected>>
  const recipes: [string, string, Record<string, Tensor>, Outputs, string[]?][] = [
    [
      'identityScalar',
      small.identityScalar('float32'),
      { x: count([]) },
      { y: expected('float32', [], [1]) },
    ],
    ['identityVariable', small.identityVariable('float32'), { x }, { y: same }],
    ['identityUnbatched', small.identityUnbatched('float32', [2, 4]), { x }, { y: same }],
    ['unnamedBatch', small.unnamedBatch(), { x }, { y: same }],
    [
      'zeroSize without elements',
      small.zeroSize(),
      { x: count([3, 0]) },
      { y: expected('float32', [3, 0], []) },
    ],
    ['zeroSize without rows', small.zeroSize(), { x: count([0, 3]) }, { y: expected('float32', [0, 3], []) }],
    ['bigRow', small.bigRow(8), { x: count([1, 8]) }, { y: expected('float32', [1, 8], ramp) }],
    [
      'addSub',
      small.addSub('float32'),
      pair,
      {
        sum: expected(
          'float32',
          [1, 16],
          Array.from({ length: 16 }, (_, i) => 2 * i + 1),
        ),
        difference: expected(
          'float32',
          [1, 16],
          Array.from({ length: 16 }, () => 1),
        ),
      },
    ],
    [
      'twoInputsDifferentTypes',
      small.twoInputsDifferentTypes(),
      { a: x, b: integers([2, 1], [10, 20]) },
      { y: expected('float32', [2, 4], [11, 12, 13, 14, 25, 26, 27, 28]) },
    ],
    [
      'defaultedInput, its default',
      small.defaultedInput(),
      { x: count([1, 4]) },
      { y: expected('float32', [1, 4], [2, 4, 6, 8]) },
    ],
    [
      'defaultedInput, ignoring what is given',
      small.defaultedInput(),
      { x: count([1, 4]), w: count([4], 10) },
      { y: expected('float32', [1, 4], [2, 4, 6, 8]) },
    ],
    ['unknownRank', small.unknownRank('float32'), { x }, { y: same }],
    [
      'stringConcat',
      small.stringConcat(),
      { a: strings([1, 2], ['a', 'b']), b: strings([1, 2], ['c', 'd']) },
      { y: expected('string', [1, 2], ['ac', 'bd']) },
    ],
    [
      'strings end at a NUL',
      small.identity('string', [2]),
      { x: strings([1, 2], ['a\0b', '\0']) },
      { y: expected('string', [1, 2], ['a', '']) },
    ],
    [
      'gatherRow',
      small.gatherRow(),
      { index: integers([2, 1], [1, -1]) },
      { y: expected('float32', [2, 1, 4], [4, 5, 6, 7, 28, 29, 30, 31]) },
    ],
    [
      'matmulSlow',
      small.matmulSlow(4, 3),
      { x },
      { y: expected('float32', [2, 4], [2, 3, 4, 1, 6, 7, 8, 5]) },
    ],
    [
      'matmulLoop',
      small.matmulLoop(4, 3),
      { x },
      { y: expected('float32', [2, 4], [2, 3, 4, 1, 6, 7, 8, 5]) },
    ],
    [
      'nonZero',
      small.nonZero(),
      { x: floats([2, 4], [1, 0, 0, 2, 0, 0, 3, 0]) },
      { y: expected('int64', [2, 3], [0n, 0n, 1n, 0n, 3n, 2n]) },
    ],
    ['compress', small.compress(), { x, keep }, { y: expected('float32', [1, 4], [5, 6, 7, 8]) }],
    [
      'compress declared as N',
      small.compress('N'),
      { x, keep },
      { y: expected('float32', [1, 4], [5, 6, 7, 8]) },
    ],
    [
      'unique',
      small.unique(),
      { x: floats([12], [3, 3, 2, 2, 1, 1, 0, 0, 3, 2, 1, 0]) },
      { y: expected('float32', [4], [0, 1, 2, 3]) },
    ],
    ['lyingShape, plain', small.lyingShape(), { x }, { y: doubled }],
    ['lyingShape, hidden', small.lyingShape('hidden'), { x }, { y: doubled }],
    ['pairwise', small.pairwise(), { a: x, b: count([1, 4]) }, { y: expected('float32', [2, 1], [30, 70]) }],
    ['gram', small.gram(), { x }, { y: expected('float32', [2, 2], [30, 70, 70, 174]) }],
    ['mixesRows', small.mixesRows(), { x }, { y: expected('float32', [2, 4], [-2, -2, -2, -2, 2, 2, 2, 2]) }],
    ['optionalOutput', small.optionalOutput(), { x }, { o: same }],
    ['sequenceAndTensor, tensor only', small.sequenceAndTensor(), { x }, { y: same }, ['y']],
    ['int4Output, float only', small.int4Output(), { x }, { y: same }, ['y']],
  ]
  it.each(recipes)('%s', async (_, path, feeds, outputs, fetches) => {
    expect(await run(path, feeds, fetches)).toEqual(outputs)
  })

  it('softmaxState keeps the batch on axis 1 of its state', async () => {
    const { y, stateN } = await run(small.softmaxState(), { x: count([3, 4]), state: count([2, 3, 8]) })
    expect([y!.dims, stateN!.dims]).toEqual([
      [3, 4],
      [2, 3, 8],
    ])
    const total = (y!.data as number[]).reduce((sum, share) => sum + share)
    expect(total).toBeCloseTo(3, 5)
  })

  it('withExternalData reads its weights from the file beside it', async () => {
    const weights = uniform(mulberry32(7), 64, 1)
    const first = Array.from({ length: 16 }, (_, i) => (i === 0 ? 1 : 0))
    const { y } = await run(small.withExternalData(), { x: floats([1, 16], first) })
    expect(y!.data).toEqual(Array.from(weights.subarray(0, 4)))
  })
})

describe('metadata', () => {
  it.each([
    ['an unnamed dimension is an empty string', small.unnamedBatch(), [['y', 'float32', ['', 4]]]],
    ['an unknown rank looks like a scalar', small.unknownRank('float32'), [['y', 'float32', []]]],
    ['a contradicted dimension loses its size', small.lyingShape(), [['y', 'float32', ['N', '']]]],
    ['a hidden contradiction stays', small.lyingShape('hidden'), [['y', 'float32', ['N', 4]]]],
    ['a sequence is not a tensor', small.sequenceOnly(), [['s', 'not a tensor']]],
    ['a map is not a tensor', small.mapOutput(), [['m', 'not a tensor']]],
    ['an optional tensor is not a tensor', small.optionalOutput(), [['o', 'not a tensor']]],
    [
      'int4 is reported',
      small.int4Output(),
      [
        ['q', 'int4', ['N', 4]],
        ['y', 'float32', ['N', 4]],
      ],
    ],
  ])('%s', async (_, path, outputs) => {
    expect(shapes((await open(path)).outputMetadata)).toEqual(outputs)
  })

  it('an input with a default is not listed', async () => {
    expect((await open(small.defaultedInput())).inputNames).toEqual(['x'])
  })
})

describe('models that cannot be loaded', () => {
  it.each([
    ['unknownOperator', small.unknownOperator(), 'No Op registered for NoSuchOperator'],
    [
      'unknownDomain',
      small.unknownDomain(),
      'com.example.absent:Identity(-1) is not a registered function/op',
    ],
    ['missingExternalData', small.missingExternalData(), 'External data path does not exist'],
    ['truncated', small.truncated(), 'Protobuf parsing failed'],
    ['notOnnx', small.notOnnx(), 'Protobuf parsing failed'],
    ['emptyFile', small.emptyFile(), 'ModelProto does not have a graph'],
    ['identity of bfloat16', small.identity('bfloat16'), 'Unsupported data type: 16'],
    ['bfloat16Input', small.bfloat16Input(), 'Unsupported data type: 16'],
    ['bfloat16Output', small.bfloat16Output(), 'Unsupported data type: 16'],
    ['identity of int4', small.identity('int4'), 'Could not find an implementation for Identity(21)'],
    ['identity of uint4', small.identity('uint4'), 'Could not find an implementation for Identity(21)'],
  ])('%s', async (_, path, message) => {
    await expect(open(path)).rejects.toThrow(message)
  })
})

describe('models whose run fails', () => {
  const x = count([2, 4])
  const pixels = new Tensor('uint8', Uint8Array.of(1, 2, 3, 4), [1, 4])
  const recipes: [string, string, Record<string, Tensor>, string][] = [
    [
      'gatherRow outside the table',
      small.gatherRow(),
      { index: integers([2, 1], [1, 8]) },
      'out of data bounds',
    ],
    ['sequenceOnly', small.sequenceOnly(), { x }, 'Non tensor type is temporarily not supported.'],
    ['sequenceAndTensor', small.sequenceAndTensor(), { x }, 'Non tensor type is temporarily not supported.'],
    ['sequenceInput', small.sequenceInput(), { s: x }, "input with name: 's' expected to be of type: 3"],
    ['mapOutput', small.mapOutput(), { x: count([2, 3]) }, 'Non tensor type is temporarily not supported.'],
    ['int4Input', small.int4Input(), { q: pixels }, 'expected: (tensor(Int4x2))'],
    [
      'identityUnbatched',
      small.identityUnbatched('float32', [3, 4]),
      { x },
      'Got invalid dimensions for input: x',
    ],
  ]
  it.each(recipes)('%s', async (_, path, feeds, message) => {
    await expect(run(path, feeds)).rejects.toThrow(message)
  })

  /** How a process ends that fetches these outputs; exit code 0 means that the run returned. */
  const fetchInChild = (path: string, outputs: readonly string[]) =>
    spawnSync(process.execPath, [fileURLToPath(new URL('models/fetch-in-child.mjs', import.meta.url)), path, ...outputs]) // prettier-ignore

  it.each([
    ['int4Output', small.int4Output(), ['q', 'y']],
    ['int4OutputOnly', small.int4OutputOnly(), ['q']],
  ])('%s takes its process down when q is fetched', (_, path, outputs) => {
    expect(fetchInChild(path, outputs)).not.toMatchObject({ status: 0 })
  })

  it('the child process of such a test ends well when y alone is fetched', () => {
    expect(fetchInChild(small.int4Output(), ['y'])).toMatchObject({ status: 0, signal: null })
  })
})

describe('mlp', () => {
  it('answers rows alike in a batch and alone, and different rows differently', async () => {
    const rows = uniform(mulberry32(5), 3 * 64, 1)
    const input = (from: number, to: number) =>
      new Tensor('float32', rows.slice(from * 64, to * 64), [to - from, 64])
    const batch = (await run(mlp(), { input: input(0, 3) })).output!
    const alone = (await run(mlp(), { input: input(1, 2) })).output!
    const values = batch.data as number[]
    expect(batch.dims).toEqual([3, 10])
    expect(values.every(Number.isFinite)).toBe(true)
    values.slice(10, 20).forEach((value, i) => expect(value).toBeCloseTo(alone.data[i] as number, 4))
    expect(values.slice(0, 10)).not.toEqual(values.slice(10, 20))
  })
})

describe('the cache', () => {
  const recipe = () => graph('cached').input('x', 'float32', [1]).output('x', 'float32', [1]).build()

  it('writes a model once', () => {
    const path = modelPath('cached', recipe)
    const { mtimeMs } = statSync(path)
    expect(
      modelPath('cached', () => {
        throw new Error('built again')
      }),
    ).toBe(path)
    expect(statSync(path).mtimeMs).toBe(mtimeMs)
  })

  it('leaves nothing behind when a recipe fails', () => {
    const fails = () =>
      modelPath('fails', () => {
        throw new Error('no such recipe')
      })
    expect(fails).toThrow('no such recipe')
    for (const file of ['fails.onnx', 'fails.onnx.turn'])
      expect(existsSync(modelPath('cached', recipe).replace('cached.onnx', file))).toBe(false)
  })

  it('is given the same bytes by the same recipe', () => {
    expect(Buffer.compare(recipe(), recipe())).toBe(0)
  })
})
