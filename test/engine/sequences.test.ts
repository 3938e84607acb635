import { describe, expect, it } from 'vitest'
import type { InferOptions, ModelOptions } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { addedState, scaledColumns } from '../models/batch-axes.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'

const engine = sharedEngine()

const config: ModelOptions = {
  maxBatchSize: 8,
  dynamicBatching: { maxQueueDelayMs: 20 },
  sequence: {
    maxSequenceIdleMs: 60_000,
    controls: [
      { input: 'START', kind: 'start' },
      { input: 'END', kind: 'end' },
      { input: 'ID', kind: 'correlationId' },
    ],
    state: [{ input: 'before', output: 'state' }],
  },
}

describe('requests of a sequence', () => {
  it('get its controls and the state that the one before has left, in the order of their calls, joined with other sequences', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (id: number, value: number, options: InferOptions = {}) =>
      model.infer({ x: Float32Array.of(value) }, { sequenceId: id, ...options })
    const answers = await Promise.all(
      [1, 2, 3].flatMap((id) => [
        send(id, id, { sequenceStart: true }),
        send(id, 10 * id),
        send(id, 100 * id, { sequenceEnd: true }),
      ]),
    )
    expect(answers.map(({ sum }) => sum!.data[0])).toEqual([1, 11, 111, 2, 22, 222, 3, 33, 333])
    expect(answers.map(({ id }) => Number(id!.data[0]))).toEqual([1, 1, 1, 2, 2, 2, 3, 3, 3])
    expect(answers.map(({ ended }) => ended!.data[0])).toEqual([0, 0, 1, 0, 0, 1, 0, 0, 1])
    expect(Object.keys(answers[0]!)).toEqual(['sum', 'ended', 'id'])
    expect(model.stats().executionCount).toBeLessThan(9)
  })
  it('begin anew with start, and keep the state of a request that failed', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (value: Float32Array, options: InferOptions) => model.infer({ x: value }, options)
    await send(Float32Array.of(1), { sequenceId: 5, sequenceStart: true })
    expect(await errorOf(send(Float32Array.of(1, 2), { sequenceId: 5 }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
    })
    expect((await send(Float32Array.of(2), { sequenceId: 5 }))['sum']!.data[0]).toBe(3)
    expect((await send(Float32Array.of(7), { sequenceId: 5, sequenceStart: true }))['sum']!.data[0]).toBe(7)
    expect((await send(Float32Array.of(1), { sequenceId: 5n }))['sum']!.data[0]).toBe(8)
  })
  it('give the state to the caller who asks for it, in a copy', async () => {
    const model = await load(engine, accumulator(), config)
    const first = await model.infer(
      { x: Float32Array.of(4) },
      { sequenceId: 9, sequenceStart: true, outputs: ['state'], report: true },
    )
    expect(Object.keys(first.outputs)).toEqual(['state'])
    ;(first.outputs['state']!.data as Float32Array)[0] = 1000
    expect((await model.infer({ x: Float32Array.of(1) }, { sequenceId: 9 }))['sum']!.data[0]).toBe(5)
  })
  it('may give the controls themselves instead', async () => {
    const model = await load(engine, accumulator(), config)
    const one = (data: Float32Array | Uint8Array | BigUint64Array) => data
    const feeds = {
      x: one(Float32Array.of(1)),
      before: one(Float32Array.of(41)),
      START: one(Float32Array.of(0)),
      END: one(Uint8Array.of(0)),
      ID: one(BigUint64Array.of(3n)),
    }
    expect((await model.infer(feeds))['sum']!.data[0]).toBe(42)
  })
  it('are all answered that were called before their model is replaced or closed, and by that', async () => {
    const engine = ownEngine()
    const patient = { ...config, dynamicBatching: { maxQueueDelayMs: 60_000 } } // until it is drained
    const load = (more: object = {}) => engine.load('m', { path: accumulator(), ...patient, ...more })
    const model = await load()
    const send = (value: number, options: InferOptions = {}) =>
      model.infer({ x: Float32Array.of(value) }, { sequenceId: 1, ...options })
    const begun = [send(1, { sequenceStart: true }), send(10), send(100)]
    await load({ warmup: false })
    const later = [send(2, { sequenceStart: true }), send(20), send(200, { sequenceEnd: true })]
    const closing = engine.close()
    expect((await Promise.all([...begun, ...later])).map(({ sum }) => sum!.data[0])).toEqual([
      1, 11, 111, 2, 22, 222,
    ])
    await closing
    expect(await errorOf(send(3, { sequenceStart: true }))).toMatchObject({ code: 'ERR_CLOSED' })
  })
  it('do not go on in the model that takes the place of theirs', async () => {
    const engine = ownEngine()
    const load = () => engine.load('m', { path: accumulator(), ...config })
    const model = await load()
    await model.infer({ x: Float32Array.of(1) }, { sequenceId: 1, sequenceStart: true })
    await load()
    expect(await errorOf(model.infer({ x: Float32Array.of(1) }, { sequenceId: 1 }))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
      argument: 'options.sequenceStart',
    })
  })
  it('are rejected where they wait for their turn when the engine is destroyed', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', {
      path: accumulator(),
      ...config,
      dynamicBatching: { holdUntilQueued: 100 },
    })
    const send = (value: number, start: boolean) =>
      errorOf(model.infer({ x: Float32Array.of(value) }, { sequenceId: 1, sequenceStart: start }))
    const waiting = [send(1, true), send(2, false), send(3, false)]
    const closing = engine.destroy()
    expect((await Promise.all(waiting)).map(({ code }) => code)).toEqual([
      'ERR_CLOSED',
      'ERR_CLOSED',
      'ERR_CLOSED',
    ])
    await closing
  })
  it('are refused when their sequence has not begun, has ended, or there are none', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (options: InferOptions) => model.infer({ x: Float32Array.of(1) }, options)
    expect(await errorOf(send({ sequenceId: 1 }))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
      argument: 'options.sequenceStart',
      expected: 'true for the first request of a sequence',
    })
    await send({ sequenceId: 1, sequenceStart: true, sequenceEnd: true })
    expect(await errorOf(send({ sequenceId: 1 }))).toMatchObject({ argument: 'options.sequenceStart' })
    expect(await errorOf(send({ sequenceId: 0, sequenceStart: true }))).toMatchObject({
      argument: 'options.sequenceId',
    })
    expect(await errorOf(send({ sequenceId: 'one', sequenceStart: true }))).toMatchObject({
      argument: 'options.sequenceId',
      expected: "a number, as input 'ID' (uint64) takes",
    })
    expect(await errorOf(send({ sequenceId: -1, sequenceStart: true }))).toMatchObject({
      argument: 'options.sequenceId',
    })
    expect(await errorOf(send({ sequenceStart: true }))).toMatchObject({ argument: 'options.sequenceId' })
    expect((await errorOf(model.infer({ x: Float32Array.of(1) }))).message).toMatch(
      /^input 'before' .* expected to be given.*; with options\.sequenceId it is filled in$/,
    )
    const plain = await load(engine, accumulator(), { maxBatchSize: 8 })
    expect(await errorOf(plain.infer({ x: Float32Array.of(1) }, { sequenceId: 1 }))).toMatchObject({
      argument: 'options.sequenceId',
      expected: 'a model with sequences',
    })
  })
  it('are told of by what became of the last of their id', async () => {
    const model = await load(engine, accumulator(), {
      ...config,
      sequence: { ...config.sequence, maxSequenceIdleMs: 10 },
    })
    const send = (options: InferOptions = {}) =>
      model.infer({ x: Float32Array.of(1) }, { sequenceId: 6, ...options })
    await send({ sequenceStart: true })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await errorOf(send())).message).toContain('Sequence 6 had no request for 10 ms')
    await send({ sequenceStart: true, sequenceEnd: true })
    expect((await errorOf(send())).message).toContain('Sequence 6 has not begun, has ended')
    expect(await errorOf(send({ sequenceId: 2 ** 53, sequenceStart: true }))).toMatchObject({
      argument: 'options.sequenceId',
      expected: expect.stringContaining('a bigint from 2^53 on'),
    })
    expect((await send({ sequenceId: 2n ** 64n - 1n, sequenceStart: true }))['id']!.data[0]).toBe(
      2n ** 64n - 1n,
    )
  })
  it.each([
    [{ controls: [{ input: 'none', kind: 'start' }] }, 'sequence.controls[0].input'],
    [{ controls: [{ input: 'ID', kind: 'start' }] }, 'sequence.controls[0].input'],
    [{ state: [{ input: 'before', output: 'none' }] }, 'sequence.state[0].output'],
    [
      {
        controls: [
          { input: 'START', kind: 'start' },
          { input: 'END', kind: 'start' },
        ],
      },
      'sequence.controls[1].kind',
    ],
    [{ controls: [{ input: 'END', kind: 'end', values: [0, 300] }] }, 'sequence.controls[0].values'],
    [{ controls: [{ input: 'END', kind: 'end', values: [0.5, 1] }] }, 'sequence.controls[0].values'],
    [
      {
        state: [
          {
            input: 'before',
            output: 'state',
            initial: { type: 'float32', dims: [2, 1], data: new Float32Array(2) },
          },
        ],
      },
      'sequence.state[0].initial',
    ],
  ])('are of a model that has what they need: %j', async (sequence, argument) => {
    expect(
      await errorOf(load(engine, accumulator(), { maxBatchSize: 8, sequence: sequence as never })),
    ).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument })
  })
  it('are refused at the load where a state cannot be handed on: the output has another rank or length', async () => {
    const shapes = {
      expected: "an output of shape [2, N, 3], as 'x' takes it",
      received: "'sum' of shape [N, 3]",
    }
    const error = await errorOf(
      load(engine, scaledColumns(), {
        maxBatchSize: 8,
        sequence: { state: [{ input: 'x', output: 'sum' }] },
      }),
    )
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'sequence.state[0].output', ...shapes })
    const model = await load(engine, scaledColumns(), {
      maxBatchSize: 8,
      sequence: { state: [{ input: 'x', output: 'scaled' }] },
    })
    expect(model.state).toBe('ready')
  })
})

