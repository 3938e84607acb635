import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  InferenceError,
  Tensor,
  type AnySignature,
  type Model,
  type ModelOptions,
  type ModelSignature,
  type Outputs,
  type ReportedOutputs,
  type SequenceStream,
} from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { addedSeries, growing, scaledColumns } from '../models/batch-axes.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { errorOf } from '../triton-repository/temporary.ts'
import { accumulatorSequence } from './accumulators.ts'

const engine = sharedEngine()
const options = (more: ModelOptions['sequence'] = {}): ModelOptions => ({
  maxBatchSize: 8,
  checkRows: false,
  sequence: { ...accumulatorSequence, maxSequenceIdleMs: 60_000, ...more },
})
const x = (value: number) => ({ x: Float32Array.of(value) })
const first = ({ sum }: Outputs) => (sum!.data as Float32Array)[0]

describe('a stream', () => {
  it('begins with its first request and ends with its last, each told to the model', async () => {
    const model = await load(engine, accumulator(), options())
    const stream = model.sequence()
    const answers = [stream.infer(x(1)), stream.infer(x(2)), stream.end(x(3))]
    const all = await Promise.all(answers)
    expect(all.map(first)).toEqual([1, 3, 6])
    expect(all.map(({ ended }) => ended!.data[0])).toEqual([0, 0, 1])
    expect(all.map(({ id }) => Number(id!.data[0]))).toEqual(Array(3).fill(stream.id))
    expect(await errorOf(stream.infer(x(4)))).toMatchObject({ code: 'ERR_SEQUENCE_ENDED' })
    expect(await errorOf(stream.end(x(4)))).toMatchObject({ code: 'ERR_SEQUENCE_ENDED' })
    await stream.end()
  })
  it('ends without a last request as well, after those before, and gives its state back', async () => {
    const own = ownEngine()
    const model = await load(own, accumulator(), options())
    const before = own.stats().staging!.usedBytes
    const stream = model.sequence()
    await stream.infer(x(1))
    expect(own.stats().staging!.usedBytes).toBeGreaterThan(before) // a slot, and the state
    const slots = own.stats().staging!.usedBytes
    const last = stream.infer(x(2))
    await stream.end()
    expect(first(await last)).toBe(3)
    expect(own.stats().staging!.usedBytes).toBeLessThan(slots)
    await stream[Symbol.asyncDispose]()
  })
  it('is ended for all who have it under its id', async () => {
    const model = await load(engine, accumulator(), options())
    const both = [model.sequence({ id: 77 }), model.sequence({ id: 77 })]
    for (const stream of both) await stream.infer(x(1))
    await Promise.all(both.map((stream) => stream.end()))
  })
  it('does not go on in what another has begun under its id, nor end that', async () => {
    const model = await load(engine, accumulator(), options())
    const [own, other] = [model.sequence({ id: 78 }), model.sequence({ id: 78 })]
    await own.infer(x(1))
    const waiting = own.infer(x(2))
    expect(first(await other.infer(x(100)))).toBe(100)
    expect(first(await waiting)).toBe(3)
    expect(await errorOf(own.infer(x(1)))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
      message: expect.stringContaining('was restarted by another'),
    })
    await own.end()
    expect(first(await other.infer(x(1)))).toBe(101)
    expect(first(await model.infer(x(7), { sequenceId: 78, sequenceStart: true }))).toBe(7)
    expect(await errorOf(other.infer(x(1)))).toMatchObject({ code: 'ERR_SEQUENCE_ENDED' })
    expect(first(await model.infer(x(1), { sequenceId: 78 }))).toBe(8)
  })
  it('that ends waits for its own requests, and not for who begins anew under its id', async () => {
    const model = await load(engine, accumulator(), options())
    const [own, other] = [model.sequence({ id: 79 }), model.sequence({ id: 79 })]
    const answer = own.infer(x(1))
    const ended = own.end()
    const next = other.infer(x(5))
    await ended
    expect([await answer, await next].map(first)).toEqual([1, 5])
    const twice = [other[Symbol.asyncDispose](), other.end()]
    await model.sequence({ id: 79 }).infer(x(6))
    await Promise.all(twice)
  })
  it('has an id of its own, of the type that the model takes; or the one that it is given', async () => {
    const model = await load(engine, accumulator(), options())
    const streams = Array.from({ length: 5 }, () => model.sequence())
    await Promise.all(streams.map((stream) => stream.infer(x(1))))
    const next = model.sequence()
    expect(new Set([...streams, next].map(({ id }) => id)).size).toBe(6)
    await model.infer(x(1), { sequenceId: 6, sequenceStart: true })
    await next.infer(x(10))
    expect(first(await model.infer(x(1), { sequenceId: 6 }))).toBe(2)
    expect(model.sequence({ id: 77n }).id).toBe(77n)
    expect(() => model.sequence({ id: 'a' })).toThrow("a number, as input 'ID' (uint64) takes")
    expect(() => model.sequence({ id: 0 })).toThrow('a whole number that is not 0')
    expect(() => model.sequence({ name: 1 } as never)).toThrow('name')
    const plain = await load(engine, accumulator(), { maxBatchSize: 8, checkRows: false })
    expect(() => plain.sequence()).toThrow('expected a model with sequences')
    expect(await errorOf(next.infer(x(1), { sequenceId: 3 } as never))).toMatchObject({
      argument: 'options.sequenceId',
    })
  })
  it('takes bad input for what it is, and goes on', async () => {
    const model = await load(engine, accumulator(), options())
    const stream = model.sequence()
    await stream.infer(x(1))
    expect(await errorOf(stream.infer({ x: Float32Array.of(1, 2) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
    })
    expect(
      await errorOf(stream.infer({ x: new Tensor('float32', new Float32Array(2), [2, 1]) })),
    ).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
      expected: 'one row, as each request of a sequence has',
      received: 2,
    })
    expect(await errorOf(stream.infer({ ...x(1), before: Float32Array.of(7) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'before'",
    })
    expect(await errorOf(stream.infer(null as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'feeds',
    })
    expect(first(await stream.infer(x(2)))).toBe(3)
    expect(await errorOf(stream.end({ x: Float32Array.of(1, 2) }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: "input 'x'",
    })
    expect(await errorOf(stream.end(x(1), { outputs: ['none'] as never }))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'options.outputs',
    })
    expect(first(await stream.end(x(4)))).toBe(7)
  })
  it('hears of a run only when it has been idle for too long', async () => {
    const model = await load(engine, accumulator(), options({ maxSequenceIdleMs: 30 }))
    const stream = model.sequence()
    await stream.infer(x(1))
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(await errorOf(stream.infer(x(1)))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
      message: expect.stringContaining('had no request for 30 ms'),
    })
    await stream.end()
  })
  it('goes on with the next where its first was withdrawn before it had a place', async () => {
    const model = await load(engine, accumulator(), options({ oldest: { maxCandidateSequences: 1 } }))
    const [open, other] = [model.sequence(), model.sequence()]
    await open.infer(x(1))
    const aborts = new AbortController()
    const withdrawn = outcomeOf(other.infer(x(2), { signal: aborts.signal }))
    aborts.abort('withdrawn')
    expect(await withdrawn).toBe('withdrawn')
    const next = other.infer(x(3))
    await open.end()
    expect(first(await next)).toBe(3)
  })
  it('is not ended by a request that was withdrawn, whatever error its caller gives as the reason', async () => {
    const model = await load(engine, accumulator(), options({ oldest: { maxCandidateSequences: 1 } }))
    const [open, other] = [model.sequence(), model.sequence()]
    await open.infer(x(1))
    const aborts = new AbortController()
    const signals = [aborts.signal, AbortSignal.abort(new InferenceError('ERR_TIMEOUT', 'of another'))]
    const withdrawn = signals.map((signal) => outcomeOf(other.infer(x(2), { signal })))
    const next = other.infer(x(3))
    aborts.abort(new InferenceError('ERR_TIMEOUT', 'of another'))
    expect(await Promise.all(withdrawn)).toEqual(['ERR_TIMEOUT', 'ERR_TIMEOUT'])
    await open.end()
    expect(first(await next)).toBe(3)
  })
  it('waits no longer than for a place that another instance brings', async () => {
    const own = ownEngine({ cpuWorkers: 2 })
    const model = await load(own, accumulator(), options({ oldest: { maxCandidateSequences: 1 } }))
    const [open, other] = [model.sequence(), model.sequence()]
    await open.infer(x(1))
    const answer = other.infer(x(2))
    await model.scale({ count: 2 })
    expect(first(await answer)).toBe(2)
  })
  it('has what it begins with as it was at the load, whatever is written there since', async () => {
    const initial = Float32Array.of(10)
    const controls = accumulatorSequence.controls.filter(({ kind }) => kind !== 'start')
    const model = await load(
      engine,
      accumulator(),
      options({ controls, state: [{ input: 'before', output: 'state', initial }] }),
    )
    initial[0] = 1000
    structuredClone(initial.buffer, { transfer: [initial.buffer] })
    expect(first(await model.sequence().infer({ ...x(1), START: Float32Array.of(0) }))).toBe(11)
  })
  it('ends with what its model was, whose accepted requests are answered; another begins with what it is', async () => {
    const own = ownEngine()
    const config = { path: accumulator(), ...options() }
    const model = await own.load('replaced', config)
    const stream = model.sequence()
    await stream.infer(x(1))
    let loaded = false
    const loading = own.load('replaced', config).then(() => (loaded = true))
    const answers: Promise<Outputs>[] = []
    for (let sent = 0; !loaded; sent++) {
      answers.push(stream.infer(x(1)), stream.infer(x(1)))
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await loading
    const ends = await Promise.allSettled(answers)
    const served = ends.filter((end) => end.status === 'fulfilled').map(({ value }) => first(value))
    expect(served).toEqual(served.map((_, index) => 2 + index))
    for (const end of ends)
      if (end.status === 'rejected') expect(end.reason).toMatchObject({ code: 'ERR_SEQUENCE_ENDED' })
    expect(ends.findLastIndex(({ status }) => status === 'fulfilled')).toBe(served.length - 1)
    expect(await errorOf(stream.infer(x(1)))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
      message: expect.stringContaining('replaced'),
    })
    expect(await errorOf(model.infer(x(1), { sequenceId: stream.id }))).toMatchObject({
      code: 'ERR_SEQUENCE_ENDED',
    })
    expect(first(await model.sequence().infer(x(5)))).toBe(5)
  })
  it('has all its waiting requests answered by a model that closes, and rejected by one that is destroyed', async () => {
    for (const destroyed of [false, true]) {
      const own = ownEngine()
      const model = await own.load('m', {
        path: accumulator(),
        ...options({ oldest: { maxCandidateSequences: 1 } }),
      })
      const [a, b] = [model.sequence(), model.sequence()]
      const answers = [a.infer(x(1)), a.infer(x(2)), a.infer(x(3)), b.infer(x(4)), b.infer(x(5))]
      const ends = Promise.allSettled(answers)
      await (destroyed ? own.destroy() : own.close())
      const [told, ...more] = (await ends).map((end) =>
        end.status === 'fulfilled' ? first(end.value) : (end.reason as { code: string }).code,
      )
      if (!destroyed) expect([told, ...more]).toEqual([1, 3, 6, 4, 9])
      else expect(more).toEqual(Array(4).fill('ERR_CLOSED'))
    }
  })
  it('may be of a model of another kind of rows, whose state is where those are', async () => {
    const model = await load(engine, scaledColumns(), {
      maxBatchSize: 4,
      dynamicBatching: { maxQueueDelayMs: 20 },
      sequence: {
        state: [
          {
            input: 'x',
            output: 'scaled',
            initial: new Tensor(
              'float32',
              Float32Array.from({ length: 6 }, (_, at) => at + 1),
              [2, 1, 3],
            ),
          },
        ],
      },
    })
    const run = async (scale: number) => {
      const stream = model.sequence()
      for (let step = 0; step < 3; step++) {
        const { sum } = await stream.infer({ scale: Float32Array.of(scale) })
        expect([...(sum!.data as Float32Array)]).toEqual(
          [5, 7, 9].map((value) => value * scale ** (step + 1)),
        )
      }
      await stream.end()
    }
    await Promise.all([2, 2, 2, 3].map(run))
    expect(model.stats().executionCount).toBeLessThan(12)
  })
  it('has a state that grows, and shares runs with those of the same length', async () => {
    const initial = new Tensor('float32', new Float32Array(0), [1, 0])
    const model = await load(engine, growing(), {
      maxBatchSize: 8,
      checkRows: false,
      dynamicBatching: { maxQueueDelayMs: 20 },
      sequence: { state: [{ input: 'past', output: 'all', initial }] },
    })
    const run = async (value: number) => {
      const stream = model.sequence()
      for (let step = 1; step <= 5; step++) {
        const { all, sum } = (await stream.infer(x(value), { outputs: ['all', 'sum'] })) as Outputs
        expect([all!.dims, [...(all!.data as Float32Array)], first({ sum: sum! })]).toEqual([
          [1, step],
          Array(step).fill(value),
          step * value,
        ])
      }
      await stream.end()
    }
    await Promise.all([1, 2, 3, 4].map(run))
    expect(model.stats().executionCount).toBeLessThan(20)
  })
  it('has a state without what its input was padded with', async () => {
    const series = (data: Float32Array) => new Tensor('float32', data, [1, 3])
    const pads = (input: string, output: string) => ({
      input,
      dim: 1,
      sizes: [4, 8],
      outputs: [{ name: output, dim: 1 }],
    })
    const sequence = { state: [{ input: 'before', output: 'state', initial: series(new Float32Array(3)) }] }
    const model = await load(engine, addedSeries(), {
      maxBatchSize: 4,
      checkRows: false,
      padding: [pads('x', 'sum'), pads('before', 'state')],
      sequence,
    })
    const stream = model.sequence()
    for (const times of [1, 2, 3]) {
      const { sum, state } = (await stream.infer(
        { x: series(Float32Array.of(1, 2, 3)) },
        { outputs: ['sum', 'state'] },
      )) as Outputs
      expect([[...(sum!.data as Float32Array)], state!.dims]).toEqual([
        [times, 2 * times, 3 * times],
        [1, 3],
      ])
    }
  })
})

describe('a stream, to the compiler', () => {
  it('has the inputs and outputs of its model', () => {
    interface Adder extends ModelSignature {
      inputs: { x: Float32Array }
      outputs: { sum: Tensor }
    }
    const stream = (model: Model<Adder>) => model.sequence({ id: 'a' })
    expectTypeOf(stream).returns.toEqualTypeOf<SequenceStream<Adder>>()
    expectTypeOf((of: SequenceStream<Adder>) =>
      of.infer({ x: new Float32Array(1) }),
    ).returns.resolves.toEqualTypeOf<Adder['outputs']>()
    expectTypeOf((of: SequenceStream<Adder>) =>
      of.infer({ x: new Float32Array(1) }, { report: true }),
    ).returns.resolves.toEqualTypeOf<ReportedOutputs<Adder['outputs']>>()
    expectTypeOf((of: SequenceStream<Adder>) =>
      of.end({ x: new Float32Array(1) }),
    ).returns.resolves.toEqualTypeOf<Adder['outputs']>()
    expectTypeOf((of: SequenceStream) => of.end()).returns.resolves.toEqualTypeOf<void>()
    expectTypeOf<SequenceStream>().toEqualTypeOf<SequenceStream<AnySignature>>()
    // @ts-expect-error of another type
    void ((of: SequenceStream<Adder>) => of.infer({ x: new Int32Array(1) }))
    // @ts-expect-error the stream says that itself
    void ((of: SequenceStream<Adder>) => of.infer({ x: new Float32Array(1) }, { sequenceStart: true }))
  })
})
