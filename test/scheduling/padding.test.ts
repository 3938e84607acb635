import { describe, expect, it } from 'vitest'
import type { ModelConfig, PaddingConfig } from '../../src/index.ts'
import { expectRefusal, type Refusal, rejectionOf } from '../abuse/refusal.ts'
import { maskedSequence, twoLengths } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Sample, type Samples } from '../support/plain.ts'
import { expectClose, expectSame } from '../support/same.ts'
import { floats, noise } from '../support/samples.ts'
import { reported } from './outcome.ts'

const engine = sharedEngine()
type Mask = 'int64' | 'float16' | 'bool' | 'float32'

/** A mask of that many rows that leaves every third position out. */
function maskOf(type: Mask, rows: number, length: number): Sample {
  const ones = Array.from({ length: rows * length }, (_, at) => Number(at % 3 !== 0))
  const data = {
    int64: () => BigInt64Array.from(ones, BigInt),
    float16: () => Uint16Array.from(ones, (one) => one * 0x3c00),
    bool: () => Uint8Array.from(ones),
    float32: () => Float32Array.from(ones),
  }
  return { type, dims: [rows, length], data: data[type]() }
}

const request = (length: number, rows = 1, type: Mask = 'int64'): Samples => ({
  x: noise([rows, length, 4]),
  mask: maskOf(type, rows, length),
})

/** Both inputs padded; what is computed of a padded position is cut off, and the mask keeps it out of the sum. */
const padded = (sizes: readonly number[] | 'longest', value = 0): PaddingConfig[] => [
  { input: 'x', dim: 1, sizes, value, outputs: [{ name: 'positions', dim: 1 }] },
  { input: 'mask', dim: 1, sizes },
]

/** Loads the model with masked sequences; so many requests are waited for before the first run. */
const open = (holdUntilQueued: number, padding: ModelConfig['padding'], type: Mask = 'int64') =>
  load(engine, maskedSequence(type), { padding, dynamicBatching: { holdUntilQueued } })

/** Sends all requests, expects each to be answered as it is alone, and returns what is said of their runs. */
async function answersAlone(model: Awaited<ReturnType<typeof open>>, requests: readonly Samples[]) {
  const answers = await Promise.all(requests.map((samples) => reported(model, feedsOf(samples))))
  for (const [at, { outputs }] of answers.entries())
    expectClose(outputs, await runPlain(model.metadata.path, requests[at]!))
  return answers.map(({ report }) => report)
}

