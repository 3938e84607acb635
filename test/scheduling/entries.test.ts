import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { ModelConfig, OutputConfig, Tensor } from '../../src/index.ts'
import { claimedCounts, claimedRows, detector } from '../models/detectors.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { executorKinds } from '../support/executors.ts'
import { full } from '../support/full.ts'
import { runsInPlace } from '../support/native.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Samples } from '../support/plain.ts'
import { expectClose, expectSame } from '../support/same.ts'
import { until } from '../support/until.ts'

const random = mulberry32(3)
const images = (rows: number, scale = 3): Samples => ({
  x: {
    type: 'float32',
    dims: [rows, 1, 8, 8],
    data: Float32Array.from({ length: 64 * rows }, () => scale * (random() - 0.5)),
  },
})

/** As {@link expectClose}, with whole numbers equal. */
function expectNear(
  received: Readonly<Record<string, Tensor>>,
  expected: Readonly<Record<string, Tensor>>,
): void {
  const [numbers, others] = [
    ['int64', true],
    ['int64', false],
  ].map(
    ([type, is]) =>
      (outputs: Readonly<Record<string, Tensor>>) =>
        Object.fromEntries(Object.entries(outputs).filter(([, tensor]) => (tensor.type === type) === is)),
  )
  expectSame(numbers!(received), numbers!(expected))
  expectClose(others!(received), others!(expected))
}

/** Each way to say whose a box is. */
const declarations: [name: string, outputs: OutputConfig[]][] = [
  ['a column of whole numbers', [{ name: 'selected', rows: { index: 0 } }]],
  ['a column of floats', [{ name: 'rows', rows: { index: 0 } }]],
  ['an output of one number for each box', [{ name: 'images', rows: { index: 0 } }]],
  [
    'a column of another output',
    [
      { name: 'boxes', rows: { index: 0, of: 'selected' } },
      { name: 'scores', rows: { index: 0, of: 'images' } },
      { name: 'selected' },
      { name: 'mean' },
    ],
  ],
  ['a column of one that is not answered', [{ name: 'scores', rows: { index: 0, of: 'images' } }]],
  ['a count for each image', [{ name: 'boxes', rows: { counts: 'n' } }, { name: 'n' }]],
  [
    'a count that is not answered',
    [{ name: 'boxes', rows: { counts: 'n' } }, { name: 'scores', rows: { counts: 'n' } }, { name: 'mean' }],
  ],
]

