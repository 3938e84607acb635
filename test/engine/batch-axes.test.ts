import { describe, expect, it } from 'vitest'
import { Tensor, type InferenceEngine, type ModelOptions } from '../../src/index.ts'
import {
  peakOfAll,
  scaledByOne,
  scaledColumns,
  summedSteps,
  timeMajor,
  transposed,
  wrapped,
} from '../models/batch-axes.ts'
import { identity } from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'

const engine = sharedEngine()

/** Numbers that tell which row, block and column they are of. */
const columns = (rows: number, from: number) =>
  new Tensor(
    'float32',
    Float32Array.from(
      { length: 6 * rows },
      (_, at) => 100 * (from + (Math.floor(at / 3) % rows)) + 10 * Math.floor(at / 3 / rows) + (at % 3),
    ),
    [2, rows, 3],
  )
const numbers = (tensor: unknown) => Array.from((tensor as Tensor).data as Float32Array)

async function scaled(on: InferenceEngine, options: ModelOptions) {
  const model = await load(on, scaledColumns(), { dynamicBatching: { maxQueueDelayMs: 20 }, ...options })
  const requests = [
    [1, 2],
    [2, 2],
    [1, 3],
    [3, 2],
    [2, 3],
  ] as const
  let from = 0
  const answers = await Promise.all(
    requests.map(async ([rows, scale]) => {
      const x = columns(rows, (from += rows))
      const { outputs, report } = await model.infer({ x, scale: Float32Array.of(scale) }, { report: true })
      expect(outputs['scaled']!.dims).toEqual([2, rows, 3])
      expect(numbers(outputs['scaled'])).toEqual(numbers(x).map((value) => value * scale))
      const sums = Array.from(
        { length: 3 * rows },
        (_, at) => scale * (numbers(x)[at]! + numbers(x)[3 * rows + at]!),
      )
      expect([outputs['sum']!.dims, numbers(outputs['sum'])]).toEqual([[rows, 3], sums])
      return { report, scale }
    }),
  )
  return { model, answers }
}

