import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import {
  type DynamicBatchingConfig,
  type Feeds,
  type InferenceError,
  type InferOptions,
  type Model,
  type ModelConfig,
  Tensor,
} from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { repetitions } from '../support/full.ts'
import { expectClose } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf, reported, settledCount } from './outcome.ts'

const engine = sharedEngine()
const row = { x: new Float32Array(4) }
const open = (dynamicBatching: DynamicBatchingConfig, maxBatchSize = 1) =>
  load(engine, small.identity('float32'), { maxBatchSize, dynamicBatching })

/** Sends a request for each priority, `undefined` for none, and says which were run first, second ..., by index. */
async function served(
  model: Model,
  priorities: readonly (number | undefined)[],
  each: (at: number) => InferOptions = () => ({}),
): Promise<number[]> {
  const order: [number, number][] = []
  await Promise.all(
    priorities.map(async (priority, at) => {
      const { report } = await reported(model, row, {
        ...each(at),
        ...(priority === undefined ? {} : { priority }),
      })
      order.push([report.batchId, at])
    }),
  )
  return order.sort(([a], [b]) => a - b).map(([, at]) => at)
}

describe('priority levels', () => {
  it('are served one after the other, each first come first served', async () => {
    const model = await open({ priorityLevels: 3, holdUntilQueued: 7 })
    expect(await served(model, [3, 2, 1, 2, 3, 1, 2])).toEqual([2, 5, 1, 3, 6, 0, 4])
  })

  it('share a batch where it has room', async () => {
    const model = await open({ priorityLevels: 2, holdUntilQueued: 5 }, 3)
    const reports = await Promise.all([2, 2, 1, 2, 1].map((priority) => reported(model, row, { priority })))
    expect(reports.map(({ report }) => [report.batchId, report.position])).toEqual([
      [1, 2],
      [2, 0],
      [1, 0],
      [2, 1],
      [1, 1],
    ])
  })

  it('default to the lowest: for no priority, for 0 and for one that there is not', async () => {
    const model = await open({ priorityLevels: 2, holdUntilQueued: 6 })
    expect(await served(model, [undefined, 0, 3, 1, 2, 2 ** 63])).toEqual([3, 0, 1, 2, 4, 5])
  })

  it('have the default that was chosen', async () => {
    const model = await open({ priorityLevels: 3, defaultPriorityLevel: 2, holdUntilQueued: 6 })
    expect(await served(model, [3, undefined, 0, 1, 9, 2])).toEqual([3, 1, 2, 4, 5, 0])
  })

  it('may be as many as 64 bits have', async () => {
    const model = await open({ priorityLevels: 2 ** 64, defaultPriorityLevel: 2 ** 53, holdUntilQueued: 6 })
    expect(await served(model, [2 ** 64, 2 ** 63, undefined, 2 ** 53 - 1, 1, 2 ** 52])).toEqual([
      4, 5, 3, 2, 1, 0,
    ])
  })

  it('may be used in any number', async () => {
    const count = repetitions(3000, 200)
    const model = await open({ priorityLevels: 1e6, holdUntilQueued: count })
    const priorities = Array.from({ length: count }, (_, at) => 1 + ((at * 7919) % count))
    const order = await served(model, priorities)
    expect(order.map((at) => priorities[at])).toEqual(Array.from({ length: count }, (_, at) => at + 1))
    expect(
      await outcomesOf(priorities.map((priority) => model.infer(row, { priority: priority * 7 }))),
    ).toEqual(priorities.map(() => 'answered'))
  })

  it('mean nothing where there are none', async () => {
    expect(await served(await open({ holdUntilQueued: 3 }), [3, 1, 2])).toEqual([0, 1, 2])
    expect(
      await outcomeOf(
        (await load(engine, small.identity('float32'), { dynamicBatching: false })).infer(row, {
          priority: 5,
        }),
      ),
    ).toBe('answered')
  })

  it('are whole numbers', async () => {
    const model = await open({ priorityLevels: 2 })
    for (const priority of [-1, 1.5, NaN, Infinity, '1', null]) {
      expectRefusal(await rejectionOf(() => model.infer(row, { priority: priority as number })), {
        argument: 'options.priority',
        received: priority,
      })
    }
  })
})

