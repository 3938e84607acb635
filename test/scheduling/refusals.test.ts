import { describe, expect, it, onTestFinished } from 'vitest'
import {
  type DynamicBatchingConfig,
  type Feeds,
  type InferOptions,
  type Model,
  type ModelConfig,
  Tensor,
} from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { feedsOf, type Sample } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { sample } from '../support/samples.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf, rejectedCount, reported, settledCount } from './outcome.ts'

const engine = sharedEngine()
const row = () => ({ x: new Float32Array(4) })
const rowsOf = (rows: number) => ({ x: new Tensor('float32', new Float32Array(rows * 512), [rows, 512]) })

describe('the statistics count a rejected request under its reason', () => {
  /** Expects so many to be rejected for `reason` and none for another. */
  function expectOnly(model: Model, reason: string, count = 1): void {
    const { rejections, inferenceStats } = model.stats()
    expect(Object.entries(rejections).filter(([, rejected]) => rejected > 0)).toEqual([[reason, count]])
    expect(inferenceStats.fail.count).toBe(count)
  }

  const held = (options: object = {}) =>
    load(engine, small.identity('float32'), { dynamicBatching: { holdUntilQueued: 100, ...options } })

  it('queueFull', async () => {
    const model = await held({ defaultQueuePolicy: { maxQueueSize: 1 } })
    void outcomeOf(model.infer(row(), { timeoutMs: 60_000 }))
    expect(await outcomeOf(model.infer(row()))).toBe('ERR_QUEUE_FULL')
    expectOnly(model, 'queueFull')
  })

  it('timeout', async () => {
    const model = await held()
    expect(await outcomeOf(model.infer(row(), { timeoutMs: 1 }))).toBe('ERR_TIMEOUT')
    expectOnly(model, 'timeout')
  })

  it('deadline', async () => {
    const model = await held()
    expect(await outcomeOf(model.infer(row(), { deadlineMs: 1 }))).toBe('ERR_DEADLINE')
    expectOnly(model, 'deadline')
  })

  it('cancelled', async () => {
    const model = await held()
    const controller = new AbortController()
    const outcome = outcomeOf(model.infer(row(), { signal: controller.signal }))
    controller.abort('withdrawn')
    expect(await outcome).toBe('withdrawn')
    expectOnly(model, 'cancelled')
  })

  it('closed', async () => {
    const own = ownEngine()
    const model = await load(own, small.identity('float32'), { dynamicBatching: { holdUntilQueued: 100 } })
    const outcomes = outcomesOf([model.infer(row()), model.infer(row())])
    await own.destroy()
    expect(await outcomes).toEqual(['ERR_CLOSED', 'ERR_CLOSED'])
    expectOnly(model, 'closed', 2)
  })

  it('execution', async () => {
    const model = await load(engine, small.gatherRow(), { sessionOptions: { logSeverityLevel: 4 } })
    expect(await outcomeOf(model.infer({ index: BigInt64Array.of(99n) }))).toBe('ERR_EXECUTION')
    expectOnly(model, 'execution')
  })

  it('changed', async () => {
    const model = await load(engine, small.identity('float32'), { dynamicBatching: { holdUntilQueued: 2 } })
    const { x } = row()
    const changed = outcomeOf(model.infer({ x }))
    structuredClone(x.buffer, { transfer: [x.buffer] })
    const good = outcomeOf(model.infer(row()))
    expect(await Promise.all([changed, good])).toEqual(['ERR_INVALID_ARG', 'answered'])
    expectOnly(model, 'changed')
  })

  it('nothing, for one that was never accepted', async () => {
    const model = await held()
    expect(await outcomeOf(model.infer({ x: new Float32Array(3) }))).toBe('ERR_INVALID_ARG')
    expect(await outcomeOf(model.infer(row(), { signal: AbortSignal.abort('before') }))).toBe('before')
    expect([settledCount(model), rejectedCount(model)]).toEqual([0, 0])
  })
})

