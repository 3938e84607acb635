import { utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BindingExecutor } from '../../src/run/executors/binding/binding-executor.ts'
import type { Executor } from '../../src/run/executors/executor.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { Tensor, type InferenceEngine, type Model, type ModelConfig } from '../../src/index.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { executorKinds } from '../support/executors.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { markedModel, markOf } from '../support/versions.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const feeds = { x: new Float32Array(4).fill(1) }
const config = (mark: number, more: object = {}): ModelConfig => ({
  bytes: markedModel(mark),
  warmup: false,
  checkRows: false,
  ...more,
})
const markFrom = async (model: Model) => markOf(await model.infer(feeds), 1)
/** Its requests wait until it is drained. */
const holding = { maxBatchSize: 200, dynamicBatching: { holdUntilQueued: 100 } }
/** It is loading until that is given up. */
const endless: ModelConfig = { path: small.identity('float32'), warmup: [{ feeds, count: 2 ** 30 }] }

const executors: Executor[] = [BindingExecutor.prototype, NativeExecutor.prototype]
/** Sessions that are open, or being opened or closed, and the most there were. */
let sessions: Set<number>
let mostSessions: number
beforeEach(() => {
  sessions = new Set()
  mostSessions = 0
  for (const executor of executors) {
    const { open, close } = executor
    vi.spyOn(executor, 'open').mockImplementation(function (this: Executor, ...args) {
      mostSessions = Math.max(mostSessions, sessions.add(args[0]).size)
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
})
afterEach(() => void vi.restoreAllMocks())

/** What an engine tells of its models from now on. */
function eventsOf(engine: InferenceEngine): string[] {
  const events: string[] = []
  engine.on('model', ({ type, reason }) => events.push(reason === undefined ? type : `${type}: ${reason}`))
  return events
}

describe('a model that is loaded again', () => {
  it('is another one from when that is ready, for whoever has it', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1))
    const events = eventsOf(engine)
    const loading = engine.load('m', config(2))
    expect(model.versions).toEqual([{ version: 1, state: 'ready', failure: null, replacing: true }])
    expect(await markFrom(model)).toBe(1)
    expect(await loading).toBe(model)
    expect(await markFrom(model)).toBe(2)
    await until(() => sessions.size === 1)
    await until(() => events.length === 2)
    expect(events).toEqual(['ready', 'replaced'])
    expect(model.versions).toEqual([{ version: 1, state: 'ready', failure: null, replacing: false }])
  })

  it('answers what it had accepted, and only that', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, holding))
    const accepted = Array.from({ length: 20 }, () => markFrom(model))
    await engine.load('m', config(2))
    const later = Array.from({ length: 20 }, () => markFrom(model))
    expect(new Set(await Promise.all(accepted))).toEqual(new Set([1]))
    expect(new Set(await Promise.all(later))).toEqual(new Set([2]))
  })

  it('answers all parts of a request itself', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, { ...holding, maxBatchSize: 2, splitOversized: true }))
    const split = model.infer({ x: new Tensor('float32', new Float32Array(4 * 9).fill(1), [9, 4]) })
    await engine.load('m', config(2))
    const outputs = await split
    expect([outputs['sum']!.dims, markOf(outputs, 1)]).toEqual([[9, 4], 1])
  })

  it('may take and give something else', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', { path: small.identity('float32') })
    await engine.load('m', { path: small.addSub('float32') })
    expect(model.metadata.inputs.map(({ name }) => name)).toEqual(['a', 'b'])
    const row = new Float32Array(16).fill(2)
    expect(Object.keys(await model.infer({ a: row, b: row }))).toEqual(['sum', 'difference'])
    expect(await outcomeOf(model.infer(feeds))).toBe('ERR_INVALID_ARG')
  })

  it('serves on where the other cannot be loaded, and the error says why', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1))
    const events = eventsOf(engine)
    const cases: [ModelConfig, string][] = [
      [{ bytes: Uint8Array.of(1, 2, 3) }, 'ERR_MODEL_LOAD'],
      [{ path: '/no/such/file' }, 'ERR_MODEL_NOT_FOUND'],
      [{ path: small.notOnnx() }, 'ERR_MODEL_LOAD'],
      [config(2, { warmup: [{ feeds: { x: new Float32Array(3) } }] }), 'ERR_MODEL_CONFIG'],
    ]
    for (const [broken, code] of cases) {
      expect(await rejectionOf(() => engine.load('m', broken))).toMatchObject({ code, model: 'm' })
      expect([await markFrom(model), model.state, model.failure]).toEqual([1, 'ready', null])
    }
    expect(events.map((event) => event.split(':', 1)[0])).toEqual(cases.map(() => 'notReplaced'))
    expect(sessions.size).toBe(1)
    await engine.load('m', config(2))
    expect(await markFrom(model)).toBe(2)
  })

  it('serves on where the load is aborted', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1))
    const events = eventsOf(engine)
    const controller = new AbortController()
    const loading = rejectionOf(() => engine.load('m', endless, { signal: controller.signal }))
    await until(() => sessions.size === 2)
    controller.abort('no longer wanted')
    expect(await loading).toBe('no longer wanted')
    expect(await markFrom(model)).toBe(1)
    await until(() => sessions.size === 1)
    expect(events).toEqual(["notReplaced: its load was aborted: 'no longer wanted'"])
  })

  it('has the instances of its own configuration, and those that were added are released', async () => {
    const engine = ownEngine({ cpuWorkers: 2 })
    const model = await engine.load('m', config(1))
    await model.scale({ count: 3 })
    expect([model.capacity().instances, sessions.size]).toEqual([3, 3])
    const answers = Array.from({ length: 20 }, () => markFrom(model))
    await engine.load('m', config(2))
    expect([model.capacity().instances, new Set(await Promise.all(answers)), await markFrom(model)]).toEqual([
      1,
      new Set([1]),
      2,
    ])
    await until(() => sessions.size === 1)
  })

  it('can be loaded from a file that has become another model', async () => {
    const engine = ownEngine()
    const path = `${temporaryFolder({ 'm.onnx': markedModel(1) })}/m.onnx`
    const model = await engine.load('m', { path })
    writeFileSync(path, markedModel(2))
    await engine.load('m', { path })
    expect(await markFrom(model)).toBe(2)
  })
})