describe('maxQueueSize', () => {
  it('counts each level by itself', async () => {
    const model = await open({
      priorityLevels: 3,
      holdUntilQueued: 100,
      defaultQueuePolicy: { maxQueueSize: 2 },
      priorityQueuePolicy: { 1: { maxQueueSize: 1 }, 3: {} },
    })
    const full = async (priority?: number) => {
      const outcome = outcomeOf(model.infer(row, priority === undefined ? {} : { priority }))
      const waiting = model.stats().pendingRequestCount
      return Promise.race([outcome, new Promise((resolve) => setImmediate(resolve, waiting))])
    }
    expect([await full(1), await full(1)]).toEqual([1, 'ERR_QUEUE_FULL'])
    expect([await full(2), await full(2), await full(2)]).toEqual([2, 3, 'ERR_QUEUE_FULL'])
    expect([await full(3), await full(3), await full(), await full()]).toEqual([4, 5, 6, 7]) // the policy of its own has no limit
    expect(model.capacity()).toMatchObject({ waiting: 7, free: Infinity })
  })

  it('has room again as soon as a request has left', async () => {
    const model = await open({ holdUntilQueued: 100, defaultQueuePolicy: { maxQueueSize: 1 } })
    const controller = new AbortController()
    const first = outcomeOf(model.infer(row, { signal: controller.signal }))
    expect(model.capacity().free).toBe(0)
    controller.abort('withdrawn')
    expect([await first, model.capacity().free]).toEqual(['withdrawn', 1])
  })
})

describe('a timeout', () => {
  /** Which of the requests time out while nothing is run. */
  async function timedOut(policy: object, timeouts: readonly (number | undefined)[]): Promise<boolean[]> {
    const model = await open({ holdUntilQueued: 100, defaultQueuePolicy: policy })
    const ended = timeouts.map(() => false)
    for (const [at, timeoutMs] of timeouts.entries()) {
      void outcomeOf(model.infer(row, timeoutMs === undefined ? {} : { timeoutMs })).then(
        (code) => (ended[at] = code === 'ERR_TIMEOUT'),
      )
    }
    // The others have a minute. Timers fire in the order in which they are due: those of 5 ms have before this one.
    await sleep(50)
    return ended
  }
  const long = 60_000

  it("is the request's own where there is no default", async () => {
    expect(await timedOut({}, [5, long, undefined])).toEqual([true, false, false])
  })

  it('is the default, whatever the request wants', async () => {
    expect(await timedOut({ defaultTimeoutMs: 5 }, [undefined, 1, long])).toEqual([true, true, true])
    expect(await timedOut({ defaultTimeoutMs: long }, [undefined, 5])).toEqual([false, false])
  })

  it('may be shortened where that is allowed, and not lengthened', async () => {
    expect(await timedOut({ defaultTimeoutMs: long, allowTimeoutOverride: true }, [undefined, 5])).toEqual([
      false,
      true,
    ])
    expect(await timedOut({ defaultTimeoutMs: 5, allowTimeoutOverride: true }, [undefined, long])).toEqual([
      true,
      true,
    ])
  })

  it('with DELAY sends a request behind the others of its level, and does not reject it', async () => {
    const model = await open({
      holdUntilQueued: 5,
      priorityLevels: 2,
      defaultQueuePolicy: { timeoutAction: 'DELAY' },
    })
    const order = served(model, [1, 1, 2], (at) => (at === 0 ? { timeoutMs: 1 } : {}))
    await outcomeOf(model.infer(row, { deadlineMs: 20, priority: 2 })) // gone when the first has been delayed
    await Promise.all([model.infer(row, { priority: 1 }), model.infer(row, { priority: 2 })])
    expect(await order).toEqual([1, 0, 2])
    await until(() => model.stats().inferenceStats.success.count === 5)
    expect(model.stats().rejections).toMatchObject({ timeout: 0, deadline: 1 })
  })
})