describe('rows along another dimension than the first, beside an input that they share', () => {
  it('are found where the shapes have a name in common, tried, and joined', async () => {
    const { model, answers } = await scaled(engine, {})
    expect(model.metadata.joining.rows).toBe('independent')
    expect(model.metadata.inputs.map(({ batchAxis }) => batchAxis)).toEqual([1, null])
    expect(model.metadata.outputs.map(({ batchAxis }) => batchAxis)).toEqual([1, undefined])
    for (const scale of [2, 3])
      expect(
        new Set(answers.filter((answer) => answer.scale === scale).map(({ report }) => report.batchId)).size,
      ).toBe(1)
    expect(new Set(answers.map(({ report }) => report.batchId)).size).toBe(2) // other values wait in another bucket
  })
  it('are the same with the binding', async () => {
    const { model } = await scaled(ownEngine({ executor: 'binding' }), { maxBatchSize: 8 })
    expect(model.stats().executionCount).toBe(2)
  })
  it('are what is said of them', async () => {
    const { model } = await scaled(engine, {
      maxBatchSize: 8,
      inputs: [
        { name: 'x', batchAxis: 1 },
        { name: 'scale', shared: true },
      ],
      outputs: [{ name: 'scaled', batchAxis: 1 }, { name: 'sum' }],
    })
    expect(model.stats().executionCount).toBe(2)
  })
  it('are not guessed where several names would do, but may be said', async () => {
    const plain = await load(engine, timeMajor())
    expect(plain.metadata.inputs[0]!.batchAxis).toBeUndefined()
    const model = await load(engine, timeMajor(), {
      maxBatchSize: 4,
      inputs: [{ name: 'x', batchAxis: 1 }],
      dynamicBatching: { maxQueueDelayMs: 20 },
    })
    const x = (value: number) =>
      new Tensor(
        'float32',
        new Float32Array(15).map((_, at) => value + at),
        [5, 1, 3],
      )
    const answers = await Promise.all([100, 200, 300].map((value) => model.infer({ x: x(value) })))
    expect(answers.map(({ y }) => numbers(y))).toEqual(
      [100, 200, 300].map((value) => numbers(x(value)).map((each) => -each)),
    )
    expect(model.stats().executionCount).toBe(1)
  })
  it('are along the name that tensors have in common, where the graph does not prove it of the first dimensions but of those', async () => {
    const lines = await load(engine, transposed(), { dynamicBatching: { holdUntilQueued: 3 } })
    expect(lines.metadata.joining).toMatchObject({
      rows: 'independent',
      how: 'proved',
      reason: expect.stringContaining("rows are along dimension 1 of 'y'"),
    })
    expect([lines.metadata.inputs[0]!.batchAxis, lines.metadata.outputs[0]!.batchAxis]).toEqual([
      undefined,
      1,
    ])
    const line = (value: number) =>
      new Tensor(
        'float32',
        Float32Array.from({ length: 12 }, (_, at) => value + at),
        [1, 3, 4],
      )
    const read = await Promise.all([100, 200, 300].map((value) => lines.infer({ x: line(value) })))
    for (const [index, { y }] of read.entries()) {
      expect((y as Tensor).dims).toEqual([4, 1, 3])
      expect(numbers(y)).toEqual([0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11].map((at) => 100 * (index + 1) + at))
    }
    expect(lines.stats().executionCount).toBe(1)

    const steps = await load(engine, summedSteps(), { dynamicBatching: { holdUntilQueued: 2 } })
    expect([...steps.metadata.inputs, ...steps.metadata.outputs].map(({ batchAxis }) => batchAxis)).toEqual([
      1,
      1,
      undefined,
    ])
    const of = (value: number) => new Tensor('float32', new Float32Array(6).fill(value), [2, 1, 3])
    const sums = await Promise.all([1, 10].map((value) => steps.infer({ x: of(value) })))
    expect(sums.map(({ y, total }) => [numbers(y), numbers(total)])).toEqual(
      [1, 10].map((value) => [
        [...Array(3).fill(value), ...Array(3).fill(2 * value)],
        Array(3).fill(2 * value),
      ]),
    )
    expect(steps.stats().executionCount).toBe(1)
  })
  it.each([
    [scaledByOne(), 'y'],
    [scaledColumns(), 'scaled'],
  ])('lie beside a shared number that may be given as one of dims [1] (%s)', async (path, output) => {
    const model = await load(engine, path, {
      inputs: [{ name: 'x' }, { name: 'scale', dims: [1] }],
      dynamicBatching: { holdUntilQueued: 2 },
    })
    expect(model.metadata).toMatchObject({
      joining: { rows: 'independent' },
      inputs: [{ batchAxis: 1 }, { batchAxis: null, shape: [1] }],
    })
    const answers = await Promise.all(
      [1, 2].map((from) =>
        model.infer({ x: columns(1, from), scale: new Tensor('float32', Float32Array.of(3), [1]) }),
      ),
    )
    expect(answers.map((answer) => numbers(answer[output]))).toEqual(
      [1, 2].map((from) => numbers(columns(1, from)).map((value) => 3 * value)),
    )
    expect(model.stats().executionCount).toBe(1)
    expect(
      await errorOf(load(engine, path, { inputs: [{ name: 'x' }, { name: 'scale', dims: [2] }] })),
    ).toMatchObject({ argument: 'inputs[1].dims', expected: expect.stringMatching(/^\[1\]/), received: [2] })
  })
  it('are told by the maxBatchSize that was given where dims do not fit, not by none', async () => {
    const error = await errorOf(
      load(engine, peakOfAll(), { maxBatchSize: 4, inputs: [{ name: 'x', dims: [-1, -1, 3] }] }),
    )
    expect(error).toMatchObject({
      argument: 'inputs[0].dims',
      expected: expect.stringContaining('[-1, 3]'),
      message: expect.stringContaining('while maxBatchSize is not 0'),
    })
  })
  it('are not taken by name without a proof, nor against what is said', async () => {
    const model = await load(engine, peakOfAll())
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: { rows: 'dependent', node: expect.stringContaining('ReduceMax') },
    })
    expect(model.metadata.inputs[0]!.batchAxis).toBeUndefined()
    for (const said of [{ dims: [-1, 3] }, { batchAxis: 0 }]) {
      const { joining } = (await load(engine, summedSteps(), { inputs: [{ name: 'x', ...said }] })).metadata
      expect(joining).toMatchObject({ rows: 'dependent', node: expect.stringContaining('CumSum') })
    }
  })
  it('are to be said of an output that has them elsewhere under another name', async () => {
    const { joining } = (await load(engine, transposed(false))).metadata
    expect(joining).toMatchObject({
      rows: 'dependent',
      reason:
        "output 'y' has its rows along dimension 1, and not along dimension 0: say `batchAxis: 1` for it",
    })
    const model = await load(engine, transposed(false), { outputs: [{ name: 'y', batchAxis: 1 }] })
    expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
  })
  it('are those of maxBatchSize as well, where they are proved and the first dimensions are not', async () => {
    const model = await load(engine, transposed(), { maxBatchSize: 4 })
    expect(model.metadata).toMatchObject({ joining: { rows: 'declared' }, outputs: [{ batchAxis: 1 }] })
  })
  it('are warmed and measured like any other', async () => {
    const sample = { x: columns(2, 1), scale: Float32Array.of(2) }
    const model = await load(engine, scaledColumns(), {
      maxBatchSize: 4,
      latencyTargetMs: 1000,
      warmup: { data: [{ feeds: sample }], batchSizes: 'all' },
    })
    expect(numbers((await model.infer(sample))['scaled'])).toEqual(
      numbers(sample.x).map((value) => 2 * value),
    )
  })
  it('that a caller changes behind the call leave the value that others share alone', async () => {
    const model = await load(engine, scaledColumns(), {
      maxBatchSize: 4,
      dynamicBatching: { maxQueueDelayMs: 20 },
    })
    const scale = Float32Array.of(2)
    const answers = [
      model.infer({ x: columns(1, 1), scale }),
      model.infer({ x: columns(1, 1), scale: Float32Array.of(2) }),
    ]
    scale[0] = 1000
    for (const { scaled: got } of await Promise.all(answers))
      expect(numbers(got)).toEqual(numbers(columns(1, 1)).map((value) => 2 * value))
  })
  it.each<[ModelOptions, string]>([
    [
      {
        inputs: [
          { name: 'x', batchAxis: 0 },
          { name: 'scale', shared: true },
        ],
      },
      'inputs[0].batchAxis',
    ],
    [{ inputs: [{ name: 'x', batchAxis: 3 }, { name: 'scale' }] }, 'inputs[0].batchAxis'],
    [{ inputs: [{ name: 'x', batchAxis: 1, shared: true }, { name: 'scale' }] }, 'inputs[0].batchAxis'],
    [{ inputs: [{ name: 'x', batchAxis: 1, dims: [2, 3] }, { name: 'scale' }] }, 'inputs[0].dims'],
    [
      {
        inputs: [
          { name: 'x', shared: true },
          { name: 'scale', shared: true },
        ],
      },
      'maxBatchSize',
    ],
    [{ maxBatchSize: 0, inputs: [{ name: 'x', batchAxis: 1 }, { name: 'scale' }] }, 'inputs[0].batchAxis'],
  ])('are refused where the model has them not: %j', async (options, argument) => {
    expect(await errorOf(load(engine, scaledColumns(), { maxBatchSize: 4, ...options }))).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      argument,
    })
  })
  it('are what requests are checked by', async () => {
    const model = await load(engine, scaledColumns(), { maxBatchSize: 4 })
    const wrong = (x: Tensor, scale = Float32Array.of(1)) => errorOf(model.infer({ x, scale }))
    expect(await wrong(columns(5, 1))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
      expected: 'at most 4 rows (maxBatchSize)',
      received: 5,
    })
    expect(await wrong(new Tensor('float32', new Float32Array(9), [3, 1, 3]))).toMatchObject({
      argument: "input 'x'",
      expected: 'shape [2, N, 3]',
    })
    expect(await wrong(columns(1, 1), Float32Array.of(1, 2))).toMatchObject({ argument: "input 'scale'" })
    expect(
      numbers((await model.infer({ x: new Float32Array(6).fill(2), scale: Float32Array.of(3) }))['scaled']),
    ).toEqual(Array(6).fill(6))
  })
})

it('parts whose answers cannot be joined row by row are refused, and not joined otherwise', async () => {
  const model = await load(engine, wrapped(), { maxBatchSize: 2 })
  const x = (rows: number) =>
    new Tensor(
      'float32',
      Float32Array.from({ length: 3 * rows }, (_, at) => at),
      [rows, 3],
    )
  expect((await model.infer({ x: x(2) }))['y']).toMatchObject({ dims: [1, 2, 3] })
  for (const rows of [3, 4]) {
    expect(await errorOf(model.infer({ x: x(rows) }, { splitOversized: true }))).toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining('omit splitOversized'),
    })
  }
})

it('an ordinary model is as it was', async () => {
  const { metadata } = await load(engine, identity('float32'))
  expect([...metadata.inputs, ...metadata.outputs].some((value) => 'batchAxis' in value)).toBe(false)
})
