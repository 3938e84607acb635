import { expect, it } from 'vitest'
import { Tensor, type Feeds, type InferOptions, type Model } from '../../src/index.ts'
import { accumulator } from '../models/accumulator.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { fixture } from '../functions/load-function.ts'
import { loadGate, loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { accumulatorSequence } from '../sequences/accumulators.ts'
import { ownEngine } from '../support/open.ts'
import { repetitions } from '../support/full.ts'
import { inParallel } from '../support/shared.ts'
import { until } from '../support/until.ts'
import { expectedOf, Ledger } from './ledger.ts'

const requests = repetitions(100_000, 8000)
const callers = 96

interface Call {
  readonly feeds: Feeds
  readonly options?: InferOptions
}

/** One kind of model with how it is called; `end` is what becomes of a sequence. */
interface Called {
  readonly model: Model
  readonly ledger: Ledger
  call(random: () => number): Call
}

const rows = (count: number, value: number) => ({
  x: new Tensor('float32', new Float32Array(4 * count).fill(value), [count, 4]),
})
const index = (at: number) => ({ index: BigInt64Array.of(BigInt(at)) })

it(
  'after thousands of requests of all kinds the statistics are what their callers saw, of each model and version, by each reason',
  { timeout: 240_000 },
  async () => {
    const engine = ownEngine({ cpuWorkers: 2 })
    const random = mulberry32(12)
    const called: Called[] = []
    const add = (model: Model, call: Called['call']) => called.push({ model, ledger: new Ledger(), call })

    for (const version of [1, 2]) {
      const split = version === 2
      const model = await engine.load('plain', {
        path: small.identity('float32'),
        version,
        maxBatchSize: 8,
        splitOversized: split,
        instanceGroup: [{ kind: 'cpu', count: 2 }],
        dynamicBatching: {
          priorityLevels: 3,
          defaultPriorityLevel: 2,
          defaultQueuePolicy: { maxQueueSize: 24 },
          priorityQueuePolicy: { 3: { maxQueueSize: 2 } },
        },
      })
      add(model, (next) => ({
        feeds: rows(1 + Math.floor(next() * (next() < 0.1 ? 30 : 3)), next()),
        options: { priority: 1 + Math.floor(3 * next()) },
      }))
    }
    const sessionOptions = { logSeverityLevel: 4 } as const
    add(
      await engine.load('failing', { path: small.gatherRow(), maxBatchSize: 8, sessionOptions }),
      (next) => ({ feeds: index(next() < 0.04 ? 99 : 1) }),
    )
    for (const preserveOrdering of [false, true]) {
      const dynamicBatching = { preserveOrdering }
      add(
        await engine.load(`cached-${preserveOrdering}`, {
          path: small.identity('float32'),
          maxBatchSize: 4,
          splitOversized: true,
          responseCache: { maxBytes: 8000 },
          dynamicBatching,
        }),
        (next) => ({ feeds: rows(1 + Math.floor(6 * next() ** 4), Math.floor(60 * next() ** 2)) }),
      )
    }
    add(
      await engine.load('ordered', {
        path: small.gatherRow(),
        maxBatchSize: 4,
        instanceGroup: [{ kind: 'cpu', count: 2 }],
        dynamicBatching: { preserveOrdering: true },
        sessionOptions,
      }),
      (next) => ({ feeds: index(next() < 0.04 ? 99 : 1) }),
    )
    add(
      await engine.load('stream', {
        path: accumulator(),
        maxBatchSize: 8,
        checkRows: false,
        sequence: accumulatorSequence,
      }),
      (next) => {
        const sequenceId = 1 + Math.floor(40 * next())
        return {
          feeds: { x: one(next()) },
          options: { sequenceId, sequenceStart: next() < 0.5, sequenceEnd: next() < 0.2 },
        }
      },
    )
    add((await loadNumber(engine, 'twice', (x) => 2 * x)) as unknown as Model, (next) => ({
      feeds: { x: one(next()) },
    }))
    await engine.load('before', { path: small.identity('float32', [1]), maxBatchSize: 16 })
    await loadNumber(engine, 'after', (x) => -x)
    add(
      (await engine.loadPipeline('line', {
        inputs: ['x'],
        steps: [step('before', 'x', 'same'), step('after', 'same', 'y')],
        outputs: ['y'],
        maxInFlight: 16,
      })) as unknown as Model,
      (next) => ({ feeds: { x: one(next()) } }),
    )

    await inParallel(callers, Array.from({ length: requests }), async () => {
      const { model, ledger, call } = called[Math.floor(random() * called.length)]!
      const { feeds, options } = call(random)
      const how = random()
      const controller = new AbortController()
      const abort = () => controller.abort('aborted')
      if (how < 0.01) abort()
      else if (how < 0.02) queueMicrotask(abort)
      else if (how < 0.04) setImmediate(abort)
      else if (how < 0.05) setTimeout(abort, 2 * random())
      const limits =
        how < 0.05
          ? { signal: controller.signal }
          : how < 0.08
            ? { timeoutMs: 0.01 + random() }
            : how < 0.11
              ? { deadlineMs: 0.01 + random() }
              : {}
      const given = how > 0.99 ? { nothing: [] } : how > 0.98 ? { ...feeds, strange: one(1) } : feeds
      const wrong = how > 0.97 && how <= 0.98 ? { priority: 1.5 } : {}
      await ledger.note(() => model.infer(given, { ...options, ...limits, ...wrong }))
    })
    for (const { model, ledger } of called) {
      const { found, expected } = expectedOf(model, ledger)
      expect({ model: model.name, version: model.version, figures: found }).toEqual({
        model: model.name,
        version: model.version,
        figures: expected,
      })
      expect(model.stats().inferenceStats.success.ns / 1e6).toBeLessThanOrEqual(ledger.answeredMs + 1e-3)
    }
    for (const { ledger } of called)
      expect(Object.keys(ledger.seen)).toEqual(
        expect.arrayContaining(['answered', 'aborted', 'ERR_INVALID_ARG']),
      )
    const total = called
      .flatMap(({ ledger }) => Object.values(ledger.seen))
      .reduce((sum, count) => sum + count)
    expect(total).toBe(requests)

    // What a pipeline's steps did is what their models counted, whoever else they have.
    const [first, second] = engine.stats().models['line']!.steps!
    for (const [name, steps] of [
      ['before', first!],
      ['after', second!],
    ] as const) {
      const { inferenceStats, rejections } = engine.model(name).stats()
      expect([inferenceStats.success.count, rejections.cancelled]).toEqual([
        steps.success.count,
        steps.cancelledCount,
      ])
    }
    // Each version by itself, and the one that serves as the name.
    const { versions, version, ...named } = engine.stats().models['plain']!
    expect(Object.keys(versions)).toEqual(['1', '2'])
    expect([version, named.inferenceStats, named.rejections]).toEqual([
      2,
      versions[2]!.inferenceStats,
      versions[2]!.rejections,
    ])
    expect(versions[1]!.inferenceStats.success.count).toBe(called[0]!.ledger.seen['answered'])
  },
)

it('limits, aborts, crashes and ends are counted as what they were to whoever waited', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const gate = await loadGate(engine, 'gate', {
    maxBatchSize: 1,
    dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 3 } },
  })
  const model = engine.model('gate')
  const ledger = new Ledger()
  const send = (options: InferOptions = {}) => ledger.note(() => model.infer({ x: one(1) }, options))
  const controller = new AbortController()
  const running = send()
  await until(() => gate.calls === 1)
  const waiting = [send({ timeoutMs: 1 }), send({ deadlineMs: 2 }), send({ signal: controller.signal })]
  const refused = send()
  controller.abort('aborted')
  expect(await Promise.all([...waiting, refused])).toEqual([
    'ERR_TIMEOUT',
    'ERR_DEADLINE',
    'aborted',
    'ERR_QUEUE_FULL',
  ])
  gate.open()
  expect(await running).toBe('answered')
  expect(await send({ signal: controller.signal })).toBe('aborted')
  await model.unload()
  expect(await send()).toBe('ERR_CLOSED')
  const { found, expected } = expectedOf(model, ledger)
  expect(found).toEqual(expected)
  expect(model.stats().refusals).toMatchObject({ cancelled: 1, closed: 1 })
  expect(model.stats().rejections).toMatchObject({ cancelled: 1, queueFull: 1, timeout: 1, deadline: 1 })
})