describe('a configuration is refused', () => {
  const cases: [what: string, dynamicBatching: DynamicBatchingConfig, argument: string, expected: RegExp][] =
    [
      [
        'a default level above all',
        { priorityLevels: 2, defaultPriorityLevel: 3 },
        'defaultPriorityLevel',
        /from 1 to 2/,
      ],
      [
        'a default level of 0',
        { priorityLevels: 2, defaultPriorityLevel: 0 },
        'defaultPriorityLevel',
        /from 1 to 2/,
      ],
      [
        'a default level without levels',
        { defaultPriorityLevel: 1 },
        'defaultPriorityLevel',
        /nothing without priorityLevels/,
      ],
      [
        'a policy of a level above all',
        { priorityLevels: 2, priorityQueuePolicy: { 3: {} } },
        'priorityQueuePolicy',
        /from 1 to 2/,
      ],
      [
        'a policy of level 0',
        { priorityLevels: 2, priorityQueuePolicy: { 0: {} } },
        'priorityQueuePolicy',
        /from 1 to 2/,
      ],
      [
        'a policy of a level by name',
        { priorityLevels: 2, priorityQueuePolicy: { high: {} } as never },
        'priorityQueuePolicy',
        /from 1 to 2/,
      ],
      [
        'a policy without levels',
        { priorityQueuePolicy: { 1: {} } },
        'priorityQueuePolicy',
        /nothing without priorityLevels/,
      ],
      [
        'order over two levels',
        { preserveOrdering: true, priorityLevels: 2 },
        'preserveOrdering',
        /at most one priority level/,
      ],
      [
        'order with delays',
        { preserveOrdering: true, defaultQueuePolicy: { timeoutAction: 'DELAY', defaultTimeoutMs: 5 } },
        'preserveOrdering',
        /DELAY/,
      ],
      [
        'order with delays of its level',
        {
          preserveOrdering: true,
          priorityLevels: 1,
          priorityQueuePolicy: { 1: { timeoutAction: 'DELAY', defaultTimeoutMs: 5 } },
        },
        'preserveOrdering',
        /DELAY/,
      ],
    ]

  it.each(cases)('with %s', async (_, dynamicBatching, argument, expected) => {
    const error = await rejectionOf(() => load(engine, small.identity('float32'), { dynamicBatching }))
    expectRefusal(error, { code: 'ERR_MODEL_CONFIG', argument: `dynamicBatching.${argument}`, expected })
  })

  it('but not with one level in order, nor with delays that never come', async () => {
    const model = await open({
      preserveOrdering: true,
      priorityLevels: 1,
      defaultQueuePolicy: { timeoutAction: 'DELAY' },
    })
    expect(await served(model, [1, undefined, 0])).toEqual([0, 1, 2])
  })
})

