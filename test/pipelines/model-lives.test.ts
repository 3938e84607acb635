import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { type InferenceEngine, InferenceError, Tensor } from '../../src/index.ts'
import { fixture } from '../functions/load-function.ts'
import { Serving } from '../kserve/serving.ts'
import * as small from '../models/small.ts'
import { holdChecks } from '../support/decided.ts'
import { deferred } from '../support/deferred.ts'
import { ownEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { until } from '../support/until.ts'
import { beginLoad, loadGate, loadNumber, one, step } from './arithmetic.ts'

describe('a pipeline whose step is still being loaded', () => {
  it('lets go of it as soon as its own load is aborted', async () => {
    const engine = ownEngine()
    const { loading, open } = await beginLoad(engine, 'slow')
    const controller = new AbortController()
    const pipeline = engine.loadPipeline(
      'waiting',
      { inputs: ['x'], steps: [step('slow', 'x', 'y')], outputs: ['y'] },
      { signal: controller.signal },
    )
    await Promise.resolve()
    await expect(engine.unload('slow')).rejects.toMatchObject({ code: 'ERR_MODEL_IN_USE' })
    controller.abort(new Error('not wanted'))
    await expect(pipeline).rejects.toThrow('not wanted')
    const unloaded = engine.unload('slow')
    open()
    await unloaded
    await expect(loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
  })

  it('can be unloaded before that is', async () => {
    const engine = ownEngine()
    await loadNumber(engine, 'twice', (x) => 2 * x)
    await engine.loadPipeline('replaced', { inputs: ['x'], steps: [step('twice', 'x', 'y')], outputs: ['y'] })
    const { loading, open } = await beginLoad(engine, 'slow')
    const pipeline = engine.loadPipeline('replaced', {
      inputs: ['x'],
      steps: [step('slow', 'x', 'y')],
      outputs: ['y'],
    })
    const refused = expect(pipeline).rejects.toMatchObject({ code: 'ERR_CLOSED', model: 'replaced' })
    await Promise.resolve()
    await engine.unload('replaced')
    await refused
    open()
    expect((await (await loading).infer({ x: one(3) }))['y'].data).toEqual(one(3))
  })
})

/** A pipeline that has a request in the first of its two steps. */
async function begun(engine: InferenceEngine, version?: number) {
  const gate = await loadGate(engine, 'gate')
  await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('both', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'a'), step('twice', 'a', 'y')],
    outputs: ['y'],
    ...(version !== undefined && { version }),
  })
  const answer = model.infer({ x: one(3) })
  answer.catch(() => {})
  await until(() => gate.calls === 1)
  return { gate, answer }
}

/** Closes an engine, and goes on when all has been released that nothing holds. */
async function closing(engine: InferenceEngine) {
  const whole = engine.close()
  for (let turn = 0; turn < 50; turn++) await nextTurn()
  return { whole }
}

describe('an engine that is closed answers what a pipeline has accepted', () => {
  it.each([
    ['that is an older version of a model', { version: 1, other: 2 }],
    ['that a model has replaced', {}],
  ])('%s', async (_, { version, other }: { version?: number; other?: number }) => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine, version)
    await engine.loadFunction('both', {
      inputs: [{ name: 'x', type: 'float32', dims: [1] }], outputs: [{ name: 'y', type: 'float32', dims: [1] }], run: ({ x }) => ({ y: x.data }), ...(other !== undefined && { version: other }),
    }) // prettier-ignore
    const closed = await closing(engine)
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    await closed.whole
  })

  it('while a newer version of a step is being loaded', async () => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine)
    const newer = await beginLoad(engine, 'twice', 2)
    const closed = await closing(engine)
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    newer.open()
    await expect(newer.loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await closed.whole
  })

  it('and meanwhile loads nothing more that no pipeline needs', async () => {
    const engine = ownEngine()
    const { gate, answer } = await begun(engine)
    const other = await beginLoad(engine, 'other')
    const closed = await closing(engine)
    other.open()
    await expect(other.loading).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    gate.open()
    expect((await answer)['y']!.data).toEqual(one(6))
    await closed.whole
  })
})

const io = {
  inputs: [{ name: 'x', type: 'int32', dims: [1] }],
  outputs: [{ name: 'y', type: 'int32', dims: [1] }],
} as const
const int = (x: number) => ({ x: Int32Array.of(x) })

