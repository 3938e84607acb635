import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, expectTypeOf, it, onTestFinished } from 'vitest'
import type { InferenceEngine, ModelEvent, WorkerEvent } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { endsEachTime, testTimeoutMs } from '../process/child.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const config = { path: small.identity('float32'), dynamicBatching: false, warmup: false } as const
const row = { x: Float32Array.of(1, 2, 3, 4) }
const deadly = { x: Float32Array.of(-1003, 0, 0, 0) }
const preload = new URL('../process/fixtures/deadly.mjs', import.meta.url).href
const exited = 'the worker thread ended with exit code 7'

function mortalEngine(): InferenceEngine {
  return ownEngine({ cpuWorkers: 1, executor: 'binding', workers: { execArgv: ['--import', preload] } })
}

/** What an engine tells from now on, in its order. */
function eventsOf(engine: InferenceEngine): (ModelEvent | WorkerEvent)[] {
  const events: (ModelEvent | WorkerEvent)[] = []
  engine.on('model', (event) => events.push(event)).on('worker', (event) => events.push(event))
  return events
}

describe('an engine tells of its models', () => {
  it('from ready to closed, in time for whoever waits for that', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const events = eventsOf(engine)
    const model = await engine.load('m', config)
    expect(events).toEqual([
      { type: 'started', worker: 'cpu_0' },
      { type: 'ready', model: 'm', version: 1 },
    ])
    await model.unload()
    expect(events.slice(2)).toEqual([
      { type: 'draining', model: 'm', version: 1 },
      { type: 'closed', model: 'm', version: 1 },
    ])
  })

  it('that one could not be loaded, and why', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const events = eventsOf(engine)
    const { message } = (await rejectionOf(() => engine.load('m', { path: '/no/such/file' }))) as Error
    expect(events).toEqual([{ type: 'failed', model: 'm', version: 1, reason: message }])
  })

  it('that a load was aborted', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const events = eventsOf(engine)
    const controller = new AbortController()
    const loading = outcomeOf(engine.load('m', config, { signal: controller.signal }))
    controller.abort(new Error('no longer wanted'))
    await loading
    expect(events).toContainEqual({
      type: 'failed',
      model: 'm',
      version: 1,
      reason: 'its load was aborted: no longer wanted',
    })
    await engine.close()
    expect(events.filter((event) => 'model' in event)).toHaveLength(1)
  })
})

describe('an engine tells of its workers', () => {
  it('that one was lost, and restored when its sessions are open again', async () => {
    const engine = mortalEngine()
    const events = eventsOf(engine)
    const model = await engine.load('m', config)
    expect(await outcomeOf(model.infer(deadly))).toBe('ERR_INSTANCE_CRASHED')
    await model.infer(row)
    await until(() => events.length === 4)
    expect(events).toEqual([
      { type: 'started', worker: 'cpu_0' },
      { type: 'ready', model: 'm', version: 1 },
      { type: 'lost', worker: 'cpu_0', reason: exited },
      { type: 'restored', worker: 'cpu_0' },
    ])
  })

  it('and of the model that brought one down again and again', async () => {
    const engine = mortalEngine()
    const model = await engine.load('m', config)
    const events = eventsOf(engine)
    for (let deaths = 0; deaths < 3; deaths++) await outcomeOf(model.infer(deadly))
    expect(events).toContainEqual({
      type: 'failed',
      model: 'm',
      version: 1,
      reason: `its worker died 3 times in a row, last of: ${exited}`,
    })
    expect(events.filter(({ type }) => type === 'lost')).toHaveLength(3)
    await engine.load('m', config) // which releases the failed one first
    expect(events.filter((event) => 'model' in event).map(({ type }) => type)).toEqual([
      'failed',
      'closed',
      'ready',
    ])
  })

  it('that no thread could be had', async () => {
    process.env['ZEROHOP_TEST_DIE_AT_START'] = '1'
    onTestFinished(() => void delete process.env['ZEROHOP_TEST_DIE_AT_START'])
    const engine = mortalEngine()
    const events = eventsOf(engine)
    expect(await outcomeOf(engine.load('m', config))).toBe('ERR_MODEL_LOAD')
    expect(events).toMatchObject([
      { type: 'failed', worker: 'cpu_0', reason: 'died at start on purpose' },
      { type: 'failed', model: 'm' },
    ])
  })
})

describe('the diagnostics channels', () => {
  it('have the same events, of every engine', async () => {
    const seen: [unknown, unknown][] = []
    for (const name of ['zerohop:model', 'zerohop:worker']) {
      const note = (message: unknown, channel: unknown) => void seen.push([channel, message])
      subscribe(name, note)
      onTestFinished(() => void unsubscribe(name, note))
    }
    for (const name of ['a', 'b']) {
      const engine = ownEngine({ cpuWorkers: 1 })
      await engine.load(name, config)
      await engine.close()
    }
    expect(seen.filter(([channel]) => channel === 'zerohop:worker')).toEqual(
      [1, 2].map(() => ['zerohop:worker', { type: 'started', worker: 'cpu_0' }]),
    )
    const types = seen.flatMap(([channel, message]) => (channel === 'zerohop:model' ? [message] : []))
    expect(types).toEqual(
      ['a', 'b'].flatMap((model) =>
        ['ready', 'draining', 'closed'].map((type) => ({ type, model, version: 1 })),
      ),
    )
  })
})

describe('a listener', () => {
  it('is called until it is taken off, and once where that was asked for', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const calls: string[] = []
    const all = ({ type }: ModelEvent) => void calls.push(type)
    engine.on('model', all).once('model', ({ type }) => void calls.push(`once ${type}`))
    const model = await engine.load('m', config)
    engine.off('model', all)
    await model.unload()
    expect(calls).toEqual(['ready', 'once ready'])
  })

  it('may use the engine, which is not in the middle of anything', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    let again: Promise<unknown> | undefined
    engine.once('model', ({ model }) => (again = engine.unload(model).then(() => engine.load(model, config))))
    await engine.load('m', config)
    await again
    expect(engine.model('m').state).toBe('ready')
  })

  it(
    'that throws is an uncaught exception, and disturbs neither requests nor other listeners',
    { timeout: testTimeoutMs },
    () =>
      endsEachTime('throwing-listener.mjs', 'all events', {
        answer: {
          answered: true,
          others: ['ready', 'draining', 'closed'],
          uncaught: ['ready', 'draining', 'closed'],
        },
      }),
  )

  it('gets events of known names only, and is a function', async () => {
    const engine = ownEngine()
    for (const method of ['on', 'once', 'off'] as const) {
      expectRefusal(await rejectionOf(async () => engine[method]('ready' as never, () => {})), {
        argument: 'event',
        expected: /model or worker or repository/,
      })
      expectRefusal(await rejectionOf(async () => engine[method]('model', null as never)), {
        argument: 'listener',
        received: null,
      })
    }
  })

  it('knows its event by type', () => {
    const listen = (engine: InferenceEngine) =>
      engine.on('worker', (event) => expectTypeOf(event).toEqualTypeOf<WorkerEvent>())
    expectTypeOf(listen).returns.toEqualTypeOf<InferenceEngine>()
  })
})
