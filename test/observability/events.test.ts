import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, expectTypeOf, it, onTestFinished } from 'vitest'
import { KeepAlive } from '../../src/base/clock.ts'
import type {
  BatchMessage,
  InferenceEngine,
  ModelEvent,
  ModelOptions,
  RequestMessage,
  WorkerEvent,
} from '../../src/index.ts'
import { EventLoopDelay } from '../../src/observe/model-counts.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { FakeClock } from '../fake-clock.ts'
import * as small from '../models/small.ts'
import { one } from '../pipelines/arithmetic.ts'
import { endsEachTime, testTimeoutMs } from '../process/child.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { load, ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { expectedOf, Ledger } from './ledger.ts'

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

describe('channels', () => {
  const row = () => ({ x: new Float32Array(4) })

  function heard<T>(name: string): T[] {
    const messages: T[] = []
    const listener = (message: unknown) => void messages.push(message as T)
    subscribe(name, listener)
    onTestFinished(() => void unsubscribe(name, listener))
    return messages
  }

  describe('the channels of requests and batches', () => {
    it('tell of each request and of its batch, which know each other by number', async () => {
      const model = await load(ownEngine(), small.identity('float32'), {
        maxBatchSize: 4,
        dynamicBatching: { holdUntilQueued: 2 },
      })
      const [requests, batches] = [
        heard<RequestMessage>('zerohop:request'),
        heard<BatchMessage>('zerohop:batch'),
      ]
      await Promise.all([model.infer(row(), { requestId: 'one' }), model.infer(row())])
      expect(requests.map(({ type, requestId, model: name }) => [type, requestId, name])).toEqual([
        ['begun', 'one', model.name], ['begun', undefined, model.name], ['ended', 'one', model.name], ['ended', undefined, model.name],
      ]) // prettier-ignore
      expect(batches.map(({ type, rows, model: name }) => [type, rows, name])).toEqual([
        ['began', 2, model.name],
        ['ended', 2, model.name],
      ])
      const ended = requests.slice(2)
      expect(ended.every(({ succeeded, batchIds }) => succeeded && batchIds![0] === batches[1]!.id)).toBe(
        true,
      )
      expect(ended.map(({ id }) => id)).toEqual(requests.slice(0, 2).map(({ id }) => id))
      expect(batches[1]!.moments!.inferEndMs).toBeGreaterThanOrEqual(batches[1]!.moments!.inferStartMs)
    })

    it('tell why a request failed', async () => {
      const model = await load(ownEngine(), small.gatherRow(), { warmup: false })
      const requests = heard<RequestMessage>('zerohop:request')
      const error = await rejectionOf(() => model.infer({ index: new BigInt64Array([99n]) }))
      expect(requests.at(-1)).toMatchObject({ type: 'ended', succeeded: false, error })
    })

    it('tell nothing of a call that is refused as it is no request, which the statistics count; of one that was withdrawn before, they do', async () => {
      const model = await load(ownEngine(), small.identity('float32'))
      const requests = heard<RequestMessage>('zerohop:request')
      await rejectionOf(() => model.infer({ x: new Float32Array(3) }))
      expect(requests).toEqual([])
      await rejectionOf(() => model.infer(row(), { signal: AbortSignal.abort() }))
      expect(requests.map(({ type, succeeded }) => [type, succeeded])).toEqual([
        ['begun', undefined],
        ['ended', false],
      ])
      expect(model.stats().refusals).toMatchObject({ invalid: 1, cancelled: 1 })
    })

    it('tell those who listen from now on alone', async () => {
      const model = await load(ownEngine(), small.identity('float32'))
      const listener = () => expect.fail('told of')
      subscribe('zerohop:request', listener)
      unsubscribe('zerohop:request', listener)
      await model.infer(row())
      const requests = heard<RequestMessage>('zerohop:request')
      await model.infer(row())
      expect(requests.map(({ type }) => type)).toEqual(['begun', 'ended'])
    })
  })
})

const listeners: [string, (message: unknown) => void][] = []

function listen(channel: string, told: (message: unknown) => void): void {
  subscribe(channel, told)
  listeners.push([channel, told])
}

afterEach(() => {
  for (const [channel, told] of listeners.splice(0)) unsubscribe(channel, told)
})

const kinds: Record<string, ModelOptions> = {
  'as they are': {},
  'in order': { dynamicBatching: { preserveOrdering: true } },
  'with a response cache': { responseCache: true },
}

describe.each(Object.entries(kinds))('requests %s', (_, config) => {
  it.each(['zerohop:batch', 'zerohop:request'])(
    'that are withdrawn by who is told on %s of their batch or of each other are counted once, as what their callers saw',
    async (channel) => {
      const engine = ownEngine({ cpuWorkers: 1 })
      const model = await engine.load('withdrawn', {
        path: small.identity('float32', [1]),
        maxBatchSize: 8,
        ...config,
      })
      const ledger = new Ledger()
      const controllers = Array.from({ length: 64 }, () => new AbortController())
      let told = 0
      listen(channel, (message) => {
        if ((message as BatchMessage | RequestMessage).type === 'ended')
          controllers[(7 * told++ + 3) % controllers.length]!.abort('aborted')
      })
      await Promise.all(
        controllers.map(({ signal }, value) => ledger.note(() => model.infer({ x: one(value) }, { signal }))),
      )
      expect(ledger.seen['aborted']).toBeGreaterThan(0)
      expect(ledger.seen['answered']).toBeGreaterThan(0)
      const { found, expected } = expectedOf(model, ledger)
      expect(found).toEqual(expected)
    },
  )
})

function watched() {
  const clock = new FakeClock(1000)
  const keepAlive = new KeepAlive()
  const delay = new EventLoopDelay(clock, keepAlive)
  keepAlive.onHeld = delay.begin
  return { clock, keepAlive, delay }
}

describe('the delay of the event loop', () => {
  it('is asked for every 20 ms while something is in flight, with one timer, and with none when nothing is', () => {
    const { clock, keepAlive, delay } = watched()
    expect([clock.timers, delay.statistics.count]).toEqual([0, 0])
    keepAlive.enter()
    keepAlive.enter()
    expect(clock.timers).toBe(1)
    clock.advanceBy(100)
    expect([clock.timers, delay.statistics.count, delay.statistics.maxMs]).toEqual([1, 5, 0])
    keepAlive.leave()
    keepAlive.leave()
    clock.advanceBy(20)
    expect([clock.timers, delay.statistics.count]).toEqual([0, 6])
    keepAlive.enter()
    expect(clock.timers).toBe(1)
  })

  it('sets no second timer where requests come one by one', () => {
    const { clock, keepAlive, delay } = watched()
    for (let request = 0; request < 1000; request++) {
      keepAlive.enter()
      keepAlive.leave()
    }
    expect(clock.timers).toBe(1)
    clock.advanceBy(1000)
    expect([clock.timers, delay.statistics.count]).toEqual([0, 1])
  })

  it('weighs a stall by how long it was', () => {
    const { clock, keepAlive, delay } = watched()
    keepAlive.enter()
    clock.advanceBy(20 * 74)
    clock.stall(520) // of which the first 20 ms are in time
    clock.advanceBy(0)
    const { count, maxMs, sumMs, p50Ms, p99Ms } = delay.statistics
    expect([count, maxMs, sumMs]).toEqual([74 + 25, 500, (500 * 26) / 2])
    expect(p50Ms).toBeLessThan(0.001)
    expect(p99Ms).toBeGreaterThan(470)
  })
})