describe.each(executorKinds)('a detector with the executor %s', (executor) => {
  const engine = sharedEngine({ executor })
  const whole = full || executor === executorKinds[0]

  it.each(whole ? declarations : declarations.slice(-2))(
    'gives each of 64 callers its own boxes, by %s',
    async (_, outputs) => {
      const model = await load(engine, detector(), { maxBatchSize: 32, outputs })
      const requests = Array.from({ length: 64 }, (_, index) =>
        images(1 + (index % 3), index % 8 === 0 ? 0 : 3),
      )
      await matchesPlain(model, requests, { outputs: outputs.map(({ name }) => name), same: expectNear })
      expect(largestBatch(model)).toBeGreaterThan(8)
      expect(model.metadata.joining.rows).toBe('declared')
    },
  )

  it.runIf(whole)('answers with some of the outputs, whichever say whose they are', async () => {
    const model = await load(engine, detector(), {
      maxBatchSize: 32,
      outputs: [
        { name: 'boxes', rows: { index: 0, of: 'selected' } },
        { name: 'scores', rows: { counts: 'n' } },
        { name: 'mean' },
      ],
    })
    for (const wanted of [['boxes'], ['scores'], ['mean'], ['scores', 'mean']]) {
      await matchesPlain(
        model,
        Array.from({ length: 12 }, () => images(1)),
        { outputs: wanted, same: expectNear },
      )
    }
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('is answered without a box', async () => {
    const model = await load(engine, detector(), {
      maxBatchSize: 8,
      outputs: [
        { name: 'rows', rows: { index: 0 } },
        { name: 'boxes', rows: { counts: 'n' } },
      ],
    })
    const answers = await Promise.all(Array.from({ length: 8 }, () => model.infer(feedsOf(images(1, 0)))))
    for (const { rows, boxes } of answers)
      expect([rows!.dims, rows!.data, boxes!.dims]).toEqual([[0, 6], new Float32Array(), [0, 4]])
    await matchesPlain(model, [images(3, 0), images(1)], { outputs: ['rows', 'boxes'], same: expectNear })
  })

  it('is run in parts and joined again, with the numbers of all its rows', async () => {
    const outputs = [
      { name: 'selected', rows: { index: 0 } },
      { name: 'rows', rows: { index: 0 } },
      { name: 'images', rows: { index: 0 } },
      { name: 'boxes', rows: { counts: 'n' } },
      { name: 'n' },
    ]
    const model = await load(engine, detector(), { maxBatchSize: 4, splitOversized: true, outputs })
    await matchesPlain(model, [images(19), images(2), images(4), images(9, 0)], {
      outputs: outputs.map(({ name }) => name),
      same: expectNear,
    })
  })

  it.runIf(whole).each<[string, Omit<ModelConfig, 'path' | 'bytes'>]>([
    ['kept answers', { responseCache: true }],
    ['answers in the order of their calls', { dynamicBatching: { preserveOrdering: true } }],
    ['finite outputs alone', { rejectNonFinite: 'outputs' }],
  ])('goes with %s', async (_, config) => {
    const model = await load(engine, detector(), {
      maxBatchSize: 8,
      outputs: [
        { name: 'selected', rows: { index: 0 } },
        { name: 'boxes', rows: { counts: 'n' } },
      ],
      ...config,
    })
    const requests = Array.from({ length: 24 }, (_, index) => images(1 + (index % 2)))
    for (let round = 0; round < 2; round++)
      await matchesPlain(model, requests, { outputs: ['selected', 'boxes'], same: expectNear })
  })
})

describe('without maxBatchSize', () => {
  const engine = sharedEngine()

  const all: OutputConfig[] = [
    ...['selected', 'rows', 'images'].map((name) => ({ name, rows: { index: 0 } })),
    ...['boxes', 'scores'].map((name) => ({ name, rows: { counts: 'n' } })),
    { name: 'n' },
    { name: 'mean' },
  ]

  it('boxes are divided for the check, and the requests of a detector whose images do not meet are joined', async () => {
    const model = await load(engine, detector(), { outputs: all })
    await until(() => model.metadata.joining.rows !== 'unknown')
    expect(model.metadata.joining).toMatchObject({
      rows: 'independent',
      largestDifference: expect.closeTo(0, 4),
    })
    await matchesPlain(
      model,
      Array.from({ length: 40 }, (_, index) => images(1, index % 4 === 0 ? 0 : 3)),
      { outputs: all.map(({ name }) => name), same: expectNear },
    )
    expect(largestBatch(model)).toBeGreaterThan(8)
  })

  it("the requests of a detector whose entries are another caller's when it is joined are not", async () => {
    const outputs: OutputConfig[] = [
      { name: 'entries', rows: { index: 0 } },
      { name: 'values', rows: { index: 0, of: 'entries' } },
    ]
    const model = await load(engine, claimedRows(), { outputs })
    await until(() => model.metadata.joining.rows !== 'unknown')
    expect(model.metadata.joining).toMatchObject({
      rows: 'dependent',
      reason: expect.stringContaining("output 'entries' has"),
    })
    const claims = (): Samples => ({
      x: { type: 'float32', dims: [1, 2], data: Float32Array.of(5, 7) },
      v: { type: 'float32', dims: [1, 2], data: Float32Array.of(random(), random()) },
    })
    await matchesPlain(model, Array.from({ length: 8 }, claims)) // each as it is
  })

  it('what it says of whose its entries are is part of its description', async () => {
    const model = await load(engine, detector(), {
      outputs: [{ name: 'boxes', rows: { index: 0, of: 'selected' } }, { name: 'mean' }],
    })
    expect(model.metadata.outputs).toEqual([
      { name: 'boxes', type: 'float32', shape: ['M', 4], rows: { index: 0, of: 'selected' } },
      { name: 'mean', type: 'float32', shape: ['N', 1] },
    ])
  })
})

describe('a run that does not say whose an entry is', () => {
  const claim = (x: readonly number[], v: readonly number[]) => ({
    x: Float32Array.from(x),
    v: Float32Array.from(v),
  })
  const loadClaimed = async (type: 'float32' | 'int64' | 'int8' = 'float32') => {
    const outputs = [
      { name: 'entries', rows: { index: 0 } },
      { name: 'values', rows: { index: 0, of: 'entries' } },
    ]
    return load(ownEngine(), claimedRows(type, { float32: 1, int8: 3, int64: 7 }[type]), {
      maxBatchSize: 16,
      checkRows: false,
      outputs,
      dynamicBatching: { holdUntilQueued: 12 },
    })
  }

  it.each([
    ['a number below the rows', -1000, '-1000'],
    ['one beyond them', 1000, '1000'],
    ['a part of a row', 0.5, '.5'],
    ['no number', NaN, 'NaN'],
    ['infinity', Infinity, 'Infinity'],
  ])('fails its caller and nobody else: %s', async (_, number, shown) => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warn.mockRestore())
    const model = await loadClaimed()
    const answers = await Promise.allSettled(
      Array.from({ length: 12 }, (_, caller) =>
        model.infer(claim(caller === 5 ? [0, number] : [0, 0], [caller, 100 + caller])),
      ),
    )
    for (const [caller, answer] of answers.entries()) {
      if (caller !== 5)
        expect(answer).toMatchObject({
          value: {
            entries: { dims: [2, 1], data: Float32Array.of(0, 0) },
            values: { data: Float32Array.of(caller, 100 + caller) },
          },
        })
      else
        expect(answer).toMatchObject({
          reason: {
            code: 'ERR_EXECUTION',
            argument: 'entries',
            expected: 'the number of a row from 0 to 0',
            received: `${number === 0.5 ? '0.5' : shown} in column 0 of entry 1`,
            message: expect.stringContaining("output 'entries' has"),
          },
        })
    }
    expect(warn.mock.calls).toEqual([
      [
        expect.stringContaining('could not be divided'),
        { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_DIVIDED' },
      ],
    ])
    expect(model.stats().inferenceStats).toMatchObject({ success: { count: 11 }, fail: { count: 1 } })
  })

  it.each([
    [-1, [2, 2]],
    [2.5, [2, 2]],
    [NaN, [2, 2]],
    [3, [2, 2]],
    [1, [2, 2]],
  ])('fails its caller and nobody else, by counts: %s', async (count) => {
    const model = await load(ownEngine(), claimedCounts(), {
      maxBatchSize: 16,
      checkRows: false,
      outputs: [{ name: 'values', rows: { counts: 'counts' } }],
      dynamicBatching: { holdUntilQueued: 12 },
    })
    const feeds = (caller: number) => ({
      x: Float32Array.of(caller === 3 ? count : 2),
      v: Float32Array.of(caller, 100 + caller),
    })
    const answers = await Promise.allSettled(
      Array.from({ length: 12 }, (_, caller) => model.infer(feeds(caller))),
    )
    for (const [caller, answer] of answers.entries()) {
      if (caller !== 3)
        expect(answer).toMatchObject({ value: { values: { data: Float32Array.of(caller, 100 + caller) } } })
      else
        expect(answer).toMatchObject({
          reason: {
            code: 'ERR_EXECUTION',
            message: expect.stringMatching(
              /output 'counts' has .* for row 0, where a whole number of entries|output 'values' has 2 entries, where [13], the sum of the counts in 'counts', was expected/,
            ),
          },
        })
    }
  })

  it.each(['float32', 'int64', 'int8'] as const)(
    'entries of rows in no order come to theirs in the order that they have: %s',
    async (type) => {
      const model = await loadClaimed(type)
      // Each but the last gives its second entry to the next one, and the last its to the first.
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, caller) =>
          model.infer(claim(caller === 11 ? [0, -11] : [0, 1], [caller, 100 + caller])),
        ),
      )
      for (const [caller, { entries, values }] of answers.entries()) {
        const others = 100 + ((caller + 11) % 12)
        expect(values!.data).toEqual(
          caller === 0 ? Float32Array.of(0, others) : Float32Array.of(others, caller),
        )
        expect(Array.from(entries!.data as Int8Array, Number)).toEqual([0, 0])
      }
    },
  )
})

