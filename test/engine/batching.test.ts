import { describe, expect, it } from 'vitest'
import { Tensor, type Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { batchSizes, largestBatch } from '../support/against-plain.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'

const engine = sharedEngine()
const quick = () => small.identity('float32')
const row = (value = 0) => ({ x: Float32Array.of(value, value, value, value) })
const infer = (model: Model, count: number) =>
  Array.from({ length: count }, (_, index) => model.infer(row(index)))

/** Runs by batch size, as [rows, runs]. */
const runs = (model: Model) =>
  model.stats().batchStats.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count])

describe('dynamic batching', () => {
  it('joins requests of one turn of the event loop', async () => {
    const model = await load(engine, quick())
    const answers = await Promise.all(infer(model, 20))
    expect(answers.map(({ y }) => y!.data[0])).toEqual(Array.from({ length: 20 }, (_, index) => index))
    expect(runs(model)).toEqual([[20, 1]])
  })

  it('never exceeds maxBatchSize', async () => {
    const model = await load(engine, quick(), { maxBatchSize: 8 })
    await Promise.all(infer(model, 20))
    expect(runs(model)).toEqual([
      [4, 1],
      [8, 2],
    ])
  })

  it('gathers what arrives while the worker is busy', async () => {
    const model = await load(engine, small.matmulLoop(512, 2000))
    const x = new Float32Array(512)
    const first = model.infer({ x })
    await until(() => model.stats().pendingRequestCount === 0)
    await Promise.all([first, ...Array.from({ length: 10 }, () => model.infer({ x }))])
    expect(runs(model)).toEqual([
      [1, 1],
      [10, 1],
    ])
  })

  it('closes at the largest preferred size and leaves the rest for later', async () => {
    const model = await load(engine, quick(), {
      maxBatchSize: 8,
      dynamicBatching: { preferredBatchSize: [2, 4] },
    })
    await Promise.all(infer(model, 7))
    expect(runs(model)).toEqual([
      [1, 1],
      [2, 1],
      [4, 1],
    ])
  })

  it('waits for a preferred size no longer than maxQueueDelayMs', async () => {
    const delayMs = 25
    const model = await load(engine, quick(), {
      dynamicBatching: { preferredBatchSize: 4, maxQueueDelayMs: delayMs },
    })
    await Promise.all(infer(model, 3))
    expect(runs(model)).toEqual([[3, 1]])
    expect(model.stats().inferenceStats.queue.ns / 3e6).toBeGreaterThanOrEqual(delayMs - 1)
  })

  it('does not wait once the preferred size is reached', async () => {
    const model = await load(engine, quick(), {
      dynamicBatching: { preferredBatchSize: 4, maxQueueDelayMs: 30_000 },
    })
    const early = infer(model, 3)
    await until(() => model.stats().pendingRequestCount === 3)
    expect(model.stats().executionCount).toBe(0)
    await Promise.all([...early, ...infer(model, 1)])
    expect(runs(model)).toEqual([[4, 1]])
  })

  it('is off with dynamicBatching: false, though a request may hold several rows', async () => {
    const model = await load(engine, quick(), { dynamicBatching: false })
    const pair = { x: new Tensor('float32', new Float32Array(8), [2, 4]) }
    await Promise.all([...infer(model, 5), model.infer(pair)])
    expect(runs(model)).toEqual([
      [1, 5],
      [2, 1],
    ])
  })

  it('answers in order of arrival', async () => {
    const model = await load(engine, quick(), { maxBatchSize: 3 })
    const order: number[] = []
    await Promise.all(infer(model, 20).map((answer, index) => answer.then(() => order.push(index))))
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index))
    expect(Math.max(...batchSizes(model))).toBe(3)
  })
})

