import { beforeAll, describe, expect, it } from 'vitest'
import type { FunctionOptions, InferenceEngine, Model } from '../../src/index.ts'
import { full, repetitions } from '../support/full.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { fixture, loadFunction } from './load-function.ts'

const declared = { inputs: [{ name: 'x', type: 'int32' }], outputs: [{ name: 'y', type: 'int32' }] } as const

const config64 = { ...declared, maxBatchSize: 64 }

/** Sends 64 requests of one row, one of them bad. Returns the outcome of that one; all others are answered. */
async function among(model: Pick<Model, 'infer'>, badRow: number, place = 37) {
  const outcomes = await Promise.allSettled(
    Array.from({ length: 64 }, (_, index) =>
      model.infer({ x: Int32Array.of(index === place ? badRow : index) }),
    ),
  )
  for (const [index, outcome] of outcomes.entries()) {
    if (index !== place)
      expect(outcome, `request ${index}`).toMatchObject({
        status: 'fulfilled',
        value: { y: { data: Int32Array.of(2 * index) } },
      })
  }
  return outcomes[place]!
}

/** The same of a function whose thread is lost; also how often that was. */
async function amongLost(badRow: number, config: Partial<FunctionOptions> = {}) {
  const engine = ownEngine()
  const model = await loadFunction(engine, 'misbehaving.mjs', { ...config64, ...config })
  await model.infer({ x: Int32Array.of(1) })
  let losses = 0
  engine.on('worker', ({ type }) => void (losses += type === 'lost' ? 1 : 0))
  const bad = await among(model, badRow)
  return { engine, model, losses, bad }
}

/** After a third loss in a row, the next thread would be waited for. */
const onceWithOthersAndOnceAlone = 2

const rejected = (code: string, message: string) => ({
  status: 'rejected',
  reason: { code, message: expect.stringContaining(message) },
})