describe('every accepted request is counted once', () => {
  it('though it was aborted while it ran', async () => {
    const model = await load(engine, small.matmulLoop(512, 100), { maxBatchSize: 240 })
    const controllers = Array.from({ length: 6 }, () => new AbortController())
    const outcomes = outcomesOf(controllers.map(({ signal }) => model.infer(rowsOf(40), { signal })))
    expect(model.stats().pendingRequestCount).toBe(0)
    controllers[1]!.abort('first')
    controllers[4]!.abort('second')
    expect(await outcomes).toEqual(['answered', 'first', 'answered', 'answered', 'second', 'answered'])
    const { inferenceStats, rejections, inferenceCount } = model.stats()
    expect([inferenceStats.success.count, inferenceStats.fail.count, rejections.cancelled]).toEqual([4, 2, 2])
    expect([inferenceStats.queue.count, inferenceStats.computeInfer.count, inferenceCount]).toEqual([
      4, 4, 240,
    ])
  })

  it('though it was aborted while its answer was held back for one before it', async () => {
    const own = ownEngine({ cpuWorkers: 2 })
    const model = await load(own, small.matmulLoop(512, 200), {
      maxBatchSize: 256,
      instanceGroup: [{ kind: 'cpu', count: 2 }],
      dynamicBatching: { preserveOrdering: true, preferredBatchSize: 1 },
    })
    const controller = new AbortController()
    const long = outcomeOf(model.infer(rowsOf(256)))
    const held = outcomeOf(model.infer(rowsOf(1), { signal: controller.signal }))
    const next = outcomeOf(model.infer(rowsOf(1)))
    await until(() => model.stats().executionCount > 0)
    controller.abort('withdrawn')
    expect(await held).toBe('withdrawn')
    expect(await Promise.all([long, next])).toEqual(['answered', 'answered'])
    expect(settledCount(model)).toBe(3)
  })

  it('whatever became of it', async () => {
    const model = await load(engine, small.gatherRow(), {
      maxBatchSize: 4,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 20 } },
      sessionOptions: { logSeverityLevel: 4 },
    })
    const outcomes: Promise<unknown>[] = []
    const infer = (index: number, options?: InferOptions) =>
      outcomes.push(outcomeOf(model.infer({ index: BigInt64Array.of(BigInt(index)) }, options)))
    for (let at = 0; at < 400; at++) {
      const controller = new AbortController()
      if (at % 11 === 0) infer(99)
      else if (at % 7 === 0) infer(1, { timeoutMs: 0.01 })
      else if (at % 5 === 0) infer(1, { signal: controller.signal })
      else infer(at % 8)
      if (at % 10 === 0) await new Promise(setImmediate)
      if (at % 3 === 0) controller.abort('withdrawn')
    }
    const settled = await Promise.all(outcomes)
    const { success, fail } = model.stats().inferenceStats
    expect(success.count).toBe(settled.filter((outcome) => outcome === 'answered').length)
    expect([success.count + fail.count, rejectedCount(model)]).toEqual([400, fail.count])
    expect(model.stats().pendingRequestCount).toBe(0)
  })
})