describe.skipIf(process.platform === 'win32').each(executorKinds)(
  'a file that is another one, of the size, the time and the place of the first (%s)',
  (executor) => {
    const engineOf = async (mark: number) => {
      const engine = ownEngine({ cpuWorkers: 2, executor })
      const path = `${temporaryFolder({})}/m.onnx`
      const write = (of: number) => {
        writeFileSync(path, markedModel(of)) // in place
        utimesSync(path, 0, 0)
      }
      write(mark)
      return {
        engine,
        path,
        write,
        model: await engine.load('m', { path, instanceGroup: [{ kind: 'cpu' }] }),
      }
    }

    it('is what a load again loads', async () => {
      const { engine, path, write, model } = await engineOf(1)
      write(2)
      await engine.load('m', { path })
      expect(await markFrom(model)).toBe(2)
    })

    it('is never beside the first', async () => {
      const { model, write } = await engineOf(1)
      write(2)
      await expect(model.scale({ count: 2 })).rejects.toMatchObject({
        code: 'ERR_MODEL_LOAD',
        message: expect.stringContaining('its file changed'),
      })
      expect(model.capacity().instances).toBe(1)
    })

    it('is not loaded when it comes while the first is opened', async () => {
      const { engine, path, write, model } = await engineOf(1)
      const watched = vi.mocked(
        (executor === 'native' ? NativeExecutor.prototype : BindingExecutor.prototype) as Executor,
      ).open
      const open = watched.getMockImplementation()!
      let opened = 0
      watched.mockImplementation(async function (this: Executor, ...args) {
        const session = await open.apply(this, args)
        if (++opened === 1) write(2)
        return session
      })
      await expect(engine.load('m', { path })).rejects.toMatchObject({
        code: 'ERR_MODEL_LOAD',
        message: expect.stringContaining('its file changed while it was opened'),
      })
      expect(await markFrom(model)).toBe(1)
      await engine.load('m', { path })
      expect(await markFrom(model)).toBe(2)
    })
  },
)

