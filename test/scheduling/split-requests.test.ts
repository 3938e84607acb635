import { describe, expect, it } from 'vitest'
import { Tensor, type Feeds, type InferOptions, type Model, type ModelConfig } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, rejectedCount, settledCount } from './outcome.ts'

const engine = sharedEngine()
const open = (path: string, config: Omit<ModelConfig, 'path'> = {}) =>
  load(engine, path, {
    maxBatchSize: 4,
    splitOversized: true,
    sessionOptions: { logSeverityLevel: 4 },
    ...config,
  })
const rowsOf = (rows: number, width = 4): Feeds => ({
  x: new Tensor('float32', new Float32Array(rows * width), [rows, width]),
})
/** Looks rows up; the one at `bad` does not exist. */
const lookUp = (rows: number, bad = -1): Feeds => ({
  index: new Tensor(
    'int64',
    BigInt64Array.from({ length: rows }, (_, at) => (at === bad ? 99n : BigInt(at % 8))),
    [rows, 1],
  ),
})
const preload = new URL('../process/fixtures/deadly.mjs', import.meta.url).href

describe('to the statistics a split request', () => {
  it('is one request, with the whole of its time, and its rows are rows', async () => {
    const model = await open(small.matmulSlow(64, 50))
    const startMs = performance.now()
    await model.infer(rowsOf(41, 64))
    const tookMs = performance.now() - startMs
    const { inferenceCount, executionCount, inferenceStats, latency } = model.stats()
    expect([inferenceCount, executionCount]).toEqual([41, 11])
    const { success, queue, computeInfer } = inferenceStats
    expect([success.count, queue.count, computeInfer.count]).toEqual([1, 1, 1])
    expect([latency.total.count, latency.queue.count, latency.compute.count]).toEqual([1, 1, 1])
    expect(success.ns / 1e6).toBeLessThanOrEqual(tookMs)
    // One instance runs the parts one after the other; the first began when its wait was over.
    expect(success.ns).toBeGreaterThan(0.5 * (queue.ns + computeInfer.ns))
    expect(computeInfer.ns).toBeGreaterThan(0)
    expect(latency.total.maxMs * 1e6).toBeCloseTo(success.ns, -3)
  })

  type Case = [
    why: string,
    config: Omit<ModelConfig, 'path'>,
    path: string,
    feeds: Feeds,
    options?: () => InferOptions,
  ]
  const held = { dynamicBatching: { holdUntilQueued: 100 } }
  const infinite = { x: new Tensor('float32', new Float32Array(40).fill(Infinity), [10, 4]) }
  const cases: Case[] = [
    ['execution', {}, small.gatherRow(), lookUp(20, 7)],
    ['execution', { rejectNonFinite: 'outputs' }, small.identity('float32'), infinite],
    ['timeout', held, small.identity('float32'), rowsOf(30), () => ({ timeoutMs: 5 })],
    ['deadline', held, small.identity('float32'), rowsOf(30), () => ({ deadlineMs: 5 })],
    ['cancelled', held, small.identity('float32'), rowsOf(30), () => ({ signal: AbortSignal.timeout(5) })],
  ]

  it.each(cases)(
    'that fails is one, counted by what failed: %s',
    async (why, config, path, feeds, options) => {
      const model = await open(path, config)
      await outcomeOf(model.infer(feeds, options?.()))
      expect([settledCount(model), rejectedCount(model), model.stats().pendingRequestCount]).toEqual([
        1, 1, 0,
      ])
      expect(model.stats().rejections).toMatchObject({ [why]: 1 })
      expect(model.stats().inferenceStats.success.count).toBe(0)
    },
  )

  it('of which two parts are bad has failed once', async () => {
    const model = await open(small.gatherRow())
    const feeds = lookUp(40, 1)
    ;(feeds['index'] as Tensor).data[30] = 99n
    expect(await outcomeOf(model.infer(feeds))).toBe('ERR_EXECUTION')
    await outcomeOf(model.infer(lookUp(4)))
    expect(model.stats().inferenceStats).toMatchObject({ fail: { count: 1 }, success: { count: 1 } })
  })

  it('that is refused is one, and none of its parts has waited', async () => {
    const model = await open(small.identity('float32'), {
      dynamicBatching: { holdUntilQueued: 100, defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const first = outcomeOf(model.infer(rowsOf(1)))
    expect(await outcomeOf(model.infer(rowsOf(30)))).toBe('ERR_QUEUE_FULL')
    expect([
      model.stats().pendingRequestCount,
      model.stats().rejections.queueFull,
      settledCount(model),
    ]).toEqual([1, 1, 1])
    await engine.unload(model.name)
    await first
  })

  it('whose deadline only its last part would miss is refused before any of it waits', async () => {
    const model = await open(small.matmulLoop(512, 400), { maxBatchSize: 1 })
    for (let run = 0; run < 5; run++) await model.infer(rowsOf(1, 512))
    const { estimatedMs } = model.capacity()
    const refused = outcomeOf(model.infer(rowsOf(50, 512), { deadlineMs: 10 * estimatedMs }))
    expect([model.stats().pendingRequestCount, model.stats().rejections.deadline]).toEqual([0, 1])
    expect(await refused).toBe('ERR_DEADLINE')
    expect(model.stats().inferenceCount).toBe(5)
  })

  it('that dies with its worker is one', async () => {
    const own = ownEngine({
      cpuWorkers: 1,
      executor: 'binding',
      workers: { execArgv: ['--import', preload] },
    })
    const model = await load(own, small.identity('float32'), {
      maxBatchSize: 4,
      splitOversized: true,
      warmup: false,
    })
    const deadly = rowsOf(30)
    ;((deadly['x'] as Tensor).data as Float32Array)[0] = -1003
    expect(await outcomeOf(model.infer(deadly))).toBe('ERR_INSTANCE_CRASHED')
    expect([
      settledCount(model),
      model.stats().rejections.crashed,
      model.stats().pendingRequestCount,
    ]).toEqual([1, 1, 0])
    expect(await outcomeOf(model.infer(rowsOf(30)))).toBe('answered')
  })

  it('that waits when the engine is destroyed is one', async () => {
    const own = ownEngine()
    const model = await load(own, small.identity('float32'), {
      maxBatchSize: 4,
      splitOversized: true,
      ...held,
    })
    const outcome = outcomeOf(model.infer(rowsOf(30)))
    await own.destroy()
    expect([await outcome, settledCount(model), model.stats().rejections.closed]).toEqual([
      'ERR_CLOSED',
      1,
      1,
    ])
  })
})

describe('many requests, split or not, good, bad, late or withdrawn', () => {
  it.each([false, true])(
    'each end once, and are each counted once (preserveOrdering: %s)',
    async (preserveOrdering) => {
      const random = mulberry32(19)
      const model = await load(ownEngine({ cpuWorkers: 2 }), small.gatherRow(), {
        maxBatchSize: 4,
        splitOversized: true,
        instanceGroup: [{ kind: 'cpu', count: 2 }],
        sessionOptions: { logSeverityLevel: 4 },
        dynamicBatching: { preserveOrdering, defaultQueuePolicy: { maxQueueSize: 300 } },
      })
      const ends = new Map<unknown, number>()
      const outcomes: Promise<unknown>[] = []
      for (let burst = 0; burst < 20; burst++) {
        for (let at = 0; at < 50; at++) {
          const rows = 1 + Math.floor(random() * (random() < 0.5 ? 4 : 30))
          const controller = new AbortController()
          const late = random() < 0.1 ? { timeoutMs: 0.5 } : {}
          const outcome = outcomeOf(
            model.infer(lookUp(rows, random() < 0.1 ? Math.floor(random() * rows) : -1), {
              signal: controller.signal,
              ...late,
            }),
          )
          outcomes.push(outcome.then((end) => ends.set(end, (ends.get(end) ?? 0) + 1)))
          if (random() < 0.1) setImmediate(() => controller.abort('withdrawn'))
        }
        await new Promise(setImmediate)
      }
      await Promise.all(outcomes)
      expect([...ends.values()].reduce((sum, count) => sum + count)).toBe(1000)
      const { inferenceStats, rejections, latency, pendingRequestCount } = model.stats()
      expect(settledCount(model)).toBe(1000)
      expect(inferenceStats.fail.count).toBe(rejectedCount(model))
      expect([latency.total.count, latency.queue.count, latency.compute.count]).toEqual(
        Array(3).fill(inferenceStats.success.count),
      )
      expect(pendingRequestCount).toBe(0)
      const counted = {
        answered: inferenceStats.success.count,
        ERR_EXECUTION: rejections.execution,
        ERR_TIMEOUT: rejections.timeout,
        withdrawn: rejections.cancelled,
        ERR_QUEUE_FULL: rejections.queueFull,
      }
      expect(Object.fromEntries(ends)).toEqual(
        Object.fromEntries(Object.entries(counted).filter(([, count]) => count > 0)),
      )
      await model.unload()
      expect(model.state).toBe('closed')
    },
  )
})

describe('with preserveOrdering a split request', () => {
  const ordered = (path: string, config: Omit<ModelConfig, 'path'> = {}) =>
    load(ownEngine({ cpuWorkers: 2 }), path, {
      maxBatchSize: 4,
      splitOversized: true,
      instanceGroup: [{ kind: 'cpu', count: 2 }],
      sessionOptions: { logSeverityLevel: 4 },
      dynamicBatching: { preserveOrdering: true },
      ...config,
    })
  /** Sends all at once; how they ended, in the order of their ends. */
  async function ends(
    model: Model,
    requests: readonly [feeds: Feeds, options?: InferOptions][],
  ): Promise<[number, unknown][]> {
    const ended: [number, unknown][] = []
    await Promise.all(
      requests.map(([feeds, options], at) =>
        outcomeOf(model.infer(feeds, options)).then((outcome) => void ended.push([at, outcome])),
      ),
    )
    return ended
  }

  it('is answered at its own place, before later ones', async () => {
    const model = await ordered(small.matmulSlow(64, 50))
    const sizes = Array.from({ length: 200 }, (_, at) => (at % 5 === 0 ? 4 + (at % 37) : 1 + (at % 4)))
    expect(
      await ends(
        model,
        sizes.map((rows) => [rowsOf(rows, 64)]),
      ),
    ).toEqual(sizes.map((_, at) => [at, 'answered']))
    expect(settledCount(model)).toBe(200)
  })

  it('whose part fails is rejected at its own place, and its other parts hold nobody up', async () => {
    const model = await ordered(small.gatherRow())
    const requests = Array.from({ length: 100 }, (_, at): [Feeds] => [
      lookUp(at % 3 === 0 ? 11 : 2, at % 6 === 0 ? 5 : -1),
    ])
    expect(await ends(model, requests)).toEqual(
      requests.map((_, at) => [at, at % 6 === 0 ? 'ERR_EXECUTION' : 'answered']),
    )
    expect(model.stats().rejections).toMatchObject({ execution: 17, cancelled: 0 })
  })

  it('that is withdrawn gives its place up at once', async () => {
    const model = await ordered(small.identity('float32'), {
      dynamicBatching: { preserveOrdering: true, holdUntilQueued: 6 },
    })
    const controller = new AbortController()
    const all = ends(model, [[rowsOf(17), { signal: controller.signal }], [rowsOf(1)]])
    await until(() => model.stats().pendingRequestCount === 6 || model.stats().inferenceCount > 0)
    controller.abort('withdrawn')
    const ended = await all
    expect(ended).toContainEqual([1, 'answered'])
    expect(settledCount(model)).toBe(2)
  })

  it('that waits for its turn with a failure is not counted again when it is withdrawn', async () => {
    const model = await ordered(small.gatherRow())
    const controller = new AbortController()
    const all = ends(model, [[lookUp(400)], [lookUp(11, 5), { signal: controller.signal }]])
    await until(() => model.stats().rejections.execution === 1)
    controller.abort('withdrawn')
    await all
    expect(model.stats().rejections).toMatchObject({ execution: 1, cancelled: 0 })
    expect(settledCount(model)).toBe(2)
  })
})
