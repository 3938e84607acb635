import { describe, expect, it } from 'vitest'
import { type BatchReport, type Model, type ModelConfig, Tensor } from '../../src/index.ts'
import type { InferRequest } from '../../src/request/infer-request.ts'
import { RequestErrors } from '../../src/schedule/failures.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { outcomeOf, reported } from './outcome.ts'

const engine = sharedEngine()
const rowsOf = (rows: number, width = 4) => ({
  x: new Tensor('float32', new Float32Array(rows * width), [rows, width]),
})
const identity = (dynamicBatching: ModelConfig['dynamicBatching'] = {}, maxBatchSize = 8) =>
  load(engine, small.identity('float32'), { maxBatchSize, dynamicBatching })

/** Sends requests of so many rows at once. */
const send = (model: Model, rows: readonly number[], width = 4): Promise<BatchReport[]> =>
  Promise.all(rows.map(async (count) => (await reported(model, rowsOf(count, width))).report))

describe('the report of a request', () => {
  it('has the place of its rows in the run', async () => {
    const model = await identity()
    const reports = await send(model, [3, 1, 4, 2, 0, 5])
    const { name } = model
    expect(reports).toMatchObject([
      { batchId: 1, batchSize: 8, position: 0 },
      { batchId: 1, batchSize: 8, position: 3 },
      { batchId: 1, batchSize: 8, position: 4 },
      { batchId: 2, batchSize: 7, position: 0 },
      { batchSize: 0, position: 0 },
      { batchId: 2, batchSize: 7, position: 2 },
    ])
    for (const { attempts, paddedTo, instance } of reports)
      expect([attempts, paddedTo, instance]).toEqual([1, null, `${name}_0`])
  })

  it('has how long it waited and how long the run took', async () => {
    const delayMs = 20
    const model = await load(engine, small.matmulSlow(256, 100), {
      dynamicBatching: { maxQueueDelayMs: delayMs },
    })
    const startMs = performance.now()
    const [first, second] = await send(model, [1, 1], 256)
    const tookMs = performance.now() - startMs
    expect(first!.queuedMs).toBeGreaterThanOrEqual(delayMs - 1)
    expect(first!.computeMs).toBeGreaterThan(0)
    expect(first!.queuedMs + first!.computeMs).toBeLessThanOrEqual(tookMs)
    expect([second!.batchId, second!.computeMs]).toEqual([first!.batchId, first!.computeMs])
  })

  it('has the instance that ran it', async () => {
    const own = ownEngine({ cpuWorkers: 2 })
    const model = await load(own, small.matmulSlow(256, 100), {
      dynamicBatching: false,
      instanceGroup: [{ kind: 'cpu', count: 2 }],
    })
    const reports = await send(model, Array(8).fill(8), 256)
    expect(new Set(reports.map(({ instance }) => instance))).toEqual(
      new Set([`${model.name}_0`, `${model.name}_1`]),
    )
    expect(reports.map(({ batchId }) => batchId).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  })

  it('comes through the engine too, and only when it is asked for', async () => {
    const model = await identity()
    const { outputs, report } = await engine.infer(model.name, rowsOf(2), { report: true })
    expect([outputs.y!.dims, report.batchSize]).toEqual([[2, 4], 2])
    expect(Object.keys(await engine.infer(model.name, rowsOf(2)))).toEqual(['y'])
    expect(Object.keys(await model.infer(rowsOf(2), { report: false }))).toEqual(['y'])
    expect(await outcomeOf(model.infer(rowsOf(2), { report: 'yes' as never }))).toBe('ERR_INVALID_ARG')
  })
})

describe('the reason for which a batch was closed', () => {
  const reasons = async (model: Model, rows: readonly number[]) =>
    (await send(model, rows)).map(({ reason }) => reason)

  it('is full when nothing more fits', async () => {
    expect(await reasons(await identity(), [5, 3])).toEqual(['full', 'full'])
    expect(await reasons(await identity(), [5, 4])).toEqual(['full', 'idle'])
    expect(await reasons(await identity(false), [1, 1])).toEqual(['full', 'full'])
    expect(await reasons(await identity({}, 0), [1, 2])).toEqual(['full', 'full'])
  })

  it('is preferred at a preferred size', async () => {
    const model = await identity({ preferredBatchSize: [2, 4] })
    expect(await reasons(model, [1, 3, 1, 1, 1])).toEqual([
      'preferred',
      'preferred',
      'preferred',
      'preferred',
      'idle',
    ])
  })

  it('is idle when nobody has to wait, and bucket when others wait that do not fit', async () => {
    expect(await reasons(await identity(), [1, 2])).toEqual(['idle', 'idle'])
    const model = await load(engine, small.identityVariable('float32'))
    const answers = await Promise.all([3, 5, 3].map((width) => reported(model, rowsOf(1, width))))
    expect(answers.map(({ report }) => report.reason)).toEqual(['bucket', 'idle', 'bucket'])
  })

  it('is delay when the oldest has waited long enough', async () => {
    expect(await reasons(await identity({ preferredBatchSize: 4, maxQueueDelayMs: 5 }), [1, 2])).toEqual([
      'delay',
      'delay',
    ])
  })

  it('is drain when the model is closing', async () => {
    const own = ownEngine()
    const model = await load(own, small.identity('float32'), {
      dynamicBatching: { maxQueueDelayMs: 600_000 },
    })
    const waiting = reasons(model, [1, 2])
    await until(() => model.stats().pendingRequestCount === 2)
    await own.close()
    expect(await waiting).toEqual(['drain', 'drain'])
  })

  it('is deadline when one more request would make another late', { retry: 2 }, async () => {
    const model = await load(engine, small.matmulSlow(512, 100), { maxBatchSize: 512 })
    const { report } = await reported(model, rowsOf(128, 512)) // twice as many rows are reckoned to take twice as long
    const hurried = reported(model, rowsOf(128, 512), { deadlineMs: 1.5 * report.computeMs + 4 })
    const patient = reported(model, rowsOf(128, 512))
    expect([(await hurried).report.reason, (await patient).report.reason]).toEqual(['deadline', 'idle'])
  })

  it('is counted by the statistics, once for each run', async () => {
    const model = await identity({ preferredBatchSize: [2] })
    const reports = await send(
      model,
      Array.from({ length: 101 }, (_, at) => (at % 7) + 1),
    )
    const runs = new Map(reports.map(({ batchId, reason }) => [batchId, reason]))
    const counted = Object.entries(model.stats().batchReasons).filter(([, count]) => count > 0)
    for (const [reason, count] of counted)
      expect([...runs.values()].filter((own) => own === reason)).toHaveLength(count)
    expect(counted.reduce((sum, [, count]) => sum + count, 0)).toBe(model.stats().executionCount)
    expect(model.stats().executionCount).toBe(runs.size)
    expect(model.stats().rerunCount).toBe(0)
  })
})

const request = { enqueuedAtMs: 10, timeoutAtMs: 60, requestId: undefined } as InferRequest
const once = new RequestErrors('m', false)
const twice = new RequestErrors('m', true)

it.each([
  [
    'that timed out',
    once.timedOut(request),
    'ERR_TIMEOUT',
    "The request waited in the queue of model 'm' longer than its 50 ms; raise timeoutMs (or defaultTimeoutMs of its level), lower maxQueueDelayMs, or send fewer requests at once.",
  ],
  [
    'whose worker died',
    once.crashed(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; send it again, or load the model with rerunAfterCrash: true.",
  ],
  [
    'whose worker died twice',
    twice.crashed(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; it was run again alone, and seems to be the cause.",
  ],
  [
    'whose model was given up',
    once.givenUp(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; load the model again.",
  ],
])('a request %s is told what to do next', (_, error, code, message) => {
  expect(error).toMatchObject({ code, message })
})

it('a warm-up sample that does not fit the model is named', async () => {
  const warmup = [{ feeds: { x: new Float32Array(4) } }, { feeds: { x: new Float32Array(3) } }]
  const error = await rejectionOf(() => ownEngine().load('m', { path: small.identity('float32'), warmup }))
  const message =
    "warmup[1].feeds: input 'x' of model 'm': expected 4 elements for one row of shape [N, 4], received 3 (number)"
  expect(error).toMatchObject({
    code: 'ERR_MODEL_CONFIG',
    argument: 'warmup[1].feeds',
    model: 'm',
    message,
    cause: { code: 'ERR_INVALID_ARG' },
  })
})