describe('requests of different lengths', () => {
  it('share a run, filled up to the longest of it', async () => {
    const model = await open(4, padded('longest'))
    const reports = await answersAlone(
      model,
      [3, 7, 1, 5].map((length) => request(length)),
    )
    expect(reports).toMatchObject(
      [0, 1, 2, 3].map((position) => ({ batchId: 1, batchSize: 4, paddedTo: 7, position, reason: 'idle' })),
    )
    // 16 positions of their own and 28 that were run, of 4 elements in x and 1 in the mask.
    expect(model.stats().padding).toEqual({
      ownElements: 16 * 5,
      paddedElements: 28 * 5,
      wasteShare: 1 - 16 / 28,
    })
  })

  it('share a run with those of their size, the smallest that holds them', async () => {
    const model = await open(6, padded([8, 4, 16, 4]))
    const reports = await answersAlone(
      model,
      [3, 9, 4, 8, 5, 16].map((length) => request(length)),
    )
    expect(reports.map(({ paddedTo }) => paddedTo)).toEqual([4, 16, 4, 8, 8, 16])
    expect(reports.map(({ batchSize }) => batchSize)).toEqual([2, 2, 2, 2, 2, 2])
    expect(new Set(reports.map(({ batchId }) => batchId)).size).toBe(3)
    expect(model.stats().executionCount).toBe(3)
  })

  it('are run with their own length when that is longer than all sizes', async () => {
    const model = await open(5, padded([4, 8]))
    const reports = await answersAlone(
      model,
      [9, 7, 20, 9, 20].map((length) => request(length)),
    )
    expect(reports.map(({ paddedTo, batchSize }) => [paddedTo, batchSize])).toEqual([
      [9, 2],
      [8, 1],
      [20, 2],
      [9, 2],
      [20, 2],
    ])
  })

  it('may have several rows each', async () => {
    const model = await open(4, padded('longest'))
    const shapes = [
      [2, 3],
      [6, 1],
      [4, 5],
      [1, 2],
    ] as const
    const reports = await answersAlone(
      model,
      shapes.map(([length, rows]) => request(length, rows)),
    )
    expect(reports).toMatchObject([0, 3, 4, 9].map((position) => ({ position, batchSize: 11, paddedTo: 6 })))
    expect(model.stats().padding).toEqual({
      ownElements: 34 * 5,
      paddedElements: 66 * 5,
      wasteShare: 1 - 34 / 66,
    })
  })

  it('may have no position at all', async () => {
    const model = await open(3, padded('longest'))
    const reports = await answersAlone(
      model,
      [0, 3, 0].map((length) => request(length)),
    )
    expect(reports.map(({ paddedTo }) => paddedTo)).toEqual([null, 3, null]) // what has none runs alone
  })

  it('are answered alike again and again, in batches of any size', async () => {
    const model = await open(0, padded([2, 4, 8]))
    for (let round = 0; round < 3; round++) {
      await answersAlone(
        model,
        Array.from({ length: 50 }, (_, at) => request(1 + ((at * 7 + round) % 11), 1 + (at % 3))),
      )
    }
    expect(model.stats().inferenceStats.success.count).toBe(150)
  })

  it('do not share a run without padding', async () => {
    const model = await open(3, [])
    const reports = await answersAlone(
      model,
      [3, 5, 3].map((length) => request(length)),
    )
    expect(reports.map(({ batchSize, paddedTo }) => [batchSize, paddedTo])).toEqual([
      [2, null],
      [1, null],
      [2, null],
    ])
  })

  it('are filled up in whatever type the input has', async () => {
    for (const type of ['float16', 'bool', 'float32'] as const) {
      const reports = await answersAlone(
        await open(3, padded('longest'), type),
        [2, 6, 3].map((length) => request(length, 2, type)),
      )
      expect(reports.map(({ batchSize }) => batchSize)).toEqual([6, 6, 6])
    }
  })
})

describe('an output that is not named', () => {
  const fills = [
    ['int64', -3, BigInt64Array.of(0n, -3n, -3n)],
    ['uint64', 2 ** 53, BigUint64Array.of(0n, 2n ** 53n, 2n ** 53n)],
    ['int8', -3, Int8Array.of(0, -3, -3)],
    ['bool', 1, Uint8Array.of(0, 1, 1)],
    ['float16', 1.5, Uint16Array.of(0, 0x3e00, 0x3e00)],
    ['float32', -Infinity, Float32Array.of(0, -Infinity, -Infinity)],
    ['float64', 0.1, Float64Array.of(0, 0.1, 0.1)],
  ] as const

  it.each(fills)('shows what was filled in: %s of %s', async (type, value, data) => {
    const model = await load(engine, small.identityVariable(type), {
      padding: { input: 'x', dim: 1, value },
      dynamicBatching: { holdUntilQueued: 2 },
    })
    const { constructor: Data } = data as Uint8Array
    const zeros = (length: number) =>
      feedsOf({ x: { type, dims: [1, length], data: new (Data as typeof Uint8Array)(length) } })
    const [short] = await Promise.all([model.infer(zeros(1)), model.infer(zeros(3))])
    expectSame(short, feedsOf({ y: { type, dims: [1, 3], data } }))
  })
})