it.skipIf(!runsInPlace)('rows that were written where they are run come back as entries, too', async () => {
  const width = 2048
  const engine = ownEngine()
  const outputs: OutputConfig[] = [
    { name: 'entries', rows: { index: 0 } },
    { name: 'values', rows: { index: 0, of: 'entries' } },
  ]
  const model = await load(engine, claimedRows('int64', 7, width), {
    maxBatchSize: 16,
    checkRows: false,
    outputs,
    dynamicBatching: { holdUntilQueued: 12 },
  })
  const leases = Array.from({ length: 12 }, () => model.lease())
  const answers = await Promise.all(
    leases.map((lease, caller) => {
      const { x, v } = lease.inputs as { x: Float32Array; v: Float32Array }
      x.set(caller === 11 ? [0, -11] : [0, 1])
      v.fill(caller, 0, width).fill(100 + caller, width)
      return lease.infer()
    }),
  )
  for (const [caller, { entries, values }] of answers.entries()) {
    const others = 100 + ((caller + 11) % 12)
    expect(entries).toMatchObject({ dims: [2, 1], data: BigInt64Array.of(0n, 0n) })
    expect([values!.dims, values!.data]).toEqual([
      [2, width],
      new Float32Array(2 * width)
        .fill(caller === 0 ? 0 : others, 0, width)
        .fill(caller === 0 ? others : caller, width),
    ])
  }
  expect(model.stats().leases.rowsInPlace).toBeGreaterThan(0)
})

