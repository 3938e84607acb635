import { renameSync } from 'node:fs'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Model, ModelConfig, ModelEvent } from '../../src/index.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { graph } from '../models/builder.ts'
import * as networks from '../models/networks.ts'
import * as small from '../models/small.ts'
import { load, ownEngine } from '../support/open.ts'
import { describeNative } from '../support/native.ts'
import { noise } from '../support/samples.ts'
import { until } from '../support/until.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const cpu = (count: number, more = {}): ModelConfig['instanceGroup'] => [{ kind: 'cpu', count, ...more }]
const x = () => noise([1, 64]).data as Float32Array
const instancesOf = (model: Model) => [model.capacity().instances, model.stats().instanceCount]

/** Sends requests without a pause until it is stopped; then says how many were answered, and by which instances. */
function caller(model: Model, feeds: () => Record<string, Float32Array>, callers = 16) {
  const answeredBy = new Map<string, number>()
  let stopped = false
  const running = Promise.all(
    Array.from({ length: callers }, async () => {
      while (!stopped) {
        const { report } = await model.infer(feeds(), { report: true })
        answeredBy.set(report.instance, (answeredBy.get(report.instance) ?? 0) + 1)
      }
    }),
  )
  running.catch(() => {})
  return {
    answeredBy,
    answered: () => [...answeredBy.values()].reduce((sum, count) => sum + count, 0),
    stop: () => ((stopped = true), running),
  }
}