it.each([{ responseCache: true }, { coalesce: true }])(
  'a model with sequences shares no answers: %j',
  async (sharing) => {
    const sequence = { state: [{ input: 'x', output: 'y' }] }
    const error = await errorOf(load(engine, accumulator(), { maxBatchSize: 8, sequence, ...sharing }))
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: Object.keys(sharing)[0] })
  },
)

it('a state is of each sequence: no input that rows share takes one, said or found', async () => {
  const sequence = { state: [{ input: 'before', output: 'state' }] }
  const refused = {
    code: 'ERR_MODEL_CONFIG',
    argument: 'sequence.state[0].input',
    expected: 'an input that rows of a batch do not share',
  }
  expect(await errorOf(load(engine, addedState([1, 1]), { maxBatchSize: 8, sequence }))).toMatchObject(
    refused,
  )
  const inputs = [{ name: 'x' }, { name: 'before', shared: true }]
  expect(await errorOf(load(engine, addedState(), { maxBatchSize: 8, inputs, sequence }))).toMatchObject(
    refused,
  )
})

it('sequences in slots go on one by one when the rows of their model turn out to be none', async () => {
  const sequence = { state: [{ input: 'before', output: 'state' }], direct: {} }
  const model = await load(engine, addedState(), { maxBatchSize: 4, checkRows: false, sequence })
  const streams = [1, -10, 100].map((value) => ({ value, stream: model.sequence() }))
  const sums = () =>
    Promise.all(
      streams.map(
        async ({ value, stream }) => (await stream.infer({ x: Float32Array.of(value) }))['sum']!.data[0],
      ),
    )
  expect([await sums(), await sums(), await sums()]).toEqual([
    [1, -10, 100],
    [2, -20, 200],
    [3, -30, 300],
  ])
})
