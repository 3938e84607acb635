import { describe, expect, it } from 'vitest'
import type { DynamicBatchingConfig, InferOptions, Model } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf, reported } from './outcome.ts'

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
    const model = await open({ priorityLevels: 1e6, holdUntilQueued: 3000 })
    const priorities = Array.from({ length: 3000 }, (_, at) => 1 + ((at * 7919) % 3000))
    const order = await served(model, priorities)
    expect(order.map((at) => priorities[at])).toEqual(Array.from({ length: 3000 }, (_, at) => at + 1))
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
    // The others have a minute: whoever is to time out at once has by the time this one has.
    await outcomeOf(model.infer(row, { deadlineMs: 50 }))
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