describe('non finite', () => {
  type Guard = NonNullable<ModelConfig['rejectNonFinite']>

  /** Of each floating-point type: values that are finite, up to the ends of its range, and values that are not. */
  const values = {
    float32: {
      finite: Float32Array.of(0, -0, 1.5, -3.4028234663852886e38, 3.4028234663852886e38, 1e-45),
      strange: Float32Array.of(NaN, Infinity, -Infinity),
    },
    float64: {
      finite: Float64Array.of(0, -0, 1.5, -Number.MAX_VALUE, Number.MAX_VALUE, 5e-324),
      strange: Float64Array.of(NaN, Infinity, -Infinity),
    },
    float16: {
      finite: Uint16Array.of(0, 0x8000, 0x3e00, 0xfbff, 0x7bff, 1),
      strange: Uint16Array.of(0x7e00, 0x7c00, 0xfc00),
    },
  }
  const types = ['float32', 'float64', 'float16'] as const

  /** One row of six finite values, one of which is replaced by a strange one. */
  function row(type: (typeof types)[number], strange?: number, at = 0): Sample {
    const data = values[type].finite.slice()
    if (strange !== undefined) data[at] = values[type].strange[strange]!
    return { type, dims: [1, 6], data }
  }

  const open = (
    type: (typeof types)[number],
    rejectNonFinite: Guard,
    config: Omit<ModelConfig, 'path'> = {},
  ) =>
    load(engine, small.identity(type, [6]), {
      rejectNonFinite,
      dynamicBatching: { holdUntilQueued: 3 },
      ...config,
    })

  describe.each(types)("rejectNonFinite: 'inputs' with %s", (type) => {
    it.each([
      [0, 0],
      [1, 5],
      [2, 3],
    ])('refuses a request at once, and it alone', async (strange, at) => {
      const model = await open(type, 'inputs')
      const good = [row(type), row(type), row(type)]
      const answers = good.slice(1).map((x) => model.infer(feedsOf({ x })))
      const error = await rejectionOf(() => model.infer(feedsOf({ x: row(type, strange, at) })))
      expectRefusal(error, {
        argument: `input 'x'[${at}]`,
        expected: /finite/,
        received: values[type].strange[strange],
      })
      expect([model.stats().pendingRequestCount, rejectedCount(model)]).toEqual([2, 0]) // it was never accepted
      answers.push(model.infer(feedsOf({ x: good[0]! })))
      for (const answer of await Promise.all(answers)) expectSame(answer, feedsOf({ y: row(type) }))
    })
  })

  describe.each(types)("rejectNonFinite: 'outputs' with %s", (type) => {
    it.each([
      [0, 5],
      [1, 0],
      [2, 2],
    ])('rejects the request whose own rows have any, and it alone', async (strange, at) => {
      const model = await open(type, 'outputs')
      const before = reported(model, feedsOf({ x: row(type) }))
      const rejected = rejectionOf(() =>
        model.infer(feedsOf({ x: row(type, strange, at) }), { requestId: 'strange' }),
      )
      const after = reported(model, feedsOf({ x: row(type) }))
      expect(await rejected).toMatchObject({
        code: 'ERR_EXECUTION',
        argument: 'y',
        requestId: 'strange',
        message: expect.stringContaining("output 'y' is not finite"),
      })
      for (const { outputs } of [await before, await after]) expectSame(outputs, feedsOf({ y: row(type) }))
      expect([(await before).report, (await after).report]).toMatchObject([
        { batchId: 1, position: 0 },
        { batchId: 1, position: 2 },
      ])
      const { inferenceStats, rejections, executionCount, rerunCount } = model.stats()
      expect([inferenceStats.success.count, inferenceStats.fail.count, rejections.execution]).toEqual([
        2, 1, 1,
      ])
      expect([executionCount, rerunCount]).toEqual([1, 0]) // there is nothing to be found out by running it again
    })
  })

  describe("rejectNonFinite: 'outputs'", () => {
    const floats = (...numbers: number[]) => new Float32Array(16).fill(0).map((_, at) => numbers[at] ?? 0)

    it('looks at the outputs that are wanted, and names the one', async () => {
      const model = await load(engine, small.addSub('float32'), { rejectNonFinite: 'outputs' })
      const feeds = { a: floats(1, 3e38), b: floats(1, -3e38) }
      const [all, sum] = [rejectionOf(() => model.infer(feeds)), model.infer(feeds, { outputs: ['sum'] })]
      expect(await all).toMatchObject({ code: 'ERR_EXECUTION', argument: 'difference' })
      expect((await sum).sum!.data).toEqual(floats(2))
    })

    it('looks at all rows of a request and at large outputs', async () => {
      const model = await load(engine, small.bigRow(50_000), { rejectNonFinite: 'outputs' })
      const data = new Float32Array(150_000)
      const [good, bad] = [data.slice(), data.slice().fill(NaN, 149_999)]
      const answers = [good, bad, good].map((x) => model.infer({ x: new Tensor('float32', x, [3, 50_000]) }))
      expect(await outcomesOf(answers)).toEqual(['answered', 'ERR_EXECUTION', 'answered'])
      expect(await outcomeOf(model.infer({ x: bad.slice(100_000) }))).toBe('ERR_EXECUTION')
    })

    it('rejects in the order of the requests where that is asked for', async () => {
      const model = await load(engine, small.identity('float32'), {
        rejectNonFinite: 'outputs',
        dynamicBatching: { preserveOrdering: true },
      })
      const ends: unknown[] = []
      const calls = [1, NaN, 2, Infinity, 3].map((value) =>
        model.infer({ x: Float32Array.of(value, 0, 0, 0) }),
      )
      await Promise.all(calls.map((call, at) => outcomeOf(call).then((outcome) => ends.push([at, outcome]))))
      expect(ends).toEqual([
        [0, 'answered'],
        [1, 'ERR_EXECUTION'],
        [2, 'answered'],
        [3, 'ERR_EXECUTION'],
        [4, 'answered'],
      ])
      expect(settledCount(model)).toBe(5)
    })

    it('rejects a split request as a whole', async () => {
      const model = await load(ownEngine(), small.identity('float32'), {
        rejectNonFinite: 'outputs',
        splitOversized: true,
        maxBatchSize: 2,
      })
      const data = new Float32Array(40).fill(-Infinity, 20, 21)
      expect(await outcomeOf(model.infer({ x: new Tensor('float32', data, [10, 4]) }))).toBe('ERR_EXECUTION')
      expect(await outcomeOf(model.infer({ x: new Tensor('float32', data.fill(1), [10, 4]) }))).toBe(
        'answered',
      )
    })
  })

  describe('rejectNonFinite', () => {
    it('minds only floating-point types', async () => {
      for (const type of ['int64', 'uint16', 'bool', 'string'] as const) {
        for (const rejectNonFinite of ['inputs', 'outputs'] as const) {
          const model = await load(engine, small.identity(type), { rejectNonFinite })
          const x = sample(type, [4, 4])
          expectSame(await model.infer(feedsOf({ x })), feedsOf({ y: x }))
        }
      }
    })

    it('is off by default', async () => {
      const model = await load(engine, small.identity('float32'))
      expect((await model.infer({ x: Float32Array.of(NaN, 1, Infinity, -Infinity) })).y!.data).toEqual(
        Float32Array.of(NaN, 1, Infinity, -Infinity),
      )
    })

    it.each(['both', true, null, ['inputs']])('of %j is refused', async (rejectNonFinite) => {
      const error = await rejectionOf(() =>
        load(engine, small.identity('float32'), { rejectNonFinite: rejectNonFinite as Guard }),
      )
      expectRefusal(error, {
        code: 'ERR_MODEL_CONFIG',
        argument: 'rejectNonFinite',
        received: rejectNonFinite,
      })
    })
  })
})

