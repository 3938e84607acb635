import { Tensor } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import type { ModelOptions, SequenceOptions } from '../../src/index.ts'
import { Sequences } from '../../src/request/sequences.ts'
import type { ModelMetadata } from '../../src/metadata.ts'
import { accumulator } from '../models/accumulator.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { errorOf } from '../triton-repository/temporary.ts'

const engine = sharedEngine()

const config: ModelOptions = {
  maxBatchSize: 8,
  dynamicBatching: { maxQueueDelayMs: 20 },
  sequence: {
    maxIdleMs: 60_000,
    controls: [{ input: 'START', kind: 'start' }, { input: 'END', kind: 'end' }, { input: 'ID', kind: 'correlationId' }],
    states: [{ input: 'before', output: 'state' }],
  },
}

describe('requests of a sequence', () => {
  it('get its controls and the state that the one before has left, in the order of their calls, joined with other sequences', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (id: number, value: number, sequence: Partial<SequenceOptions> = {}) => model.infer({ x: Float32Array.of(value) }, { sequence: { id, ...sequence } })
    const answers = await Promise.all([1, 2, 3].flatMap((id) => [send(id, id, { start: true }), send(id, 10 * id), send(id, 100 * id, { end: true })]))
    expect(answers.map(({ sum }) => sum!.data[0])).toEqual([1, 11, 111, 2, 22, 222, 3, 33, 333])
    expect(answers.map(({ id }) => Number(id!.data[0]))).toEqual([1, 1, 1, 2, 2, 2, 3, 3, 3])
    expect(answers.map(({ ended }) => ended!.data[0])).toEqual([0, 0, 1, 0, 0, 1, 0, 0, 1])
    expect(Object.keys(answers[0]!)).toEqual(['sum', 'ended', 'id'])
    expect(model.stats().executionCount).toBeLessThan(9)
  })
  it('begin anew with start, and keep the state of a request that failed', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (value: Float32Array, sequence: SequenceOptions) => model.infer({ x: value }, { sequence })
    await send(Float32Array.of(1), { id: 5, start: true })
    expect(await errorOf(send(Float32Array.of(1, 2), { id: 5 }))).toMatchObject({ code: 'ERR_INVALID_ARG' })
    expect((await send(Float32Array.of(2), { id: 5 }))['sum']!.data[0]).toBe(3)
    expect((await send(Float32Array.of(7), { id: 5, start: true }))['sum']!.data[0]).toBe(7)
    expect((await send(Float32Array.of(1), { id: 5n }))['sum']!.data[0]).toBe(8)
  })
  it('give the state to the caller who asks for it, in a copy', async () => {
    const model = await load(engine, accumulator(), config)
    const first = await model.infer({ x: Float32Array.of(4) }, { sequence: { id: 9, start: true }, outputs: ['state'], report: true })
    expect(Object.keys(first.outputs)).toEqual(['state'])
    ;(first.outputs['state']!.data as Float32Array)[0] = 1000
    expect((await model.infer({ x: Float32Array.of(1) }, { sequence: { id: 9 } }))['sum']!.data[0]).toBe(5)
  })
  it('may give the controls themselves instead', async () => {
    const model = await load(engine, accumulator(), config)
    const one = (data: Float32Array | Uint8Array | BigUint64Array) => data
    const feeds = { x: one(Float32Array.of(1)), before: one(Float32Array.of(41)), START: one(Float32Array.of(0)), END: one(Uint8Array.of(0)), ID: one(BigUint64Array.of(3n)) }
    expect((await model.infer(feeds))['sum']!.data[0]).toBe(42)
  })
  it('are all answered that were called before their model is replaced or closed, and by that', async () => {
    const engine = ownEngine()
    const patient = { ...config, dynamicBatching: { maxQueueDelayMs: 60_000 } } // until it is drained
    const load = (more: object = {}) => engine.load('m', { path: accumulator(), ...patient, ...more })
    const model = await load()
    const send = (value: number, sequence: Partial<SequenceOptions> = {}) => model.infer({ x: Float32Array.of(value) }, { sequence: { id: 1, ...sequence } })
    const begun = [send(1, { start: true }), send(10), send(100)]
    await load({ warmup: false })
    const later = [send(2, { start: true }), send(20), send(200, { end: true })]
    const closing = engine.close()
    expect((await Promise.all([...begun, ...later])).map(({ sum }) => sum!.data[0])).toEqual([1, 11, 111, 2, 22, 222])
    await closing
    expect(await errorOf(send(3, { start: true }))).toMatchObject({ code: 'ERR_CLOSED' })
  })
  it('do not go on in the model that takes the place of theirs', async () => {
    const engine = ownEngine()
    const load = () => engine.load('m', { path: accumulator(), ...config })
    const model = await load()
    await model.infer({ x: Float32Array.of(1) }, { sequence: { id: 1, start: true } })
    await load()
    expect(await errorOf(model.infer({ x: Float32Array.of(1) }, { sequence: { id: 1 } }))).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'options.sequence.start' })
  })
  it('are rejected where they wait for their turn when the engine is destroyed', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', { path: accumulator(), ...config, dynamicBatching: { holdUntilQueued: 100 } })
    const send = (value: number, start: boolean) => errorOf(model.infer({ x: Float32Array.of(value) }, { sequence: { id: 1, start } }))
    const waiting = [send(1, true), send(2, false), send(3, false)]
    const closing = engine.destroy()
    expect((await Promise.all(waiting)).map(({ code }) => code)).toEqual(['ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED'])
    await closing
  })
  it('are refused when their sequence has not begun, has ended, or there are none', async () => {
    const model = await load(engine, accumulator(), config)
    const send = (sequence: unknown) => model.infer({ x: Float32Array.of(1) }, { sequence: sequence as SequenceOptions })
    expect(await errorOf(send({ id: 1 }))).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'options.sequence.start', expected: 'true for the first request of a sequence' })
    await send({ id: 1, start: true, end: true })
    expect(await errorOf(send({ id: 1 }))).toMatchObject({ argument: 'options.sequence.start' })
    expect(await errorOf(send({ id: 0, start: true }))).toMatchObject({ argument: 'options.sequence.id' })
    expect(await errorOf(send({ id: 'one', start: true }))).toMatchObject({ argument: 'options.sequence.id', expected: "a number, as input 'ID' (uint64) takes" })
    expect(await errorOf(send({ id: -1, start: true }))).toMatchObject({ argument: 'options.sequence.id' })
    expect(await errorOf(send(7))).toMatchObject({ argument: 'options.sequence' })
    expect((await errorOf(model.infer({ x: Float32Array.of(1) }))).message).toMatch(/^input 'before' .* expected to be given.*; with options\.sequence it is filled in$/)
    const plain = await load(engine, accumulator(), { maxBatchSize: 8 })
    expect(await errorOf(plain.infer({ x: Float32Array.of(1) }, { sequence: { id: 1 } }))).toMatchObject({ argument: 'options.sequence', expected: 'to be left out for a model without sequences' })
  })
  it.each([
    [{ controls: [{ input: 'none', kind: 'start' }] }, 'sequence.controls[0].input'], [{ controls: [{ input: 'ID', kind: 'start' }] }, 'sequence.controls[0].input'],
    [{ states: [{ input: 'before', output: 'none' }] }, 'sequence.states[0].output'],
    [{ controls: [{ input: 'START', kind: 'start' }, { input: 'END', kind: 'start' }] }, 'sequence.controls[1].kind'],
  ])('are of a model that has what they need: %j', async (sequence, argument) => {
    expect(await errorOf(load(engine, accumulator(), { maxBatchSize: 8, sequence: sequence as never }))).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument })
  })
})

