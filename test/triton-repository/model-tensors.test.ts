import { readFileSync } from 'node:fs'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import { addSub, identity, identityScalar, identityUnbatched, identityVariable } from '../models/small.ts'
import { ownEngine } from '../support/open.ts'
import { errorOf, temporaryFolder } from './temporary.ts'

// What a configuration says of tensors, against the model: requests have the dims of the configuration, the model its own.

async function load(model: string, config: string) {
  const engine = ownEngine()
  const path = temporaryFolder({ 'm/1/model.onnx': readFileSync(model), 'm/config.pbtxt': config })
  const [loaded] = await engine.loadRepository(path)
  return loaded!
}

/** The one error of a repository with this model. */
async function refusal(model: string, config: string) {
  const error = await errorOf(load(model, config))
  const [only] = (error.cause as AggregateError).errors as (Error & Record<string, unknown>)[]
  return only!
}

const tensors = (dims: string, more = '') =>
  `input { name: "x" data_type: TYPE_FP32 ${dims} } output { name: "y" data_type: TYPE_FP32 ${dims} } ${more}`
const float32 = (dims: number[]) =>
  new Tensor(
    'float32',
    Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, index) => index),
    dims,
  )

describe('a model whose tensors are configured', () => {
  it('has their dims, without the batch dimension while max_batch_size is not 0', async () => {
    const model = await load(identity('float32', [4]), `max_batch_size: 8 ${tensors('dims: [4]')}`)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 8,
      inputs: [{ name: 'x', shape: ['N', 4] }],
      outputs: [{ name: 'y', shape: ['N', 4] }],
    })
    expect((await model.infer({ x: float32([2, 4]) }))['y']!.dims).toEqual([2, 4])
  })
  it('is given the reshaped ones, and its outputs are given back in those of the configuration', async () => {
    const model = await load(
      identityUnbatched('float32', [1, 2, 3]),
      `max_batch_size: 0 ${tensors('dims: [6] reshape { shape: [1, 2, 3] }')}`,
    )
    expect(model.metadata).toMatchObject({ inputs: [{ shape: [6] }], outputs: [{ shape: [6] }] })
    const { y } = await model.infer({ x: float32([6]) })
    expect(y).toMatchObject({ dims: [6], data: Float32Array.of(0, 1, 2, 3, 4, 5) })
    expect((await model.infer({ x: float32([6]).data as Float32Array }))['y']!.dims).toEqual([6])
    expect(await errorOf(model.infer({ x: float32([1, 2, 3]) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      expected: 'rank 1, shape [6]',
      received: [1, 2, 3],
    })
  })
  it('is given them also by rows, joined with others', async () => {
    const model = await load(
      identity('float32', [4]),
      `max_batch_size: 8 ${tensors('dims: [2, 2] reshape { shape: [4] }')} dynamic_batching { max_queue_delay_microseconds: 50000 }`,
    )
    const answers = await Promise.all(
      [1, 2, 3].map((rows) => model.infer({ x: float32([rows, 2, 2]) }, { report: true })),
    )
    expect(answers.map(({ outputs }) => outputs['y']!.dims)).toEqual([
      [1, 2, 2],
      [2, 2, 2],
      [3, 2, 2],
    ])
    expect(answers[2]!.outputs['y']!.data).toEqual(float32([3, 2, 2]).data)
    expect(answers[2]!.report.batchSize).toBe(6)
  })
  it('has variable dims filled in their order', async () => {
    const model = await load(
      identityVariable('float32'),
      `max_batch_size: 0 ${tensors('dims: [1, -1, -1] reshape { shape: [-1, -1] }')}`,
    )
    expect(model.metadata.inputs[0]!.shape).toEqual([1, 'N', 'L'])
    expect((await model.infer({ x: float32([1, 3, 5]) }))['y']!.dims).toEqual([1, 3, 5])
  })
  it('may have its variable dims fixed', async () => {
    const model = await load(
      identityVariable('float32'),
      `max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [3] } output { name: "y" data_type: TYPE_FP32 dims: [-1] }`,
    )
    expect((await model.infer({ x: float32([2, 3]) }))['y']!.dims).toEqual([2, 3])
    expect(await errorOf(model.infer({ x: float32([2, 5]) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      expected: 'shape [N, 3]',
      received: [2, 5],
    })
  })
  it('has an empty reshape for what has one number in each row, and one number for a scalar', async () => {
    const rows = await load(
      identity('float32', []),
      `max_batch_size: 4 ${tensors('dims: [1] reshape { shape: [] }')}`,
    )
    expect((await rows.infer({ x: float32([3, 1]) }))['y']).toMatchObject({
      dims: [3, 1],
      data: Float32Array.of(0, 1, 2),
    })
    const scalar = await load(identityScalar('float32'), `max_batch_size: 0 ${tensors('dims: [1]')}`)
    expect((await scalar.infer({ x: Float32Array.of(7) }))['y']).toMatchObject({
      dims: [1],
      data: Float32Array.of(7),
    })
  })
  it('answers with the outputs that are configured, and no others', async () => {
    const input = (name: string) => `input { name: "${name}" data_type: TYPE_INT32 dims: 16 }`
    const model = await load(
      addSub('int32'),
      `max_batch_size: 2 ${input('a')} ${input('b')} output { name: "difference" data_type: TYPE_INT32 dims: 16 }`,
    )
    const feeds = { a: new Int32Array(16).fill(5), b: new Int32Array(16).fill(2) }
    expect(model.metadata.outputs.map(({ name }) => name)).toEqual(['difference'])
    expect(Object.keys(await model.infer(feeds))).toEqual(['difference'])
    expect((await model.infer(feeds, { outputs: ['difference'] }))['difference']!.data).toEqual(
      new Int32Array(16).fill(3),
    )
    expect(await errorOf(model.infer(feeds, { outputs: ['sum'] }))).toMatchObject({
      argument: 'options.outputs',
      expected: "names out of 'difference'",
    })
  })
  it('without a configuration is completed: batches of 4 where rows are independent, two instances on the CPU', async () => {
    const model = await load(identity('float32', [4]), '')
    expect(model.metadata).toMatchObject({ maxBatchSize: 4, joining: { rows: 'independent' } })
    expect(model.capacity().instances).toBe(2)
    expect((await model.infer({ x: float32([9, 4]) }))['y']!.dims).toEqual([9, 4])
  })
  it('with a configuration of inputs alone is completed from them, whose dims are without the batch', async () => {
    const model = await load(identity('float32', [4]), 'input { name: "x" data_type: TYPE_FP32 dims: 4 }')
    expect(model.metadata).toMatchObject({ maxBatchSize: 4, outputs: [{ name: 'y', shape: ['N', 4] }] })
  })
})

describe('a configuration that does not fit its model is refused, with file, place, field, expected and received', () => {
  const batched = identity('float32', [4])
  it.each([
    [
      'of another type',
      `max_batch_size: 4 input { name: "x" data_type: TYPE_INT32 dims: 4 }`,
      'input[0].data_type',
      'TYPE_FP32, as the model has it',
      'TYPE_INT32',
      'data_type',
    ],
    [
      'with the batch dimension in dims',
      `max_batch_size: 4 ${tensors('dims: [-1, 4]')}`,
      'input[0].dims',
      '[4]',
      [-1, 4],
      'dims: [',
    ],
    [
      'without it where max_batch_size is 0',
      `max_batch_size: 0 ${tensors('dims: [4]')}`,
      'input[0].dims',
      '[-1, 4], where a fixed length may stand for -1',
      [4],
      'dims: [',
    ],
    [
      'without it where max_batch_size is left out',
      tensors('dims: [4]'),
      'input[0].dims',
      '[-1, 4], where a fixed length may stand for -1',
      [4],
      'dims: [',
    ],
    [
      'of another length',
      `max_batch_size: 4 ${tensors('dims: [5]')}`,
      'input[0].dims',
      '[4]',
      [5],
      'dims: [',
    ],
    [
      'of a variable length that the model fixes',
      `max_batch_size: 4 ${tensors('dims: [-1]')}`,
      'input[0].dims',
      '[4]',
      [-1],
      'dims: [',
    ],
    [
      'reshaped to what the model has not',
      `max_batch_size: 4 ${tensors('dims: [4] reshape { shape: [2, 2] }')}`,
      'input[0].reshape.shape',
      '[4]',
      [2, 2],
      'shape: [',
    ],
    [
      'of another name',
      `max_batch_size: 4 input { name: "data" data_type: TYPE_FP32 dims: 4 }`,
      'input[0].name',
      "one of the inputs of the model ('x')",
      'data',
      'name: "data"',
    ],
    [
      'of an output of another name',
      `max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "z" data_type: TYPE_FP32 dims: 4 }`,
      'output[0].name',
      "one of the outputs of the model ('y')",
      'z',
      'name: "z"',
    ],
    [
      'with an optional input that there is not',
      `max_batch_size: 4 input [{ name: "x" data_type: TYPE_FP32 dims: 4 }, { name: "w" data_type: TYPE_FP32 dims: 4 optional: true }]`,
      'input[1].name',
      "one of the inputs of the model ('x')",
      'w',
      'name: "w"',
    ],
    [
      'with preferred sizes that are too large',
      `max_batch_size: 4 dynamic_batching { preferred_batch_size: [2, 8] }`,
      'dynamic_batching.preferred_batch_size',
      'sizes of at most max_batch_size (4)',
      8,
      'preferred',
    ],
  ])('%s', async (_, config, argument, expected, received, place) => {
    const error = await refusal(batched, config)
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm', argument, expected, received })
    expect(error.message).toMatch(new RegExp(`At .*m/config\\.pbtxt:1:${config.indexOf(place) + 1}$`))
  })
  it('of an input that is not there', async () => {
    const error = await refusal(
      addSub('int32'),
      'max_batch_size: 2 input { name: "a" data_type: TYPE_INT32 dims: 16 }',
    )
    expect(error).toMatchObject({
      argument: 'input',
      expected: "all inputs of the model ('a', 'b')",
      received: ['a'],
    })
    expect(error.message).toContain("'b' is missing")
  })
  it('with batches, though the model has none', async () => {
    const error = await refusal(identityUnbatched('float32', [2, 3]), 'max_batch_size: 8')
    expect(error).toMatchObject({
      argument: 'max_batch_size',
      expected: "0, since 'x' has the fixed shape [2, 3]",
      received: 8,
    })
    expect(error.message).toMatch(/Omit max_batch_size.*m\/config\.pbtxt:1:1$/)
  })
  it('with preferred sizes above those that it is completed with', async () => {
    const error = await refusal(batched, 'dynamic_batching { preferred_batch_size: 8 }')
    expect(error).toMatchObject({
      argument: 'dynamic_batching.preferred_batch_size',
      expected: 'sizes of at most max_batch_size (4)',
      received: 8,
    })
    expect(error.message).toContain('Give max_batch_size for larger batches')
  })
  it('with a warm-up of other inputs', async () => {
    const warmup = (name: string, dims: string) =>
      `max_batch_size: 4 model_warmup { name: "w" batch_size: 1 inputs { key: "${name}" value { data_type: TYPE_FP32 dims: ${dims} zero_data: true } } }`
    expect(await refusal(batched, warmup('data', '4'))).toMatchObject({
      argument: 'model_warmup[0].inputs',
      expected: "input 'x': to be given",
      message: expect.stringMatching(/m\/config\.pbtxt:1:\d+$/),
    })
    expect(await refusal(batched, warmup('x', '5'))).toMatchObject({
      argument: 'model_warmup[0].inputs',
      expected: "input 'x': shape [N, 4]",
      received: [1, 5],
    })
  })
})