describe('loads of one version at once', () => {
  it('are done one after the other, with two models at most, and the last one stays', async () => {
    const engine = ownEngine({ cpuWorkers: 2 })
    const order: number[] = []
    const loads = [1, 2, 3, 4, 5].map(async (mark) => {
      const model = await engine.load('m', config(mark))
      order.push(await markFrom(model))
    })
    await Promise.all(loads)
    expect(order).toEqual([1, 2, 3, 4, 5])
    expect(await markFrom(engine.model('m'))).toBe(5)
    expect(mostSessions).toBeLessThanOrEqual(2)
  })

  it('go on after one that fails, whether something serves or not', async () => {
    const engine = ownEngine()
    const broken = { bytes: Uint8Array.of(1) }
    const loads = [broken, config(1), broken, config(2), broken].map((each) =>
      outcomeOf(engine.load('m', each)),
    )
    expect(await Promise.all(loads)).toEqual([
      'ERR_MODEL_LOAD',
      'answered',
      'ERR_MODEL_LOAD',
      'answered',
      'ERR_MODEL_LOAD',
    ])
    expect(await markFrom(engine.model('m'))).toBe(2)
  })

  it('lose their turn when they are aborted, and hold up none behind them', async () => {
    const engine = ownEngine()
    const first = new AbortController()
    const second = new AbortController()
    const loads = [
      outcomeOf(engine.load('m', endless, { signal: first.signal })),
      outcomeOf(engine.load('m', config(2), { signal: second.signal })),
      outcomeOf(engine.load('m', config(3))),
    ]
    second.abort('second')
    expect(await loads[1]).toBe('second')
    expect(engine.model('m').state).toBe('loading')
    first.abort('first')
    expect(await Promise.all(loads)).toEqual(['first', 'second', 'answered'])
    expect(await markFrom(engine.model('m'))).toBe(3)
  })
})

describe.each(['unload', 'close', 'destroy'] as const)('%s', (ending) => {
  it('during a replacement leaves nothing behind, and nobody waiting', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, holding))
    const accepted = outcomeOf(model.infer(feeds))
    const loads = [outcomeOf(engine.load('m', endless)), outcomeOf(engine.load('m', config(3)))]
    await until(() => sessions.size === 2)
    await (ending === 'unload' ? engine.unload('m') : engine[ending]())
    expect(await Promise.all(loads)).toEqual(['ERR_CLOSED', 'ERR_CLOSED'])
    expect(await accepted).toBe(ending === 'destroy' ? 'ERR_CLOSED' : 'answered')
    expect([sessions.size, model.state, engine.stats().staging!.usedBytes]).toEqual([0, 'closed', 0])
  })

  it('waits for what a replaced model still answers', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, holding))
    const accepted = Array.from({ length: 50 }, () => outcomeOf(model.infer(feeds)))
    await engine.load('m', config(2))
    await (ending === 'unload' ? model.unload() : engine[ending]())
    const outcomes = new Set(await Promise.all(accepted))
    expect(outcomes).not.toContain('ERR_MODEL_NOT_READY')
    if (ending !== 'destroy') expect(outcomes).toEqual(new Set(['answered']))
    expect(sessions.size).toBe(0)
  })
})