describe('a configuration', () => {
  const engine = sharedEngine()
  const wrong: [what: string, outputs: unknown, error: object, path?: string, config?: object][] = [
    [
      'index and counts',
      [{ name: 'boxes', rows: { index: 0, counts: 'n' } }],
      {
        argument: 'outputs[0].rows',
        expected: 'either index or counts',
        received: "the keys 'index', 'counts'",
      },
    ],
    ['neither', [{ name: 'boxes', rows: {} }], { argument: 'outputs[0].rows', received: 'the keys (none)' }],
    [
      'of beside counts',
      [{ name: 'boxes', rows: { counts: 'n', of: 'selected' } }],
      { argument: 'outputs[0].rows.of' },
    ],
    ['a column below 0', [{ name: 'selected', rows: { index: -1 } }], { argument: 'outputs[0].rows.index' }],
    [
      'a column that is not there',
      [{ name: 'selected', rows: { index: 3 } }],
      { argument: 'outputs[0].rows.index', received: 3 },
    ],
    [
      'a second column of one number',
      [{ name: 'images', rows: { index: 1 } }],
      { argument: 'outputs[0].rows.index' },
    ],
    [
      'another output that is not there',
      [{ name: 'boxes', rows: { index: 0, of: 'picked' } }],
      { argument: 'outputs[0].rows.of', received: 'picked' },
    ],
    [
      'counts that are not there',
      [{ name: 'boxes', rows: { counts: 'm' } }],
      { argument: 'outputs[0].rows.counts', received: 'm' },
    ],
    [
      'counts that are more than one number',
      [{ name: 'boxes', rows: { counts: 'selected' } }],
      { argument: 'outputs[0].rows.counts' },
    ],
    [
      'counts that have no entry per row',
      [
        { name: 'boxes', rows: { counts: 'images' } },
        { name: 'images', rows: { index: 0 } },
      ],
      { argument: 'outputs[0].rows.counts' },
    ],
    ['counts of itself', [{ name: 'n', rows: { counts: 'n' } }], { argument: 'outputs[0].rows.counts' }],
    [
      'two columns of one output',
      [
        { name: 'boxes', rows: { index: 0, of: 'selected' } },
        { name: 'scores', rows: { index: 1, of: 'selected' } },
      ],
      { argument: 'outputs[1].rows.of' },
    ],
    ['an output that is not there', [{ name: 'box', rows: { index: 0 } }], { argument: 'outputs[0].name' }],
    ['another word', [{ name: 'boxes', rows: { column: 0 } }], { argument: 'outputs[0].rows.column' }],
    [
      'a batchAxis beside it',
      [{ name: 'selected', rows: { index: 0 }, batchAxis: 0 }],
      { argument: 'outputs[0].batchAxis' },
    ],
    [
      'a reshape beside it',
      [{ name: 'selected', rows: { index: 0 }, dims: [3], reshape: [1, 3] }],
      { argument: 'outputs[0].reshape' },
    ],
    [
      'maxBatchSize 0',
      [{ name: 'selected', rows: { index: 0 } }],
      { argument: 'outputs[0].rows' },
      detector(),
      { maxBatchSize: 0 },
    ],
    [
      'a sequence',
      [{ name: 'selected', rows: { index: 0 } }],
      { argument: 'outputs[0].rows' },
      detector(),
      { maxBatchSize: 4, sequence: {} },
    ],
    [
      'a fixed number of entries',
      [{ name: 'y', rows: { index: 0 } }],
      { argument: 'outputs[0].rows', received: expect.stringContaining('[2, 3]') },
      small.identityUnbatched('float32', [2, 3]),
    ],
    [
      'a column of strings',
      [{ name: 'y', rows: { index: 0 } }],
      { argument: 'outputs[0].rows.index' },
      small.identity('string', [3]),
    ],
    [
      'a type that does not count so many rows',
      [{ name: 'entries', rows: { index: 0 } }],
      { argument: 'outputs[0].rows.index', expected: expect.stringContaining('200') },
      claimedRows('int8', 3),
      { maxBatchSize: 200 },
    ],
  ]
  it.each(wrong)(
    'is refused with %s',
    async (_, outputs, error, path = detector(), config = { maxBatchSize: 8 }) => {
      await expect(
        engine.load('wrong', { path, outputs: outputs as OutputConfig[], ...config }),
      ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', ...error })
    },
  )
})

it('one request alone is given what plain onnxruntime-node gives', async () => {
  const model = await load(ownEngine(), detector(), {
    maxBatchSize: 4,
    outputs: [{ name: 'selected', rows: { index: 0 } }],
  })
  const request = images(3)
  expectNear(await model.infer(feedsOf(request)), await runPlain(detector(), request, ['selected']))
})