describe('a bad row among 64 callers', () => {
  const engine = sharedEngine()
  let losses = 0
  engine.on('worker', ({ type }) => void (losses += type === 'lost' ? 1 : 0))
  let model: Model
  beforeAll(async () => {
    model = await engine.loadFunction('f', { ...config64, module: fixture('misbehaving.mjs') })
    await model.infer({ x: Int32Array.of(1) })
  })

  /** What the model has counted since the last call. */
  const counted = (() => {
    let before = [0, 0, 0, 0]
    return () => {
      const { inferenceStats, rejections, rerunCount } = model.stats()
      const now = [inferenceStats.success.count, inferenceStats.fail.count, rejections.execution, rerunCount]
      const counts = now.map((count, at) => count - before[at]!)
      before = now
      return counts
    }
  })()

  it.each([
    ['throws', -1, 'a row that is bad'],
    ['has too few rows given for it', -7, "output 'y': expected dims"],
    ['has elements of another type given for it', -8, "output 'y': expected a Int32Array, received"],
    ['has no output given for it', -9, "output 'y': expected to be given, received"],
    ['has nothing given for it', -11, 'expected an object of outputs by name, received null'],
    [
      'has text given for numbers',
      -12,
      "output 'y': expected a Int32Array, or numbers, received 'two' among them",
    ],
    ['throws what cannot be shown', -13, 'an instance of Object'],
    ['throws an error whose message is none', -14, '() => {}'],
    ['is refused by context.fail() with nothing given', -15, 'refused, with nothing given'],
    ['has its data taken away while it is read', -16, 'a buffer that was detached or cut meanwhile'],
    ['rejects with what cannot be shown', -17, 'an instance of Object'],
  ])('that %s is found by halving, and fails alone', async (_, row, message) => {
    counted()
    const bad = await among(model, row)
    expect(bad).toMatchObject(rejected('ERR_EXECUTION', row === -7 ? "output 'y'" : message))
    const [success, fail, execution, reruns] = counted()
    expect([success, fail, execution, losses]).toEqual([63, 1, 1, 0])
    expect(reruns).toBeLessThanOrEqual(12)
  })

  it('that is refused by context.fail() fails at once, without another run', async () => {
    counted()
    const bad = await among(model, -2)
    expect(bad).toMatchObject(rejected('ERR_EXECUTION', 'a row that is refused'))
    expect(counted()).toEqual([63, 1, 1, 0])
  })

  it.each([
    ['loops for ever', -3],
    ['waits for what never comes', -6],
  ])('that %s ends its thread after maxRunMs, and nobody else is rejected', async (_, row) => {
    const { bad, model, losses } = await amongLost(row, { maxRunMs: 100 })
    expect(bad).toMatchObject(rejected('ERR_TIMEOUT', '100 ms'))
    expect(losses).toBe(onceWithOthersAndOnceAlone)
    expect(model.stats()).toMatchObject({
      inferenceStats: { success: { count: 64 }, fail: { count: 1 } },
      rejections: { timeout: 1 },
    })
  })

  it.each([
    ['ends the thread by process.exit()', -4, 'exit code 7', {}],
    ['has an exception thrown that nobody catches', -10, 'thrown by a timer', {}],
    [
      'takes all memory that the thread may have',
      -5,
      'memory',
      { workers: { resourceLimits: { maxOldGenerationSizeMb: 32 } } },
    ],
  ])('that %s is run again by itself, and rejected alone', async (_, row, message, config) => {
    const { bad, model, engine, losses } = await amongLost(row, config)
    expect(losses).toBe(onceWithOthersAndOnceAlone)
    expect(bad).toMatchObject(rejected('ERR_INSTANCE_CRASHED', message))
    expect(model.state).toBe('ready')
    await until(() => engine.model(model.name).capacity().instances === 1)
    expect((await model.infer({ x: Int32Array.of(4) })).y.data).toEqual(Int32Array.of(8))
  })

  it('costs all of its batch their answers with rerunAfterCrash: false', async () => {
    const model = await loadFunction(ownEngine(), 'misbehaving.mjs', {
      ...declared,
      rerunAfterCrash: false,
      maxBatchSize: 4,
    })
    const outcomes = await Promise.allSettled([1, -4, 2, 3].map((x) => model.infer({ x: Int32Array.of(x) })))
    expect(
      outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'answered')),
    ).toEqual(Array(4).fill('ERR_INSTANCE_CRASHED'))
    expect((await model.infer({ x: Int32Array.of(4) })).y.data).toEqual(Int32Array.of(8))
  })

  it('gives up a function that ends its thread over every batch', async () => {
    // A rerun would be a death more, after which the next thread is waited for for seconds.
    const model = await loadFunction(ownEngine(), 'misbehaving.mjs', { ...declared, rerunAfterCrash: false })
    for (let count = 0; count < 3; count++)
      await expect(model.infer({ x: Int32Array.of(-4) })).rejects.toMatchObject({
        code: 'ERR_INSTANCE_CRASHED',
      })
    await until(() => model.state === 'failed')
    await expect(model.infer({ x: Int32Array.of(1) })).rejects.toMatchObject({ code: 'ERR_MODEL_NOT_READY' })
  })
})

describe('a function whose run does not end', () => {
  it('is ended by destroy(), and its callers are told', async () => {
    const engine = ownEngine()
    const model = await loadFunction(engine, 'misbehaving.mjs', declared)
    const answer = model.infer({ x: Int32Array.of(-3) })
    const waits = expect(answer).rejects.toMatchObject({ code: 'ERR_CLOSED' })
    await until(() => model.capacity().running === 1)
    const startedAtMs = performance.now()
    await engine.destroy()
    await waits
    expect(performance.now() - startedAtMs).toBeLessThan(1000)
  })

  it("answers a request's own maxRunMs", async () => {
    const model = await loadFunction(ownEngine(), 'misbehaving.mjs', declared)
    await expect(model.infer({ x: Int32Array.of(-3) }, { maxRunMs: 50 })).rejects.toMatchObject({
      code: 'ERR_TIMEOUT',
    })
    expect((await model.infer({ x: Int32Array.of(4) })).y.data).toEqual(Int32Array.of(8))
  })
})

