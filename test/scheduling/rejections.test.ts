import { describe, expect, it } from 'vitest'
import { Tensor, type InferOptions, type Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf, rejectedCount, settledCount } from './outcome.ts'

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
    const model = await load(engine, small.matmulSlow(512, 400), { maxBatchSize: 240 })
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
    const model = await load(own, small.matmulSlow(512, 400), {
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
