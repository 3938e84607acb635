import { describe, expect, it } from 'vitest'
import {
  Tensor,
  type InferenceError,
  type InferOptions,
  type Model,
  type ModelConfig,
} from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { expectClose } from '../support/same.ts'
import { noise } from '../support/samples.ts'
import { until } from '../support/until.ts'
import { outcomeOf, outcomesOf } from './outcome.ts'

const engine = sharedEngine()
/** Some 5 ms for one row, a few hundred for 256. */
const slow = (config: Omit<ModelConfig, 'path'> = {}) =>
  load(engine, small.matmulSlow(512, 400), { maxBatchSize: 1, ...config })
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
    const refused = infer(model, { deadlineMs: 15, requestId: 'hurried' })
    const within = infer(model, { deadlineMs: minute })
    expect([model.stats().pendingRequestCount, model.stats().rejections.deadline]).toEqual([waiting + 1, 1])
    const error = (await rejectionOf(() => refused)) as InferenceError
    expect(error).toMatchObject({
      code: 'ERR_DEADLINE',
      requestId: 'hurried',
      model: model.name,
      expected: 'an answer within 15 ms',
    })
    expect(error.message).toMatch(
      /^Request 'hurried' would be answered by model '.*' about \d+ ms after it was made, its deadline is 15 ms; give it/,
    )
    expect(error.estimatedMs).toBeGreaterThan(15)
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
    expect((await load(engine, small.gatherRow(), { latencyTargetMs: minute })).capacity().estimatedMs).toBe(
      0,
    ) // an index of 0 might do harm
    expect((await slow({ latencyTargetMs: minute, warmup: false })).capacity().estimatedMs).toBe(0)
  })

  it('refuses what comes too fast, and answers the rest', async () => {
    const model = await slow({ maxBatchSize: 4, latencyTargetMs: 100 })
    const outcomes = await outcomesOf(Array.from({ length: 1000 }, () => infer(model)))
    const answered = outcomes.filter((outcome) => outcome === 'answered').length
    expect(new Set(outcomes)).toEqual(new Set(['answered', 'ERR_DEADLINE']))
    expect(answered).toBeLessThan(500)
    expect(model.stats().rejections.deadline).toBe(1000 - answered)
    expect(await outcomeOf(infer(model))).toBe('answered')
  })

  it("gives way to a deadline of the request's own", async () => {
    const model = await slow({ latencyTargetMs: 30 })
    const backlog = outcomesOf(Array.from({ length: 60 }, () => infer(model, { deadlineMs: minute })))
    expect(await outcomeOf(infer(model))).toBe('ERR_DEADLINE')
    expect(await outcomeOf(infer(model, { deadlineMs: minute }))).toBe('answered')
    expect(new Set(await backlog)).toEqual(new Set(['answered']))
  })

  it.each([0, -1, NaN, Infinity, '100', null])('of %s is refused', async (latencyTargetMs) => {
    const error = await rejectionOf(() => slow({ latencyTargetMs: latencyTargetMs as number }))
    expectRefusal(error, { code: 'ERR_MODEL_CONFIG', argument: 'latencyTargetMs', received: latencyTargetMs })
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