describe('a step whose model has failed', () => {
  it('goes on once that is loaded again, also if that failed at first', async () => {
    // Threads that have died twice are started again after seconds.
    const { setTimer } = systemClock
    const timers = vi
      .spyOn(systemClock, 'setTimer')
      .mockImplementation((call, delayMs) => setTimer(call, [1000, 5000].includes(delayMs) ? 10 : delayMs))
    onTestFinished(() => timers.mockRestore())
    const engine = ownEngine()
    const load = (module: string) => engine.loadFunction('doubled', { ...io, module: fixture(module) })
    const doubled = await load('misbehaving.mjs')
    const step = { model: 'doubled', inputs: { x: 'x' }, outputs: { y: 'y' } }
    const model = await engine.loadPipeline('going-on', { inputs: ['x'], steps: [step], outputs: ['y'] })
    const ofVersion = await engine.loadPipeline('of-version', {
      inputs: ['x'],
      steps: [{ ...step, version: 1 }],
      outputs: ['y'],
    })
    for (let deaths = 0; deaths < 3; deaths++)
      await expect(model.infer(int(-4))).rejects.toMatchObject({
        code: 'ERR_INSTANCE_CRASHED',
        step: 'doubled',
      })
    await until(() => doubled.state === 'failed')
    await expect(model.infer(int(1))).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_READY', step: 'doubled' })
    const [called, ended] = [deferred<void>(), deferred<void>()]
    const run = async () => {
      called.resolve()
      await ended.promise
      throw new Error('not yet')
    }
    const refused = expect(
      engine.loadFunction('doubled', { ...io, run, warmup: [{ feeds: int(0) }] }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_LOAD' })
    await called.promise
    expect(model.capacity()).toMatchObject({ instances: 0, free: 0 })
    ended.resolve()
    await refused
    await expect(model.infer(int(1))).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_READY', step: 'doubled' })
    await load('misbehaving.mjs')
    for (const each of [model, ofVersion])
      expect((await each.infer(int(4)))['y']!.data).toEqual(Int32Array.of(8))
    expect(model.capacity().instances).toBe(1)
  })
})

it('of the versions of a step, the last one that serves cannot be unloaded', async () => {
  const engine = ownEngine()
  const run =
    (factor: number) =>
    ({ x }: { x: { data: Float32Array } }) => ({ y: Float32Array.from(x.data, (value) => factor * value) })
  const io = {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
  } as const
  const [first, second] = [
    await engine.loadFunction('times', { ...io, version: 1, run: run(1) }),
    await engine.loadFunction('times', { ...io, version: 2, run: run(2) }),
  ]
  const third = await beginLoad(engine, 'times', 3)
  const model = await engine.loadPipeline('whichever', {
    inputs: ['x'],
    steps: [step('times', 'x', 'y')],
    outputs: ['y'],
  })
  const unloads = await Promise.allSettled([second.unload(), first.unload()])
  expect(unloads).toMatchObject([
    { status: 'fulfilled' },
    { status: 'rejected', reason: { code: 'ERR_MODEL_IN_USE', model: 'times' } },
  ])
  expect((await model.infer({ x: one(5) }))['y']!.data).toEqual(one(5))
  third.open()
  await third.loading
  await first.unload()
  expect((await model.infer({ x: one(5) }))['y']!.data).toEqual(one(5))
  await expect(engine.unload('times', { version: 3 })).rejects.toMatchObject({ code: 'ERR_MODEL_IN_USE' })
})

it('a pipeline says what it has not: leases, sequences, instances', async () => {
  const engine = ownEngine()
  await loadNumber(engine, 'twice', (x) => 2 * x)
  const model = await engine.loadPipeline('pipeline', {
    inputs: ['x'],
    steps: [step('twice', 'x', 'y')],
    outputs: ['y'],
  })
  const refused = { code: 'ERR_INVALID_ARG', model: 'pipeline', message: expect.stringContaining('pipeline') }
  expect(() => model.lease()).toThrow(expect.objectContaining({ ...refused, argument: 'lease' }))
  expect(() => model.sequence()).toThrow(
    expect.objectContaining({ ...refused, message: expect.stringContaining('It is a pipeline') }),
  )
  await expect(model.infer({ x: one(1) }, { sequenceId: 1 })).rejects.toMatchObject({
    ...refused,
    argument: 'options.sequenceId',
  })
  await expect(model.scale({ count: 2 })).rejects.toMatchObject({ ...refused, argument: 'options.count' })
  expect((await model.infer({ x: one(1) }))['y']!.data).toEqual(one(2))
})

it('a request whose signal fires is withdrawn, whatever the reason is', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  const line = await engine.loadPipeline('line', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'y')],
    outputs: ['y'],
  })
  const controller = new AbortController()
  const answer = line.infer({ x: one(1) }, { signal: controller.signal })
  await until(() => gate.calls === 1)
  const reason = new InferenceError('ERR_DISCONNECTED', 'the client has gone')
  controller.abort(reason)
  await expect(answer).rejects.toBe(reason)
  gate.open()
  for (const model of [line, engine.model('gate')])
    expect(model.stats().rejections).toMatchObject({ cancelled: 1, execution: 0 })
})

