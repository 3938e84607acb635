import { describe, expect, it } from 'vitest'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { optionalBias } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, type Samples } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { floats } from '../support/samples.ts'
import { reported } from './outcome.ts'

const engine = sharedEngine()

/** A request of equal elements, with a bias or without. */
const request = (value: number, bias?: number, rows = 1, width = 4): Samples => {
  const all = (element: number) => floats([rows, width], Array(rows * width).fill(element))
  return { x: all(value), ...(bias === undefined ? {} : { bias: all(bias) }) }
}

/** Sends all requests, expects each to be answered with its x plus its bias, and returns the reports. */
async function answersRightly(model: Awaited<ReturnType<typeof load>>, requests: readonly Samples[]) {
  const answers = await Promise.all(requests.map((samples) => reported(model, feedsOf(samples))))
  for (const [at, { outputs }] of answers.entries()) {
    const { x, bias } = requests[at]!
    const sums = (x!.data as Float32Array).map(
      (value, index) => value + ((bias?.data as Float32Array | undefined)?.[index] ?? 0),
    )
    expectSame(outputs, feedsOf({ y: { type: 'float32', dims: x!.dims, data: sums } }))
  }
  return answers.map(({ report }) => report)
}

const optionalInputs = ['bias']
const mixed = [
  request(1),
  request(2, 10),
  request(3),
  request(4, 20, 2),
  request(5, 30),
  request(6, undefined, 3),
]

describe('optional inputs', () => {
  it('may be left out of any request, and those that give the same share a run', async () => {
    const model = await load(engine, optionalBias(), {
      optionalInputs,
      dynamicBatching: { holdUntilQueued: mixed.length },
    })
    const reports = await answersRightly(model, mixed)
    expect(reports.map(({ batchId, batchSize, position }) => [batchId, batchSize, position])).toEqual([
      [1, 5, 0],
      [2, 4, 0],
      [1, 5, 1],
      [2, 4, 1],
      [2, 4, 3],
      [1, 5, 2],
    ])
    expect(reports.map(({ reason }) => reason)).toEqual([
      'bucket',
      'idle',
      'bucket',
      'idle',
      'idle',
      'bucket',
    ])
  })

  it('are told apart in inputs of variable shape too', async () => {
    const model = await load(engine, optionalBias('L'), { optionalInputs })
    const widths = [3, 7, 3, 3, 7].flatMap((width) => [
      request(1, undefined, 1, width),
      request(2, 5, 2, width),
    ])
    const reports = await answersRightly(model, widths)
    expect(new Set(reports.map(({ batchId }) => batchId)).size).toBe(4)
  })

  it('are told apart in requests of several thousand', async () => {
    const model = await load(engine, optionalBias(), { optionalInputs })
    const many = Array.from({ length: 2000 }, (_, at) =>
      request(at, at % 3 === 0 ? undefined : 1000, 1 + (at % 2)),
    )
    await answersRightly(model, many)
    expect(model.stats().inferenceStats.success.count).toBe(2000)
  })

  it('may be padded', async () => {
    const padding = [
      { input: 'bias', dim: 1 },
      { input: 'x', dim: 1, outputs: [{ name: 'y', dim: 1 }] },
    ]
    const model = await load(engine, optionalBias('L'), {
      optionalInputs,
      padding,
      dynamicBatching: { holdUntilQueued: 4 },
    })
    const reports = await answersRightly(model, [
      request(1, 2, 1, 3),
      request(3, undefined, 1, 5),
      request(4, undefined, 1, 2),
      request(5, 6, 1, 7),
    ])
    expect(reports.map(({ batchSize }) => batchSize)).toEqual([2, 2, 2, 2])
    expect(model.stats().padding).toEqual({
      ownElements: 3 + 3 + 5 + 2 + 7 + 7,
      paddedElements: 4 * 7 + 2 * 5,
      wasteShare: 1 - 27 / 38,
    })
  })

  it('may be given as undefined', async () => {
    const model = await load(engine, optionalBias(), { optionalInputs })
    const { y } = await model.infer({ x: Float32Array.of(1, 2, 3, 4), bias: undefined as never })
    expect(y!.data).toEqual(Float32Array.of(1, 2, 3, 4))
  })

  it('are split with an oversized request', async () => {
    const model = await load(engine, optionalBias(), {
      optionalInputs,
      maxBatchSize: 4,
      splitOversized: true,
    })
    await answersRightly(model, [request(1, undefined, 9), request(2, 3, 9)])
  })

  it('fail a request whose graph needs them, and it alone', async () => {
    const model = await load(engine, small.addSub('float32'), {
      optionalInputs: ['b'],
      sessionOptions: { logSeverityLevel: 4 },
    })
    const a = new Float32Array(16)
    const without = model.infer({ a })
    const failure = expect(without).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining('Missing Input: b'),
    })
    await expect(model.infer({ a, b: a })).resolves.toHaveProperty('sum')
    await failure
  })
})

describe('a request is refused', () => {
  it('without an input that is not optional', async () => {
    const model = await load(engine, optionalBias(), { optionalInputs })
    const error = await rejectionOf(() => model.infer({ bias: new Float32Array(4) }))
    expectRefusal(error, { argument: "input 'x'", expected: /to be given/, received: undefined })
  })

  it('without any input, though all are optional', async () => {
    const model = await load(engine, optionalBias(), { optionalInputs: ['x', 'bias'] })
    expectRefusal(await rejectionOf(() => model.infer({})), {
      argument: 'feeds',
      expected: /at least one input/,
    })
  })

  it('with an input that the model does not have', async () => {
    const model = await load(engine, optionalBias(), { optionalInputs })
    const x = new Float32Array(4)
    const error = await rejectionOf(() => model.infer({ x, scale: x }))
    expectRefusal(error, { argument: "input 'scale'", received: 'scale' })
  })

  it('with a misspelt input, and is answered with the name that was meant', async () => {
    const x = new Float32Array(4)
    const model = await load(engine, optionalBias(), { optionalInputs })
    expect(await rejectionOf(() => model.infer({ x, bais: x }))).toHaveProperty(
      'message',
      `input 'bais' of model '${model.name}': did you mean bias? Expected an input of the model, received 'bais'. The model's inputs are 'x', 'bias'`,
    )
    const strict = await load(engine, optionalBias())
    expect(await rejectionOf(() => strict.infer({ x, bais: x }))).toHaveProperty(
      'message',
      `input 'bias' of model '${strict.name}': expected to be given, received [bais]. Did you mean 'bias' by 'bais'? The model's inputs are 'x', 'bias'`,
    )
  })

  it('without an input where none is declared optional', async () => {
    const model = await load(engine, optionalBias())
    const error = await rejectionOf(() => model.infer({ x: new Float32Array(4) }))
    expectRefusal(error, { argument: "input 'bias'" })
    expect(error).toHaveProperty(
      'message',
      expect.stringMatching(/; those that the model can do without are to be listed in its optionalInputs$/),
    )
  })
})

it('an optional input that the model does not have is refused at the load', async () => {
  const error = await rejectionOf(() => load(engine, optionalBias(), { optionalInputs: ['bias', 'scale'] }))
  expectRefusal(error, {
    code: 'ERR_MODEL_CONFIG',
    argument: 'optionalInputs',
    expected: /'x', 'bias'/,
    received: 'scale',
  })
})