describe('a model that is scaled', () => {
  it('goes from one instance to four and back under load, and loses nothing', async () => {
    const engine = ownEngine({ cpuWorkers: 4 })
    const model = await load(engine, networks.mlp(), { maxBatchSize: 4, instanceGroup: cpu(1) })
    const load1 = caller(model, () => ({ input: x() }))
    for (const count of [4, 1, 4, 1]) {
      await model.scale({ count })
      expect(instancesOf(model)).toEqual([count, count])
      const before = load1.answered()
      await until(() => load1.answered() > before + 200)
    }
    await load1.stop()
    const { inferenceStats, rejections } = model.stats()
    expect(inferenceStats.success.count).toBe(load1.answered())
    expect(Object.values(rejections).every((count) => count === 0)).toBe(true)
    expect(engine.capabilities().cpu.workers).toBe(4)
  })

  it('has every further instance take batches, and none that was taken out', async () => {
    const model = await load(ownEngine({ cpuWorkers: 3, inline: false }), small.matmulSlow(256, 100), {
      dynamicBatching: false,
      instanceGroup: cpu(1),
    })
    const feeds = () => ({ x: noise([1, 256]).data as Float32Array })
    await model.scale({ count: 3 })
    const many = caller(model, feeds)
    await until(() => many.answeredBy.size === 3)
    await model.scale({ count: 1 })
    many.answeredBy.clear()
    await until(() => many.answered() > 40)
    await many.stop()
    // What the others had begun was answered before the call resolved.
    expect(many.answeredBy.size).toBe(1)
  })

  it('is scaled by one call after the other, in their order', async () => {
    const engine = ownEngine({ cpuWorkers: 4 })
    const seen: (number | undefined)[] = []
    engine.on('model', ({ type, instances }) => type === 'scaled' && seen.push(instances))
    const model = await load(engine, small.identity('float32'), { instanceGroup: cpu(1) })
    await Promise.all([3, 1, 4, 2].map((count) => model.scale({ count })))
    await new Promise(setImmediate)
    expect(seen).toEqual([3, 1, 4, 2])
    expect(instancesOf(model)).toEqual([2, 2])
  })

  it('tells of each change, and of none that changed nothing', async () => {
    const engine = ownEngine({ cpuWorkers: 2 })
    const events: ModelEvent[] = []
    engine.on('model', (event) => events.push(event))
    const model = await load(engine, small.identity('float32'), { instanceGroup: cpu(1) })
    for (const count of [2, 2, 1]) await model.scale({ count })
    await new Promise(setImmediate)
    expect(events.filter(({ type }) => type === 'scaled')).toMatchObject(
      [2, 1].map((instances) => ({ type: 'scaled', model: model.name, instances })),
    )
  })

  it('takes back what waited behind an instance that leaves', async () => {
    const model = await load(ownEngine({ cpuWorkers: 2, inline: false }), small.matmulSlow(256, 300), {
      maxBatchSize: 1,
      instanceGroup: cpu(2),
    })
    const answers = Array.from({ length: 12 }, () =>
      model.infer({ x: noise([1, 256]).data as Float32Array }, { report: true }),
    )
    await model.scale({ count: 1 })
    const reports = await Promise.all(answers)
    expect(reports).toHaveLength(12)
    expect(reports.map(({ report }) => report.attempts).every((attempts) => attempts === 1)).toBe(true)
  })

  it('may be scaled by the kind that it was given, and by what that has become', async () => {
    const model = await load(ownEngine({ cpuWorkers: 2 }), small.identity('float32'), {
      instanceGroup: [{ kind: 'auto' }],
    })
    await model.scale({ kind: 'auto', count: 2 })
    await model.scale({ kind: 'cpu', count: 3 })
    expect(model.capacity().instances).toBe(3)
  })

  it('counts the instances of like groups together', async () => {
    const model = await load(ownEngine({ cpuWorkers: 2 }), small.identity('float32'), {
      instanceGroup: [{ kind: 'cpu' }, { kind: 'cpu', count: 2 }],
    })
    await model.scale({ kind: 'cpu', count: 5 })
    expect(model.capacity().instances).toBe(5)
    await model.scale({ kind: 'cpu', count: 1 })
    expect(model.capacity().instances).toBe(1)
  })

  it('runs the samples of the user on each further instance before that takes a batch', async () => {
    const feeds = { x: Float32Array.of(1, 2, 3, 4) }
    const model = await load(ownEngine({ cpuWorkers: 2 }), small.identity('float32'), {
      instanceGroup: cpu(1),
      warmup: [{ feeds, count: 3 }],
    })
    const before = model.stats().executionCount
    await model.scale({ count: 3 })
    expect(model.stats().executionCount).toBe(before)
    expect((await model.infer(feeds)).y!.data).toEqual(feeds.x)
  })

  it.each<[string, unknown, { argument: string; received?: unknown }]>([
    ['nothing', undefined, { argument: 'options' }],
    ['no count', {}, { argument: 'options.count' }],
    ['none', { count: 0 }, { argument: 'options.count', received: 0 }],
    ['a fraction', { count: 1.5 }, { argument: 'options.count', received: 1.5 }],
    ['a count as text', { count: '2' }, { argument: 'options.count', received: '2' }],
    ['more than a model may have', { count: 257 }, { argument: 'options.count', received: 257 }],
    [
      'a kind of which there is no group',
      { kind: 'cuda', count: 2 },
      { argument: 'options.kind', received: 'cuda' },
    ],
    ['a kind that is no text', { kind: 1, count: 2 }, { argument: 'options.kind', received: 1 }],
    [
      'another option',
      { count: 2, minInstances: 1 },
      { argument: 'options.minInstances', received: 'minInstances' },
    ],
  ])('refuses %s, and stays as it is', async (_, options, refusal) => {
    const model = await load(ownEngine({ cpuWorkers: 1 }), small.identity('float32'))
    const error = await rejectionOf(() => model.scale(options as never))
    expectRefusal(error, { code: 'ERR_INVALID_ARG', ...refusal })
    expect(error).toMatchObject({ model: model.name, expected: expect.any(String) })
    expect(model.capacity().instances).toBe(1)
  })

  it('refuses what lies outside of the limits by which it scales itself', async () => {
    const model = await load(ownEngine({ cpuWorkers: 2 }), small.identity('float32'), {
      instanceGroup: [{ kind: 'cpu', minInstances: 2, maxInstances: 3 }],
    })
    expect(model.capacity().instances).toBe(2)
    for (const count of [1, 4]) {
      const error = await rejectionOf(() => model.scale({ count }))
      expectRefusal(error, { code: 'ERR_INVALID_ARG', argument: 'options.count', received: count })
      expect((error as Error).message).toContain('from 2 to 3')
    }
    await model.scale({ count: 3 })
    expect(model.capacity().instances).toBe(3)
  })

  it('stays as it was when its file has become another one, and says so', async () => {
    const { copyFileSync, mkdtempSync, rmSync } = await import('node:fs')
    const folder = mkdtempSync(`${(await import('node:os')).tmpdir()}/zerohop-`)
    onTestFinished(() => rmSync(folder, { recursive: true }))
    copyFileSync(small.identity('float32'), `${folder}/model.onnx`)
    const model = await load(ownEngine({ cpuWorkers: 2 }), `${folder}/model.onnx`)
    rmSync(`${folder}/model.onnx`)
    copyFileSync(small.addSub('float32'), `${folder}/model.onnx`)
    await expect(model.scale({ count: 2 })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('its file changed'),
    })
    expect([model.state, model.capacity().instances]).toEqual(['ready', 1])
    expect((await model.infer({ x: Float32Array.of(1, 2, 3, 4) })).y!.dims).toEqual([1, 4])
  })

  it('stays as it was when weights beside its file have become others, and says so', async () => {
    const bundle = (mark: number) =>
      graph('weighted')
        .input('x', 'float32', ['N', 4])
        .output('y', 'float32', ['N', 4])
        .initializer('mark', 'float32', [4], [mark, mark, mark, mark], { externalFile: 'weights' })
        .node('Add', ['x', 'mark'], ['y'])
        .bundle()
    const { model: bytes, files } = bundle(1)
    const folder = temporaryFolder({
      'm.onnx': bytes,
      weights: files.get('weights')!,
      next: bundle(2).files.get('weights')!,
    })
    const model = await load(ownEngine({ cpuWorkers: 2 }), `${folder}/m.onnx`, { instanceGroup: cpu(1) })
    await model.scale({ count: 2 })
    renameSync(`${folder}/next`, `${folder}/weights`)
    await expect(model.scale({ count: 3 })).rejects.toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('its file changed'),
    })
    expect(model.capacity().instances).toBe(2)
    expect((await model.infer({ x: new Float32Array(4) }))['y']!.data).toEqual(new Float32Array(4).fill(1))
  })

  it.each([
    ['unloaded', 'ERR_CLOSED', (model: Model) => model.unload()],
    [
      'unloaded as a whole engine',
      'ERR_CLOSED',
      (_: Model, engine: ReturnType<typeof ownEngine>) => engine.close(),
    ],
    ['destroyed', 'ERR_CLOSED', (_: Model, engine: ReturnType<typeof ownEngine>) => engine.destroy()],
  ])('rejects when it is %s meanwhile, and leaves nothing open', async (_, code, end) => {
    const engine = ownEngine({ cpuWorkers: 4 })
    const feeds = { x: Float32Array.of(1, 2, 3, 4) }
    const model = await engine.load('m', {
      path: small.identity('float32'),
      warmup: [{ feeds, count: 2000 }],
      instanceGroup: cpu(1),
    })
    const scalings = [model.scale({ count: 4 }), model.scale({ count: 2 })].map((scaling) =>
      scaling.then(
        () => 'scaled',
        (error: { code: string }) => error.code,
      ),
    )
    await new Promise(setImmediate)
    await end(model, engine)
    expect(await Promise.all(scalings)).toEqual([code, code])
    expect(model.state).toBe('closed')
    await expect(model.scale({ count: 2 })).rejects.toMatchObject({ code: 'ERR_CLOSED' })
  })
})