it.each([{ responseCache: true }, { coalesce: true }])('a model with sequences shares no answers: %j', async (sharing) => {
  const sequence = { states: [{ input: 'x', output: 'y' }] }
  const error = await errorOf(load(engine, accumulator(), { maxBatchSize: 8, sequence, ...sharing }))
  expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: Object.keys(sharing)[0] })
})

describe('a sequence without requests', () => {
  it('is forgotten after maxIdleMs, but not while one of its requests is under way', async () => {
    const metadata: ModelMetadata = {
      name: 'm', path: '', inputs: [], outputs: [], unservableOutputs: [], executionProviders: [], maxBatchSize: 1, joining: { rows: 'declared', largestDifference: null, reason: '' },
    }
    const sequences = new Sequences(metadata, { maxIdleMs: 10, controls: [], states: [] })
    let nowMs = 0
    const answer = { y: new Tensor('float32', Float32Array.of(1), [1]) }
    const send = (sequence: SequenceOptions, run: () => Promise<typeof answer> = () => Promise.resolve(answer)) =>
      sequences.infer({}, sequence, { outputs: null, requestId: undefined, report: false }, () => nowMs, run)
    await send({ id: 1, start: true })
    let finish!: (value: typeof answer) => void
    const slow = send({ id: 2, start: true }, () => new Promise((resolve) => (finish = resolve)))
    await Promise.resolve()
    nowMs = 11
    expect(() => send({ id: 1 })).toThrow('was without a request for more than 10 ms')
    const next = send({ id: 2 })
    finish(answer)
    expect(await Promise.all([slow, next])).toEqual([answer, answer])
  })
})