it('a thread that dies is counted as what its requests came to, and as a restart', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const model = (await engine.loadFunction('dies', {
    module: fixture('misbehaving.mjs'),
    maxBatchSize: 1,
    inputs: [{ name: 'x', type: 'int32', dims: [] }],
    outputs: [{ name: 'y', type: 'int32', dims: [] }],
  })) as unknown as Model
  const ledger = new Ledger()
  for (const value of [1, -4, 2, -1]) await ledger.note(() => model.infer({ x: Int32Array.of(value) }))
  expect(ledger.seen).toEqual({ answered: 2, ERR_INSTANCE_CRASHED: 1, ERR_EXECUTION: 1 })
  const { found, expected } = expectedOf(model, ledger)
  expect(found).toEqual(expected)
  expect(engine.stats().workers).toMatchObject([{ worker: 'function dies_0', instances: 1, restarts: 2 }]) // it was run again by itself
  expect(model.stats().instances).toMatchObject([
    { name: 'dies_0', worker: 'function dies_0', runs: 5, rows: 2 },
  ])
})

it('leases that have ended, images that are none, and sequences that nobody has begun are refusals of their models', async () => {
  const engine = ownEngine({ cpuWorkers: 1 })
  const model = await engine.load('images', {
    path: small.identity('float32', [3, 4, 4]),
    maxBatchSize: 4,
    inputs: [{ name: 'x', image: {} }],
  })
  const ledger = new Ledger()
  const lease = model.lease(2)
  await ledger.note(() => lease.infer())
  await ledger.note(() => lease.infer())
  const released = model.lease()
  released.release()
  await ledger.note(() => released.infer())
  const wrong = model.lease()
  await ledger.note(() => wrong.infer({ priority: -1 }))
  await ledger.note(() => model.infer({ x: Buffer.from('no image') }))
  await ledger.note(() =>
    model.infer({ x: Buffer.from('no image') }, { signal: AbortSignal.abort('aborted') }),
  )
  expect(ledger.seen).toEqual({
    answered: 1,
    ERR_LEASE_ENDED: 2,
    ERR_INVALID_ARG: 1,
    ERR_IMAGE_DECODE: 1,
    aborted: 1,
  })
  const { found, expected } = expectedOf(model, ledger)
  expect(found).toEqual(expected)

  const sequences = await engine.load('sequences', {
    path: accumulator(),
    maxBatchSize: 4,
    checkRows: false,
    sequence: accumulatorSequence,
  })
  const streamed = new Ledger()
  await streamed.note(() => sequences.infer({ x: one(1) }, { sequenceId: 7 }))
  const stream = sequences.sequence()
  await streamed.note(() => stream.infer({ x: one(1) }))
  await stream.end()
  await streamed.note(() => stream.infer({ x: one(1) }))
  await streamed.note(() => stream.end({ x: one(1) }))
  expect(streamed.seen).toEqual({ answered: 1, ERR_SEQUENCE_ENDED: 3 })
  const ofStreams = expectedOf(sequences, streamed)
  expect(ofStreams.found).toEqual(ofStreams.expected)
})