it('a scaling of what is replaced meanwhile rejects as closed, and what takes its place serves', async () => {
  const engine = ownEngine({ cpuWorkers: 4 })
  const feeds = { x: Float32Array.of(1, 2, 3, 4) }
  const config = { path: small.identity('float32'), instanceGroup: cpu(1) }
  const model = await engine.load('m', { ...config, warmup: [{ feeds, count: 2000 }] })
  const replacing = engine.load('m', config)
  await until(() => model.versions[0]?.replacing !== true)
  await replacing
  expect(model.state).toBe('ready')
  await model.scale({ count: 2 })
  const scaling = model.scale({ count: 4 }).then(
    () => 'scaled',
    (error: { code: string; received: string }) => [error.code, error.received],
  )
  await engine.load('m', config)
  expect(['scaled', ['ERR_CLOSED', 'draining'], ['ERR_CLOSED', 'closed']]).toContainEqual(await scaling)
  expect([model.state, model.capacity().instances]).toEqual(['ready', 1])
  expect((await model.infer(feeds)).y!.data).toEqual(feeds.x)
})

describe('a model that scales by itself', () => {
  it('follows a load up and down between its limits, and is at rest at its least', async () => {
    const engine = ownEngine({ cpuWorkers: 3, inline: false })
    const seen: number[] = []
    engine.on('model', ({ type, instances }) => type === 'scaled' && seen.push(instances!))
    const instanceGroup = [
      { kind: 'cpu', minInstances: 1, maxInstances: 3, scaleUpAfterMs: 10, scaleDownAfterMs: 300 },
    ]
    const model = await load(engine, small.matmulSlow(256, 300), { maxBatchSize: 1, instanceGroup })
    expect(instancesOf(model)).toEqual([1, 1])
    const many = caller(model, () => ({ x: noise([1, 256]).data as Float32Array }), 64)
    await until(() => model.capacity().instances === 3)
    await many.stop()
    await until(() => seen.at(-1) === 1)
    expect(instancesOf(model)).toEqual([1, 1])
    expect(seen).toEqual([2, 3, 2, 1])
    expect(model.stats().inferenceStats.success.count).toBe(many.answered())
  })
})

describeNative('with one session for all instances', () => {
  it('more of them cost no load, no memory and no warming', async () => {
    const engine = ownEngine({ cpuWorkers: 4, executor: 'native' })
    const runSample = vi.spyOn(NativeExecutor.prototype, 'runSample')
    onTestFinished(() => runSample.mockRestore())
    const model = await load(engine, networks.mlp(), { instanceGroup: cpu(1) })
    const before = model.stats().arena!
    runSample.mockClear()
    await model.scale({ count: 4 })
    expect(runSample).not.toHaveBeenCalled()
    expect(model.stats().arena).toEqual(before)
  })
})