describe('deadlines', () => {
  const engine = sharedEngine()
  /** Some 1 ms for one row, a hundred for 256. */
  const slow = (config: Omit<ModelConfig, 'path'> = {}) =>
    load(engine, small.matmulLoop(512, 100), {
      maxBatchSize: 1,
      sessionOptions: { intraOpNumThreads: 1 }, // on many cores they would be short
      ...config,
    })
  const infer = (model: Model, options?: InferOptions, rows = 1) =>
    model.infer({ x: new Tensor('float32', new Float32Array(rows * 512), [rows, 512]) }, options)
  const minute = 60_000

  /** Lets the engine see what runs take. */
  async function learn(model: Model): Promise<void> {
    for (let run = 0; run < 5; run++) await infer(model)
  }

  describe('a deadline', () => {
    it('out of reach refuses a request at once, and says when it would have been answered', async () => {
      const model = await slow()
      await learn(model)
      const backlog = outcomesOf(Array.from({ length: 40 }, () => infer(model)))
      const waiting = model.stats().pendingRequestCount
      const refused = infer(model, { deadlineMs: 5, requestId: 'hurried' })
      const within = infer(model, { deadlineMs: minute })
      expect([model.stats().pendingRequestCount, model.stats().rejections.deadline]).toEqual([waiting + 1, 1])
      const error = (await rejectionOf(() => refused)) as InferenceError
      expect(error).toMatchObject({
        code: 'ERR_DEADLINE',
        requestId: 'hurried',
        model: model.name,
        expected: 'an answer within 5 ms',
      })
      expect(error.message).toMatch(
        /^Request 'hurried' would be answered by model '.*' about \d+ ms after its call, and its deadline is 5 ms; allow more time/,
      )
      expect(error.estimatedMs).toBeGreaterThan(5)
      await expect(within).resolves.toHaveProperty('y')
      expect(new Set(await backlog)).toEqual(new Set(['answered']))
    })

    it("is nobody's concern as long as no run has been seen", async () => {
      const model = await slow({ dynamicBatching: { holdUntilQueued: 100 } })
      expect(model.capacity().estimatedMs).toBe(0)
      const outcome = outcomeOf(infer(model, { deadlineMs: 1 }))
      expect(model.stats().pendingRequestCount).toBe(1)
      expect(await outcome).toBe('ERR_DEADLINE') // when it was over
    })

    it('that passes takes a request out of the queue, while the run before it goes on', async () => {
      const model = await slow({ maxBatchSize: 256 })
      const ends: string[] = []
      const long = infer(model, {}, 256).then(() => ends.push('long'))
      const error = await rejectionOf(() =>
        infer(model, { deadlineMs: 10 }).finally(() => ends.push('hurried')),
      )
      expect(error).toMatchObject({ code: 'ERR_DEADLINE', estimatedMs: expect.any(Number) })
      await long
      expect(ends).toEqual(['hurried', 'long'])
      expect([model.stats().inferenceCount, model.stats().rejections.deadline]).toEqual([256, 1])
    })

    it('does not stop a run that has started', async () => {
      const model = await slow({ maxBatchSize: 256 })
      const { report } = await model.infer(
        { x: new Tensor('float32', new Float32Array(256 * 512), [256, 512]) },
        { deadlineMs: 30, report: true },
      )
      expect(report.computeMs).toBeGreaterThan(30)
    })

    it('is more than 0', async () => {
      const model = await slow()
      for (const deadlineMs of [0, -1, NaN, Infinity, 2 ** 31, '5', null]) {
        expectRefusal(await rejectionOf(() => infer(model, { deadlineMs: deadlineMs as number })), {
          argument: 'options.deadlineMs',
          received: deadlineMs,
        })
      }
    })
  })

  describe('latencyTargetMs', () => {
    it('has the model measured while it is loaded, which leaves no trace', async () => {
      const model = await slow({ maxBatchSize: 4, latencyTargetMs: minute })
      expect(model.capacity().estimatedMs).toBeGreaterThan(0)
      const { executionCount, inferenceStats, lastInferenceMs } = model.stats()
      expect([executionCount, inferenceStats.success.count, lastInferenceMs]).toEqual([0, 0, 0])
      await matchesPlain(
        model,
        [1, 3, 2, 4].map((rows) => ({ x: noise([rows, 512]) })),
        { same: expectClose },
      )
    })

    it('measures by the first sample where it is given one, and not without a warm-up', async () => {
      const warmup = [{ feeds: { index: BigInt64Array.of(3n) } }]
      expect(
        (await load(engine, small.gatherRow(), { latencyTargetMs: minute, warmup })).capacity().estimatedMs,
      ).toBeGreaterThan(0)
      expect(
        (await load(engine, small.gatherRow(), { latencyTargetMs: minute })).capacity().estimatedMs,
      ).toBe(0) // an index of 0 might do harm
      expect((await slow({ latencyTargetMs: minute, warmup: false })).capacity().estimatedMs).toBe(0)
    })

    it('refuses what comes too fast, and answers the rest', async () => {
      const { estimatedMs } = (await slow({ maxBatchSize: 4, latencyTargetMs: minute })).capacity()
      const model = await slow({ maxBatchSize: 4, latencyTargetMs: 20 * estimatedMs })
      const outcomes = await outcomesOf(Array.from({ length: 1000 }, () => infer(model)))
      const answered = outcomes.filter((outcome) => outcome === 'answered').length
      expect(new Set(outcomes)).toEqual(new Set(['answered', 'ERR_DEADLINE']))
      expect(answered).toBeLessThan(500)
      expect(model.stats().rejections.deadline).toBe(1000 - answered)
      expect(await outcomeOf(infer(model))).toBe('answered')
    })

    it("gives way to a deadline of the request's own", async () => {
      const model = await slow({ latencyTargetMs: 8 })
      const backlog = outcomesOf(Array.from({ length: 60 }, () => infer(model, { deadlineMs: minute })))
      expect(await outcomeOf(infer(model))).toBe('ERR_DEADLINE')
      expect(await outcomeOf(infer(model, { deadlineMs: minute }))).toBe('answered')
      expect(new Set(await backlog)).toEqual(new Set(['answered']))
    })

    it.each([0, -1, NaN, Infinity, '100', null])('of %s is refused', async (latencyTargetMs) => {
      const error = await rejectionOf(() => slow({ latencyTargetMs: latencyTargetMs as number }))
      expectRefusal(error, {
        code: 'ERR_MODEL_CONFIG',
        argument: 'latencyTargetMs',
        received: latencyTargetMs,
      })
    })
  })

  describe('capacity', () => {
    it('tells how much more the model can take', async () => {
      const model = await slow({
        maxBatchSize: 4,
        dynamicBatching: { preferredBatchSize: 1, defaultQueuePolicy: { maxQueueSize: 10 } },
      })
      expect(model.capacity()).toEqual({
        instances: 1,
        maxBatchSize: 4,
        waiting: 0,
        running: 0,
        free: 10,
        requestsPerSecond: 0,
        estimatedMs: 0,
      })
      await learn(model)
      const quiet = model.capacity()
      const backlog = Array.from({ length: 8 }, () => infer(model))
      expect(model.capacity()).toMatchObject({ waiting: 7, running: 1, free: 3 }) // one runs; what lies behind it waits
      expect(model.capacity().estimatedMs).toBeGreaterThan(quiet.estimatedMs)
      await Promise.all(backlog)
      expect(model.capacity()).toMatchObject({ waiting: 0, running: 0, free: 10 })
      const { requestsPerSecond } = model.capacity()
      expect(requestsPerSecond).toBeGreaterThan(1)
      expect(requestsPerSecond).toBeLessThan(10_000)
    })

    it('cannot be told before the model has been opened', async () => {
      const loading = slow()
      const model = engine.models().at(-1)!
      expect(() => model.capacity()).toThrow(expect.objectContaining({ code: 'ERR_MODEL_NOT_READY' }))
      await loading
      expect(model.capacity().instances).toBe(1)
    })
  })

  it('retryAfterMs of a full queue grows with what waits in it', async () => {
    const priorityQueuePolicy = { 1: { maxQueueSize: 5 }, 2: { maxQueueSize: 50 } }
    const model = await slow({ dynamicBatching: { priorityLevels: 2, priorityQueuePolicy } })
    await learn(model)
    const occupying = outcomesOf([infer(model), infer(model)])
    await until(() => model.stats().pendingRequestCount === 0)
    const [few, many] = (
      [
        [1, 5],
        [2, 50],
      ] as const
    ).map(([priority, count]) => {
      // Two more than can wait: what occupies the worker may be done by now, and the first of these run.
      for (let sent = 0; sent < count + 2; sent++) void outcomeOf(infer(model, { priority }))
      return rejectionOf(() => infer(model, { priority })) as Promise<InferenceError>
    })
    const [short, long] = [await few!, await many!]
    expect([short, long]).toMatchObject([{ code: 'ERR_QUEUE_FULL' }, { code: 'ERR_QUEUE_FULL' }])
    expect(short.retryAfterMs).toBeGreaterThanOrEqual(1)
    expect(long.retryAfterMs! / short.retryAfterMs!).toBeGreaterThan(5)
    expect(await occupying).toEqual(['answered', 'answered'])
  })
})