describe('a function that cannot be loaded', () => {
  const startTimeoutMs = repetitions(1000, 300) // a module may take long to be imported on a busy machine
  const neverStart = new Set(['loops at import', 'hangs in setup'])
  const load = (engine: InferenceEngine, what: string, module = 'bad-modules.mjs') =>
    engine.loadFunction('f', {
      module: fixture(module),
      ...declared,
      workers: { env: { BAD_MODULE: what }, startTimeoutMs: neverStart.has(what) ? startTimeoutMs : 60_000 },
    })
  const engine = sharedEngine()

  it.each([
    ['throws at import', 'thrown at import'],
    ['throws in setup', 'thrown in setup'],
    ['exits at import', 'ended'],
    ['exits in setup', 'ended'],
    ['loops at import', `${startTimeoutMs} ms`],
    ['hangs in setup', `${startTimeoutMs} ms`],
    ['exports no function', 'expected a function as the default export of the module'],
  ])('as its module %s rejects', async (what, message) => {
    await expect(load(engine, what)).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'f',
      message: expect.stringContaining(message),
    })
    expect(engine.models()).toEqual([])
  })

  it('leaves its name free', async () => {
    const model = await load(engine, '', 'misbehaving.mjs')
    expect((await model.infer({ x: Int32Array.of(4) })).y.data).toEqual(Int32Array.of(8))
  })

  it('as there is no such module rejects', async () => {
    await expect(load(ownEngine(), '', 'no-such-module.mjs')).rejects.toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
    })
  })

  it.each(full ? ['hangs', 'loops'] : ['hangs'])(
    'is released although its teardown never ends: it %s',
    async (how) => {
      const engine = ownEngine()
      const model = await load(engine, `${how} in teardown`)
      expect((await model.infer({ x: Int32Array.of(4) })).y.data).toEqual(Int32Array.of(4))
      const startedAtMs = performance.now()
      await engine.close()
      expect(performance.now() - startedAtMs).toBeLessThan(4000)
    },
  )

  it('ends at once when its load is aborted', async () => {
    const controller = new AbortController()
    const engine = ownEngine()
    const loading = engine.loadFunction(
      'f',
      {
        module: fixture('bad-modules.mjs'),
        ...declared,
        workers: { env: { BAD_MODULE: 'loops at import' } },
      },
      { signal: controller.signal },
    )
    setTimeout(() => controller.abort(new Error('enough')), repetitions(300, 100))
    await expect(loading).rejects.toThrow('enough')
    const startedAtMs = performance.now()
    await engine.close()
    expect(performance.now() - startedAtMs).toBeLessThan(2000)
  })
})

describe('a declaration that is wrong', () => {
  const load = (config: object) =>
    ownEngine().loadFunction('f', { module: fixture('identity.mjs'), ...declared, ...config } as never)

  it.each([
    [{ module: undefined }, 'module'],
    [{ module: 'https://example.org/f.js' }, 'module'],
    [{ inputs: [] }, 'inputs'],
    [{ inputs: [{ name: 'x', type: 'int4' }] }, 'inputs[0].type'],
    [{ inputs: [{ name: 'x', type: 'int32', dims: [0] }] }, 'inputs[0].dims'],
    [{ inputs: [{ name: 'x', type: 'int32', dims: [1.5] }] }, 'inputs[0].dims[0]'],
    [{ inputs: [...declared.inputs, ...declared.inputs] }, 'inputs[1].name'],
    [{ outputs: [{ type: 'int32' }] }, 'outputs[0].name'],
    [{ instanceGroup: [{ count: 1 }, { count: 2 }] }, 'instanceGroup'],
    [{ instanceGroup: [{ kind: 'cuda' }] }, 'instanceGroup[0].kind'],
    [{ parameters: { call: () => {} } }, 'parameters'],
    [{ concurrency: 0 }, 'concurrency'],
    [{ padding: [] }, 'padding'],
    [{ maxRunMs: -1 }, 'maxRunMs'],
  ])('%o is refused', async (config, argument) => {
    await expect(load(config)).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'f', argument })
  })
})