describe('a load', () => {
  it('waits for the end of what is being unloaded, and is another model then', async () => {
    const engine = ownEngine()
    const first = await engine.load('m', config(1, holding))
    const accepted = markFrom(first)
    const unloading = engine.unload('m')
    const second = await engine.load('m', config(2))
    expect(await accepted).toBe(1)
    await unloading
    expect([first.state, second.state, engine.model('m') === second]).toEqual(['closed', 'ready', true])
    expect(await markFrom(second)).toBe(2)
  })

  it('of another version does not wait for one that is being unloaded', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, holding))
    const accepted = markFrom(model)
    const unloading = engine.unload('m', { version: 1 })
    await engine.load('m', config(2, { version: 2 }))
    await unloading
    expect([await accepted, await markFrom(model), model.version]).toEqual([1, 2, 2])
  })

  it('is refused when the engine is closed while it waits', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1, holding))
    const accepted = outcomeOf(model.infer(feeds))
    void engine.unload('m')
    const loading = outcomeOf(engine.load('m', config(2)))
    await engine.close()
    expect([await loading, await accepted]).toEqual(['ERR_CLOSED', 'answered'])
  })
})

describe('a stream of requests', () => {
  it('goes on over replacements, with each answer from one model', async () => {
    const engine = ownEngine()
    const model = await engine.load('m', config(1))
    const marks = new Set<number>()
    const errors: unknown[] = []
    let mark = 1
    let loading: Promise<unknown> | null = null
    async function* rows() {
      while (mark < 6) {
        loading ??= engine.load('m', config(++mark)).then(() => (loading = null))
        yield feeds
        await new Promise(setImmediate)
      }
      await loading
      yield feeds
    }
    for await (const { outputs, error } of model.inferMany(rows())) {
      if (error) errors.push(error)
      else marks.add(markOf(outputs, 1))
    }
    expect(errors).toEqual([])
    expect([...marks].at(-1)).toBe(6)
  })

  it('that waits for a full queue goes on with the queue of the next', async () => {
    const engine = ownEngine()
    const full = { dynamicBatching: { holdUntilQueued: 100, defaultQueuePolicy: { maxQueueSize: 2 } } }
    const model = await engine.load('m', config(1, { maxBatchSize: 200, ...full }))
    const stream = (async () => {
      const marks: number[] = []
      for await (const { outputs, error } of model.inferMany(
        Array.from({ length: 8 }, () => feeds),
        { maxInFlight: 8 },
      )) {
        if (error) throw error
        marks.push(markOf(outputs, 1))
      }
      return marks
    })()
    await until(() => model.stats().pendingRequestCount === 2)
    await engine.load('m', config(2))
    expect(await stream).toEqual([1, 1, 2, 2, 2, 2, 2, 2])
  })
})

it('no request fails, and each is answered by one model, while it is replaced again and again under load', async () => {
  const engine = ownEngine()
  const model = await engine.load('m', config(1, { maxBatchSize: 8 }))
  let going = true
  const marks = new Map<number, number>()
  const caller = async () => {
    while (going) {
      const mark = await markFrom(model)
      marks.set(mark, (marks.get(mark) ?? 0) + 1)
      await new Promise(setImmediate)
    }
  }
  const callers = Array.from({ length: 10 }, caller)
  for (let mark = 2; mark <= 20; mark++) {
    await engine.load('m', config(mark, { maxBatchSize: 8 }))
    await until(() => marks.has(mark))
  }
  going = false
  await Promise.all(callers)
  expect([...marks.keys()]).toEqual(Array.from({ length: 20 }, (_, index) => index + 1))
})

it('memory and sessions are flat over many replacements', async () => {
  const engine = ownEngine()
  const model = await engine.load('m', config(1))
  await markFrom(model)
  const { usedBytes } = engine.stats().staging!
  for (let mark = 2; mark < 30; mark++) {
    await engine.load('m', config(mark))
    expect(await markFrom(model)).toBe(mark)
  }
  await until(() => sessions.size === 1)
  expect(engine.stats().staging!.usedBytes).toBe(usedBytes)
  expect(mostSessions).toBeLessThanOrEqual(2)
})