describe('a padded dimension', () => {
  it('may lie further in', async () => {
    const model = await load(engine, small.identity('float32', [3, 'L', 2]), {
      padding: { input: 'x', dim: 2, value: 9, outputs: [{ name: 'y', dim: 2 }] },
      dynamicBatching: { holdUntilQueued: 3 },
    })
    const requests = [noise([1, 3, 4, 2]), noise([2, 3, 1, 2]), noise([1, 3, 6, 2])]
    const answers = await Promise.all(requests.map((x) => reported(model, feedsOf({ x }))))
    for (const [at, { outputs }] of answers.entries())
      expectSame(outputs, await runPlain(model.metadata.path, { x: requests[at]! }))
    expect(answers.map(({ report }) => [report.batchSize, report.paddedTo])).toEqual([
      [4, 6],
      [4, 6],
      [4, 6],
    ])
  })

  it('may differ from input to input, each output being cut by its own', async () => {
    const model = await load(engine, twoLengths(), {
      padding: [
        { input: 'b', dim: 1, sizes: [4], outputs: [{ name: 'yB', dim: 1 }] },
        { input: 'a', dim: 1, outputs: [{ name: 'yA', dim: 1 }] },
      ],
      dynamicBatching: { holdUntilQueued: 3 },
    })
    const requests = [
      [5, 1],
      [2, 3],
      [9, 4],
    ].map(([a, b]) => ({ a: noise([1, a!]), b: noise([1, b!]) }))
    const answers = await Promise.all(requests.map((samples) => reported(model, feedsOf(samples))))
    for (const [at, { outputs }] of answers.entries())
      expectSame(outputs, await runPlain(model.metadata.path, requests[at]!))
    expect(answers.map(({ report }) => [report.batchSize, report.paddedTo])).toEqual([
      [3, 4],
      [3, 4],
      [3, 4],
    ]) // of the first entry
    expect(model.stats().padding).toEqual({
      ownElements: 16 + 8,
      paddedElements: 27 + 12,
      wasteShare: 1 - 24 / 39,
    })
  })

  it('is chosen anew when a run is repeated after a failure', async () => {
    const model = await open(4, padded('longest'))
    // Its mask does not fit: the run of all fails, and then its own.
    const strange = model.infer(
      feedsOf({ x: floats([1, 2, 4], Array(8).fill(1)), mask: maskOf('int64', 1, 9) }),
    )
    const failure = expect(strange).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
    await answersAlone(
      model,
      [3, 7, 5].map((length) => request(length)),
    )
    await failure
  })
})

it('an output that has not the length that was filled up to fails its run: nobody knows what of it is whose', async () => {
  const padding = { input: 'x', dim: 1, sizes: [4], outputs: [{ name: 'y', dim: 1 }] }
  const model = await load(engine, small.everySecond(), { padding })
  for (const length of [3, 4]) {
    await expect(model.infer(feedsOf({ x: noise([1, length]) }))).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringMatching(/output 'y' has dims \[1, 2\], and not 4 along dimension 1/),
    })
  }
})

async function refused(path: string, config: Omit<ModelConfig, 'path'>, refusal: Refusal): Promise<void> {
  expectRefusal(await rejectionOf(() => load(engine, path, config)), { code: 'ERR_MODEL_CONFIG', ...refusal })
}

const x = { input: 'x', dim: 1 }
type Case = [what: string, padding: unknown, refusal: Refusal]