const rowsOf = (rows: number, width: number): Feeds => ({
  x: new Tensor('float32', new Float32Array(rows * width), [rows, width]),
})

/** A model with an instance on each of two workers. */
const onTwo = (path: string, config: Omit<ModelConfig, 'path'>) =>
  load(ownEngine({ cpuWorkers: 2 }), path, { instanceGroup: [{ kind: 'cpu', count: 2 }], ...config })

/** Sends all requests at once and says in which order they were settled, by index. */
async function settledOrder(model: Model, requests: readonly Feeds[]): Promise<number[]> {
  const order: number[] = []
  await Promise.all(requests.map((feeds, at) => outcomeOf(model.infer(feeds)).then(() => order.push(at))))
  return order
}

const sent = (requests: readonly unknown[]) => requests.map((_, at) => at)

describe('requests over two instances', () => {
  const random = mulberry32(8)
  const uneven = Array.from({ length: repetitions(3000, 300) }, () => rowsOf(random() < 0.1 ? 16 : 1, 64))
  const cases: [what: string, path: string, config: Omit<ModelConfig, 'path'>, requests: Feeds[]][] = [
    ['in batches of any size', small.matmulSlow(64, 50), { maxBatchSize: 16 }, uneven],
    [
      'each a run of its own',
      small.matmulSlow(64, 50),
      { maxBatchSize: 16, dynamicBatching: { preferredBatchSize: 1 } },
      uneven,
    ],
    ['of different shapes, without a batch dimension', small.matmulSlow(64, 50), { maxBatchSize: 0 }, uneven],
  ]

  it.each(cases)(
    'are answered in their order with preserveOrdering: %s',
    async (_, path, config, requests) => {
      const model = await onTwo(path, {
        ...config,
        dynamicBatching: { ...(config.dynamicBatching as object), preserveOrdering: true },
      })
      expect(await settledOrder(model, requests)).toEqual(sent(requests))
      expect(settledCount(model)).toBe(requests.length)
    },
  )

  it.each(cases)('are answered as they are done without it: %s', async (_, path, config, requests) => {
    const order = await settledOrder(await onTwo(path, config), requests)
    expect(order).not.toEqual(sent(requests))
    expect(order.sort((a, b) => a - b)).toEqual(sent(requests))
  })

  it('keep their order when it turns out that they cannot share runs', async () => {
    const model = await onTwo(small.compress('N'), { dynamicBatching: { preserveOrdering: true } })
    const keep = new Tensor('bool', Uint8Array.of(1, 0, 1), [3])
    const requests = Array.from({ length: 40 }, () => ({ ...rowsOf(3, 4), keep }))
    expect(await settledOrder(model, requests)).toEqual(sent(requests))
  })

  it('keep their order when runs fail', async () => {
    const model = await onTwo(small.gatherRow(), {
      maxBatchSize: 8,
      dynamicBatching: { preserveOrdering: true },
      sessionOptions: { logSeverityLevel: 4 },
    })
    const requests = Array.from({ length: 400 }, (_, at) => ({
      index: BigInt64Array.of(at % 13 === 0 ? 99n : BigInt(at % 8)),
    }))
    expect(await settledOrder(model, requests)).toEqual(sent(requests))
    expect(model.stats().rejections.execution).toBe(31)
  })
})