it('a pipeline within one that fails has its request withdrawn, as any model has', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  await loadNumber(engine, 'throwing', () => {
    throw new RangeError('never')
  })
  await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('gate', 'x', 'y')], outputs: ['y'] })
  const outer = await engine.loadPipeline('outer', {
    inputs: ['x'],
    steps: [step('inner', 'x', 'y'), step('throwing', 'x', 'z')],
    outputs: ['y', 'z'],
  })
  await expect(outer.infer({ x: one(1) })).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
  gate.open()
  expect(outer.stats().rejections).toMatchObject({ execution: 1, cancelled: 0 })
  for (const name of ['inner', 'gate'])
    expect(engine.model(name).stats().rejections).toMatchObject({ cancelled: 1, execution: 0 })
})

it('what waits to begin is counted by the limit that it has come to', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate')
  const line = await engine.loadPipeline('line', {
    inputs: ['x'],
    steps: [step('gate', 'x', 'y')],
    outputs: ['y'],
    maxInFlight: 1,
  })
  const first = line.infer({ x: one(1) })
  await expect(line.infer({ x: one(1) }, { timeoutMs: 1 })).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
  await expect(line.infer({ x: one(1) }, { deadlineMs: 1 })).rejects.toMatchObject({ code: 'ERR_DEADLINE' })
  const waiting = line.infer({ x: one(1) })
  const refused = expect(Promise.all([first, waiting])).rejects.toMatchObject({ code: 'ERR_CLOSED' })
  await engine.destroy()
  await refused
  await waiting.catch(() => {})
  gate.open()
  expect(line.stats().rejections).toMatchObject({ timeout: 1, deadline: 1, closed: 2, cancelled: 0 })
})

describe('a pipeline whose step has yet to learn whether its requests may share runs', () => {
  const x = (rows: number) => new Tensor('float32', new Float32Array(4 * rows).fill(1), [rows, 4])

  it.each([
    ['follows it, in KServe too, once they may', small.identity, 32],
    ['says as before that they do not, once they may not', small.mixesRows, 0],
  ])('%s', async (_, modelOf, maxBatchSize) => {
    const go = holdChecks()
    const engine = ownEngine({ inline: false }) // which would run both parts of a request together
    const model = await engine.load('open', { path: await ortForm(modelOf('float32')) })
    await engine.loadPipeline('inner', { inputs: ['x'], steps: [step('open', 'x', 'y')], outputs: ['y'] })
    const pipeline = await engine.loadPipeline('outer', {
      inputs: ['x'],
      steps: [step('inner', 'x', 'y')],
      outputs: ['y'],
    })
    const serving = await Serving.of(engine)
    const shown = async () => [
      pipeline.metadata.maxBatchSize,
      pipeline.capacity().maxBatchSize,
      (await serving.get('/v2/models/outer/config')).json.max_batch_size,
      (await serving.get('/v2/models/open/config')).json.max_batch_size,
    ]
    expect(await shown()).toEqual([0, 0, 0, 0])
    const before = await pipeline.infer({ x: x(40) }, { splitOversized: true })
    expect(model.stats().executionCount).toBe(1)
    go()
    await pipeline.joiningKnown()
    expect(await shown()).toEqual(Array(4).fill(maxBatchSize))
    expect(pipeline.metadata).toBe(pipeline.metadata)
    expect(await pipeline.infer({ x: x(40) }, { splitOversized: true })).toEqual(before)
    expect(model.stats().executionCount).toBe(maxBatchSize > 0 ? 3 : 2)
  })
})