const cases: Case[] = [
  [
    'an input that there is not',
    { input: 'ids', dim: 1 },
    { argument: 'padding[0].input', expected: /one of 'x', 'mask'/, received: 'ids' },
  ],
  ['an input twice', [x, x], { argument: 'padding[1].input', expected: /no other entry/, received: 'x' }],
  [
    'the batch dimension',
    { input: 'x', dim: 0 },
    { argument: 'padding[0].input', expected: /after the first.*\[N, L, 4\]/, received: 0 },
  ],
  [
    'a dimension that is fixed',
    { input: 'x', dim: 2 },
    { argument: 'padding[0].input', expected: /variable dimension of 'x'/, received: 2 },
  ],
  ['a dimension that there is not', { input: 'x', dim: 3 }, { argument: 'padding[0].input', received: 3 }],
  [
    'an output that there is not',
    { ...x, outputs: [{ name: 'y', dim: 1 }] },
    { argument: 'padding[0].outputs', expected: /'positions', 'sum'/, received: 'y' },
  ],
  [
    'an output without that dimension',
    { ...x, outputs: [{ name: 'sum', dim: 1 }] },
    { argument: 'padding[0].outputs', expected: /\[N, 1\]/, received: 1 },
  ],
  [
    'the batch dimension of an output',
    { ...x, outputs: [{ name: 'positions', dim: 0 }] },
    { argument: 'padding[0].outputs', received: 0 },
  ],
  [
    'an output twice',
    {
      ...x,
      outputs: [
        { name: 'positions', dim: 1 },
        { name: 'positions', dim: 1 },
      ],
    },
    { argument: 'padding[0].outputs', expected: /each output once/, received: 'positions' },
  ],
  [
    'an output in two entries',
    [
      { ...x, outputs: [{ name: 'positions', dim: 1 }] },
      { input: 'mask', dim: 1, outputs: [{ name: 'positions', dim: 1 }] },
    ],
    { argument: 'padding[1].outputs', expected: /in one entry/, received: 'positions' },
  ],
  [
    'a value that the type has not',
    [x, { input: 'mask', dim: 1, value: Infinity }],
    { argument: 'padding[1].value', expected: /int64/, received: Infinity },
  ],
  [
    'a fraction for whole numbers',
    { input: 'mask', dim: 1, value: 0.5 },
    { argument: 'padding[0].value', expected: /int64/, received: 0.5 },
  ],
  ['an input without a name', { input: '', dim: 1 }, { argument: 'padding.input', received: '' }],
  ['no dimension', { input: 'x' }, { argument: 'padding.dim' }],
  ['a negative dimension', { input: 'x', dim: -1 }, { argument: 'padding.dim', received: -1 }],
  ['no sizes', { ...x, sizes: [] }, { argument: 'padding.sizes' }],
  ['a size of 0', { ...x, sizes: [0, 4] }, { argument: 'padding.sizes[0]', received: 0 }],
  ['sizes by another word', { ...x, sizes: 'shortest' }, { argument: 'padding.sizes', received: 'shortest' }],
  ['a value of NaN', { ...x, value: NaN }, { argument: 'padding.value', received: NaN }],
  ['an unknown option', { ...x, length: 8 }, { argument: 'padding.length', received: 'length' }],
  [
    'an unknown option of an entry',
    [x, { input: 'mask', dim: 1, to: 8 }],
    { argument: 'padding[1].to', received: 'to' },
  ],
]

describe('padding is refused', () => {
  it.each(cases)('of %s', (_, padding, refusal) =>
    refused(maskedSequence('int64'), { padding: padding as PaddingConfig }, refusal),
  )

  it('of strings', () =>
    refused(
      small.identityVariable('string'),
      { padding: x },
      { argument: 'padding[0].input', expected: /of numbers/, received: "'x' of strings" },
    ))

  it('for a model without a batch dimension', () =>
    refused(
      small.identityVariable('float32'),
      { padding: x, maxBatchSize: 0 },
      { argument: 'padding', expected: /batch dimension/ },
    ))

  it('of an input whose rank is unknown', () =>
    refused(small.unknownRank('float32'), { padding: x }, { argument: 'padding' }))

  it.each([
    ['float32', 1e39],
    ['float32', -1e39],
    ['float32', 1e-46],
    ['float16', 65_520],
    ['float16', -1e6],
    ['float16', 1e-8],
    ['uint8', -1],
    ['uint8', 256],
    ['int8', 128],
    ['uint64', -1],
    ['int64', 2 ** 63],
    ['bool', 2],
  ] as const)('with a value that %s does not have: %d', (type, value) => {
    const refusal = { argument: 'padding[0].value', expected: new RegExp(type), received: value }
    return refused(small.identityVariable(type), { padding: { ...x, value } }, refusal)
  })
})

it.each([
  ['float32', -Infinity],
  ['float32', 0.1],
  ['float32', 1e-45],
  ['float64', 1e300],
  ['float16', -Infinity],
  ['float16', 65_504],
  ['float16', 1e-7],
  ['float16', -0],
] as const)('padding with a value that %s has, or rounds, is accepted: %d', async (type, value) => {
  await load(engine, small.identityVariable(type), { padding: { ...x, value } })
})

it('padding of no input is no padding', async () => {
  const model = await load(engine, maskedSequence('int64'), { padding: [] })
  expect(model.stats().padding).toEqual({ ownElements: 0, paddedElements: 0, wasteShare: 0 })
})