describe('what does not come to a run', () => {
  /** One long run occupies the instance, another waits behind it; what follows waits as well. Notes how everything ends, in that order. */
  async function busy() {
    const model = await load(ownEngine(), small.matmulLoop(512, 200), {
      maxBatchSize: 64,
      dynamicBatching: {
        preserveOrdering: true,
        preferredBatchSize: 32,
        defaultQueuePolicy: { maxQueueSize: 4 },
      },
    })
    const ends: string[] = []
    const infer = (name: string, feeds: Feeds, each?: InferOptions) =>
      outcomeOf(model.infer(feeds, each)).then((outcome) => void ends.push(`${name}: ${String(outcome)}`))
    const long = [infer('first', rowsOf(32, 512)), infer('second', rowsOf(32, 512))]
    await until(() => model.stats().pendingRequestCount === 1)
    return { model, ends, infer, long }
  }

  it('is neither held back nor holds others back', async () => {
    const { ends, infer, long } = await busy()
    const controller = new AbortController()
    const waiting = [
      infer('late', rowsOf(1, 512), { timeoutMs: 1 }),
      infer('withdrawn', rowsOf(1, 512), { signal: controller.signal }),
      infer('good', rowsOf(1, 512)),
      infer('refused', rowsOf(1, 512)),
    ]
    controller.abort('aborted')
    await Promise.all([...waiting, ...long])
    expect(ends).toEqual([
      'refused: ERR_QUEUE_FULL',
      'withdrawn: aborted',
      'late: ERR_TIMEOUT',
      'first: answered',
      'second: answered',
      'good: answered',
    ])
  })

  it('is one that was withdrawn while it ran, too', async () => {
    const { model, ends, infer } = await busy()
    const controller = new AbortController()
    const others = [
      infer('withdrawn', rowsOf(64, 512), { signal: controller.signal }),
      infer('good', rowsOf(1, 512)),
    ]
    await until(() => model.stats().executionCount === 2)
    controller.abort('aborted')
    await Promise.all(others)
    expect(ends).toEqual(['first: answered', 'second: answered', 'withdrawn: aborted', 'good: answered'])
  })
})

it('an engine that is destroyed rejects all that it has, in the order in which it came', async () => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const model = await load(engine, small.matmulLoop(512, 200), {
    maxBatchSize: 8,
    instanceGroup: [{ kind: 'cpu', count: 2 }],
    dynamicBatching: { preserveOrdering: true, preferredBatchSize: 1 },
  })
  const ends: [at: number, outcome: unknown][] = []
  const all = Array.from({ length: 20 }, (_, at) =>
    outcomeOf(model.infer(rowsOf(1 + (at % 8), 512))).then((outcome) => ends.push([at, outcome])),
  )
  expect(model.stats().pendingRequestCount).toBeLessThan(20)
  await engine.destroy()
  await Promise.all(all)
  expect(ends).toEqual(Array.from({ length: 20 }, (_, at) => [at, 'ERR_CLOSED']))
})
