import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { InferenceEngine, type Model, type ModelConfig } from '../../src/index.ts'
import { BindingExecutor } from '../../src/run/executors/binding/binding-executor.ts'
import type { Executor } from '../../src/run/executors/executor.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { ortForm } from '../support/ort-form.ts'
import { ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const feeds = { x: Float32Array.of(1, 2, 3, 4) }
const config: ModelConfig = {
  path: small.identity('float32'),
  maxBatchSize: 4,
  instanceGroup: [{ kind: 'cpu', count: 2 }],
  latencyTargetMs: 1000,
  warmup: [{ feeds, count: 20 }],
}

const executors: Executor[] = [BindingExecutor.prototype, NativeExecutor.prototype]

/** Sessions that are open, or being opened or closed. */
let sessions: Set<number>
beforeEach(() => {
  sessions = new Set()
  for (const executor of executors) watch(executor)
})
afterEach(() => void vi.restoreAllMocks())

function watch(executor: Executor): void {
  const { open, close } = executor
  vi.spyOn(executor, 'open').mockImplementation(function (this: Executor, ...args) {
    sessions.add(args[0])
    return open.apply(this, args).catch((error: unknown) => {
      sessions.delete(args[0])
      throw error
    })
  })
  vi.spyOn(executor, 'close').mockImplementation(async function (this: Executor, sessionId) {
    await close.call(this, sessionId)
    sessions.delete(sessionId)
  })
}

const longWarmup: ModelConfig = { path: small.identity('float32'), warmup: [{ feeds, count: 2 ** 30 }] }

/** Counts the samples that are run from now on. */
function samplesRun(): () => number {
  const spies = executors.map((executor) => vi.spyOn(executor, 'runSample'))
  return () => spies.reduce((calls, { mock }) => calls + mock.calls.length, 0)
}

async function serves(engine: InferenceEngine): Promise<void> {
  const model = await engine.load('m', config)
  expect((await model.infer(feeds))['y']!.data).toEqual(feeds.x)
  await model.unload()
}

/** Begins a load and aborts it after so many turns of the event loop. */
async function abortAfter(engine: InferenceEngine, turns: number): Promise<'loaded' | 'aborted'> {
  const controller = new AbortController()
  const loading = engine.load('m', config, { signal: controller.signal }).catch((reason: unknown) => reason)
  const [begun] = engine.models()
  for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
  controller.abort('no longer wanted')
  const outcome = await loading
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  if (outcome !== 'no longer wanted') {
    expect(outcome).toBe(begun)
    await (outcome as Model).unload()
    return 'loaded'
  }
  expect(engine.models()).toEqual([])
  expect(begun).toMatchObject({ state: 'failed', failure: "its load was aborted: 'no longer wanted'" })
  expect(await rejectionOf(() => begun!.infer(feeds))).toMatchObject({ code: 'ERR_MODEL_NOT_READY' })
  return 'aborted'
}

describe('a load whose signal fires', () => {
  const engine = sharedEngine({ cpuWorkers: 2 })

  it('is rejected at any moment, has its name free at once, and leaves nothing open', async () => {
    await serves(engine)
    const outcomes = new Set<string>()
    for (let turns = 0; turns < 400 && !outcomes.has('loaded'); turns = Math.ceil(turns * 1.15) + 1) {
      outcomes.add(await abortAfter(engine, turns))
      await serves(engine)
      await until(() => sessions.size === 0)
    }
    expect(outcomes).toContain('aborted')
    expect(engine.stats().staging!.usedBytes).toBe(0)
  })

  it('is rejected before it began when the signal had fired', async () => {
    const aborted = engine.load('m', { path: '/no/such/file' }, { signal: AbortSignal.abort('before') })
    expect(engine.models()).toEqual([])
    expect(await rejectionOf(() => aborted)).toBe('before')
  })

  it('is rejected while the first worker starts', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    expect(await abortAfter(own, 1)).toBe('aborted')
    await serves(own)
  })

  it('is waited for by close(), which leaves nothing open', async () => {
    const own = ownEngine({ cpuWorkers: 2 })
    const controller = new AbortController()
    const loading = rejectionOf(() => own.load('m', config, { signal: controller.signal }))
    await until(() => sessions.size > 0)
    controller.abort('no longer wanted')
    await own.close()
    expect(await loading).toBe('no longer wanted')
    expect(sessions.size).toBe(0)
  })

  it('runs none of its warm-up samples any more', async () => {
    const own = ownEngine({ cpuWorkers: 1 })
    const runs = samplesRun()
    const controller = new AbortController()
    const loading = rejectionOf(() => own.load('m', longWarmup, { signal: controller.signal }))
    await until(() => runs() > 10)
    controller.abort('no longer wanted')
    const then = runs()
    expect(await loading).toBe('no longer wanted')
    await own.close()
    expect(runs()).toBe(then)
  })

  it('is not disturbed by a signal that fires when it is done', async () => {
    const controller = new AbortController()
    const model = await engine.load('m', config, { signal: controller.signal })
    controller.abort('too late')
    expect((await model.infer(feeds))['y']!.data).toEqual(feeds.x)
    await model.unload()
  })
})

describe('a load whose model is unloaded, or its engine closed', () => {
  it.each(['warm-up', 'check of rows'])(
    'is rejected as closed during its %s, and warns of nothing',
    async (phase) => {
      const warned = vi.spyOn(process, 'emitWarning')
      const own = ownEngine({ cpuWorkers: 1 })
      const runs = samplesRun()
      const checked: ModelConfig = {
        path: await ortForm(small.matmulSlow(512, 100)),
        maxBatchSize: 16,
        warmup: false,
      }
      const loading = rejectionOf(() => own.load('m', phase === 'warm-up' ? longWarmup : checked))
      await until(() => runs() > (phase === 'warm-up' ? 1 : 0))
      await (phase === 'warm-up' ? own.unload('m') : own.close())
      expect(await loading).toMatchObject({ code: 'ERR_CLOSED' })
      // Without the addon there is another one.
      expect(warned.mock.calls).not.toContainEqual([
        expect.anything(),
        expect.objectContaining({ code: 'ZEROHOP_DEPENDENT_ROWS' }),
      ])
    },
  )
})

describe('options of a load', () => {
  const engine = sharedEngine()
  const cases: [what: string, options: unknown, argument: string][] = [
    ['null', null, 'options'],
    ['a signal instead', new AbortController().signal, 'options'],
    ['a controller', { signal: new AbortController() }, 'options.signal'],
    ['misspelt', { abort: 1 }, 'options.abort'],
    ['what only inherits from a signal', { signal: Object.create(AbortSignal.prototype) }, 'options.signal'],
    ['a proxy of a signal', { signal: new Proxy(new AbortController().signal, {}) }, 'options.signal'],
  ]
  it.each(cases)('are refused: %s', async (_, options, argument) => {
    expectRefusal(await rejectionOf(() => engine.load('m', config, options as never)), { argument })
    expect(engine.models()).toEqual([])
  })
})