describe('one worker for two models', () => {
  it('does not let a saturated heavy model starve a light one', async () => {
    const crowded = ownEngine({ cpuWorkers: 1 })
    const heavy = await load(crowded, small.matmulLoop(512, 400), { dynamicBatching: false })
    const light = await load(crowded, quick())
    const saturating = Array.from({ length: 400 }, () =>
      heavy.infer({ x: new Float32Array(512) }).catch(() => 'dropped'),
    )
    await until(() => heavy.stats().executionCount > 2)
    const calls = 10
    const before = heavy.stats().executionCount
    for (let call = 0; call < calls; call++) await light.infer(row())
    // Each call finds at most two heavy batches handed over before it, and its worker serves it next.
    expect(heavy.stats().executionCount - before).toBeLessThanOrEqual(3 * calls)
    expect(heavy.stats().pendingRequestCount).toBeGreaterThan(0)
    await crowded.destroy()
    expect(await Promise.all(saturating)).toContain('dropped')
  })

  it('shares it between two busy models', async () => {
    const crowded = ownEngine({ cpuWorkers: 1 })
    const models = await Promise.all(
      [1, 2].map(() => load(crowded, small.matmulSlow(512, 100), { dynamicBatching: false })),
    )
    const x = new Float32Array(512)
    const loads = models.map((model) => Array.from({ length: 60 }, () => model.infer({ x })))
    await Promise.all(loads[0]!)
    // The model whose requests all came first is done first, but not long before the other.
    expect(models[1]!.stats().executionCount).toBeGreaterThan(30)
    await Promise.all(loads[1]!)
  })
})

describe('statistics', () => {
  it('count every response that was delivered, exactly', async () => {
    const model = await load(engine, quick())
    let delivered = 0
    const counted = infer(model, 100).map((answer) =>
      answer.then(() => {
        delivered++
        expect(model.stats().inferenceStats.success.count).toBeGreaterThanOrEqual(delivered)
      }),
    )
    await Promise.all(counted)
    const { inferenceCount, executionCount, inferenceStats, batchStats, pendingRequestCount } = model.stats()
    const { success, queue, computeInput, computeInfer, computeOutput, fail } = inferenceStats
    for (const { count } of [success, queue, computeInput, computeInfer, computeOutput])
      expect(count).toBe(100)
    expect([inferenceCount, fail.count, pendingRequestCount]).toEqual([100, 0, 0])
    expect(batchStats.reduce((sum, { computeInfer }) => sum + computeInfer.count, 0)).toBe(executionCount)
    expect(
      batchStats.reduce((sum, { batchSize, computeInfer }) => sum + batchSize * computeInfer.count, 0),
    ).toBe(100)
    expect(largestBatch(model)).toBe(32)
  })

  it('divide the time of a request into its parts', async () => {
    const model = await load(engine, small.matmulSlow(256, 100), { maxBatchSize: 4 })
    const x = new Float32Array(256)
    await Promise.all(Array.from({ length: 22 }, () => model.infer({ x })))
    const { inferenceStats, batchStats } = model.stats()
    const { success, queue, computeInput, computeInfer, computeOutput } = inferenceStats
    const parts = [queue, computeInput, computeInfer, computeOutput]
    for (const { ns } of parts) expect(ns).toBeGreaterThan(0)
    expect(parts.reduce((sum, { ns }) => sum + ns, 0)).toBeLessThanOrEqual(success.ns * 1.001)
    // Each request is charged the whole of its batch's times, and here each has one row.
    const charged = batchStats.reduce((sum, batch) => sum + batch.batchSize * batch.computeInfer.ns, 0)
    expect(charged / computeInfer.ns).toBeCloseTo(1, 5)
  })

  it('count what was refused or given up as failed', async () => {
    const model = await load(engine, small.gatherRow(), { maxBatchSize: 0 })
    const lookUp = (index: bigint) =>
      model.infer({ index: new Tensor('int64', BigInt64Array.of(index), [1, 1]) })
    await lookUp(1n)
    await expect(lookUp(99n)).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
    const { success, fail } = model.stats().inferenceStats
    expect([success.count, fail.count]).toEqual([1, 1])
  })
})