describe('ignored options', () => {
  const row: Feeds = { x: new Float32Array(4) }

  interface Warning extends Error {
    readonly code?: string
  }

  /** The warnings of requests with these options to one model, which are all answered. */
  async function warningsOf(
    dynamicBatching: DynamicBatchingConfig | false,
    ...requests: InferOptions[]
  ): Promise<Warning[]> {
    const seen: Warning[] = []
    const note = (warning: Warning) => void seen.push(warning)
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))
    const model = await load(engine, small.identity('float32'), { dynamicBatching })
    for (const options of requests) expect(await outcomeOf(model.infer(row, options))).toBe('answered')
    await new Promise(setImmediate)
    return seen
  }

  const minute = 60_000

  describe('an option that does not count is told of once per model', () => {
    type Case = [
      what: string,
      dynamicBatching: DynamicBatchingConfig | false,
      options: InferOptions,
      code: string,
      message: RegExp,
    ]
    const cases: Case[] = [
      [
        'a priority above the levels',
        { priorityLevels: 2 },
        { priority: 3 },
        'ZEROHOP_PRIORITY_IGNORED',
        /^options\.priority of a request to model '.*' is ignored: expected 0 to 2 \(priorityLevels\), received 3; the request has the default level 2\. Load/,
      ],
      [
        'a priority without levels',
        {},
        { priority: 1 },
        'ZEROHOP_PRIORITY_IGNORED',
        /expected none, because the model has no priorityLevels, received 1\. Load/,
      ],
      [
        'a priority of a model that does not batch',
        false,
        { priority: 1 },
        'ZEROHOP_PRIORITY_IGNORED',
        /no priorityLevels, received 1/,
      ],
      [
        'a timeout where the default may not be overridden',
        { defaultQueuePolicy: { defaultTimeoutMs: minute } },
        { timeoutMs: 5000 },
        'ZEROHOP_TIMEOUT_IGNORED',
        /expected none, because the queue policy has a defaultTimeoutMs, received 5000; the request has the model's 60000 ms\. .*allowTimeoutOverride: true/,
      ],
      [
        'a timeout longer than the default',
        { defaultQueuePolicy: { defaultTimeoutMs: minute, allowTimeoutOverride: true } },
        { timeoutMs: 2 * minute },
        'ZEROHOP_TIMEOUT_IGNORED',
        /expected at most 60000 \(defaultTimeoutMs\), received 120000; .* longer defaultTimeoutMs, or omit/,
      ],
    ]

    it.each(cases)('%s', async (_, dynamicBatching, options, code, message) => {
      const seen = await warningsOf(dynamicBatching, options, options, { ...options, requestId: 'again' })
      expect(seen).toMatchObject([{ name: 'ZerohopWarning', code, message: expect.stringMatching(message) }])
      expect(await warningsOf(dynamicBatching, options)).toHaveLength(1) // of the next model
    })

    it('each kind by itself', async () => {
      const seen = await warningsOf(
        { defaultQueuePolicy: { defaultTimeoutMs: minute } },
        { timeoutMs: 5, priority: 7 },
        { priority: 8 },
      )
      expect(seen.map(({ code }) => code)).toEqual(['ZEROHOP_PRIORITY_IGNORED', 'ZEROHOP_TIMEOUT_IGNORED'])
    })
  })

  describe('an option that counts is not told of', () => {
    it.each<[string, DynamicBatchingConfig, InferOptions]>([
      ['a level', { priorityLevels: 2 }, { priority: 2 }],
      ['level 0, which is the default one', {}, { priority: 0 }],
      ['a timeout without a default', {}, { timeoutMs: minute }],
      [
        'a shorter timeout',
        { defaultQueuePolicy: { defaultTimeoutMs: minute, allowTimeoutOverride: true } },
        { timeoutMs: 5000 },
      ],
      [
        'the default timeout itself',
        { defaultQueuePolicy: { defaultTimeoutMs: minute } },
        { timeoutMs: minute },
      ],
    ])('%s', async (_, dynamicBatching, options) => {
      expect(await warningsOf(dynamicBatching, options)).toEqual([])
    })
  })
})
