import { describe, expect, it } from 'vitest'
import { Tensor, type BatchReport, type InferOptions, type Model } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { runPlain } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { until } from '../support/until.ts'
import { outcomesOf } from './outcome.ts'

const engine = sharedEngine()
const bad = 99
const sample = (indices: readonly number[]) =>
  ({
    index: { type: 'int64', dims: [indices.length, 1], data: BigInt64Array.from(indices, BigInt) },
  }) as const

/** Requests by their indices into a table of 8 rows; all of them are handed over as one batch, before this returns. */
function lookUp(
  model: Model,
  requests: readonly (readonly number[])[],
  options?: InferOptions<string, boolean>,
): Promise<unknown>[] {
  return requests.map((indices) => {
    const { index } = sample(indices)
    return model.infer({ index: new Tensor('int64', index.data, index.dims) }, options)
  })
}

/** As many requests of one row each as a batch takes, those at `places` with an index that fails the run. */
const singles = (places: readonly number[]) =>
  Array.from({ length: 32 }, (_, at) => [places.includes(at) ? bad : at % 8])

async function expectOnlyBadFail(model: Model, requests: readonly (readonly number[])[]): Promise<void> {
  const outcomes = await Promise.allSettled(lookUp(model, requests))
  for (const [at, outcome] of outcomes.entries()) {
    if (requests[at]!.includes(bad))
      expect(outcome, `request ${at}`).toMatchObject({
        status: 'rejected',
        reason: { code: 'ERR_EXECUTION' },
      })
    else
      expectSame(
        (outcome as PromiseFulfilledResult<never>).value,
        await runPlain(model.metadata.path, sample(requests[at]!)),
      )
  }
  const failed = requests.filter((indices) => indices.includes(bad)).length
  const { inferenceStats, rejections } = model.stats()
  expect([inferenceStats.success.count, inferenceStats.fail.count]).toEqual([
    requests.length - failed,
    failed,
  ])
  expect(rejections.execution).toBe(failed)
}

const open = (maxBatchSize = 32, preserveOrdering = false) =>
  load(engine, small.gatherRow(), {
    maxBatchSize,
    dynamicBatching: { preserveOrdering },
    sessionOptions: { logSeverityLevel: 4 },
  })

describe('a batch whose run fails', () => {
  it.each([0, 13, 31])('is run again by halves, until only the culprit at place %i fails', async (place) => {
    const model = await open()
    await expectOnlyBadFail(model, singles([place]))
    const { rerunCount, batchReasons, executionCount } = model.stats()
    expect(rerunCount).toBeLessThanOrEqual(10)
    expect([batchReasons.full, executionCount]).toEqual([1, 5]) // a half without the culprit each time
  })

  it('rejects with what ONNX Runtime said, and with the request it was', async () => {
    const [, culprit] = lookUp(await open(2), [[1], [bad]], { requestId: 'look-up' })
    await expect(culprit).rejects.toMatchObject({
      requestId: 'look-up',
      message: expect.stringContaining("Request 'look-up' failed in model"),
      cause: { message: expect.stringContaining('99') },
    })
  })

  it.each([[[0, 1, 2]], [[3, 17, 30]], [[0, 15, 31]]])('finds three culprits, at %j', async (places) => {
    const model = await open()
    await expectOnlyBadFail(model, singles(places))
    expect(model.stats().rerunCount).toBeLessThanOrEqual(30)
  })

  it('rejects all of them when all are bad', async () => {
    const model = await open()
    await expectOnlyBadFail(model, singles(Array.from({ length: 32 }, (_, at) => at)))
    expect([model.stats().rerunCount, model.stats().executionCount]).toEqual([62, 0])
  })

  it('keeps the rows of a request together', async () => {
    const model = await open(16)
    await expectOnlyBadFail(model, [[1, 2, 3], [4], [0, bad, 1, 2], [5, 6], [7, 0, 1], [2], [3, 4]])
    expect(model.stats().rerunCount).toBeLessThanOrEqual(6)
  })

  it('says in the report how often each request was run', async () => {
    const model = await open(8)
    const answers = await Promise.allSettled(
      lookUp(model, [[bad], [1], [2], [3], [4], [5], [6], [7]], { report: true }),
    )
    const reports = answers
      .slice(1)
      .map((answer) => (answer as PromiseFulfilledResult<{ report: BatchReport }>).value.report)
    expect(reports).toMatchObject([
      { attempts: 4, batchSize: 1, position: 0 },
      { attempts: 3, batchSize: 2, position: 0 },
      { attempts: 3, batchSize: 2, position: 1 },
      { attempts: 2, batchSize: 4, position: 0 },
      { attempts: 2, batchSize: 4, position: 1 },
      { attempts: 2, batchSize: 4, position: 2 },
      { attempts: 2, batchSize: 4, position: 3 },
    ])
    expect(reports.map(({ reason }) => reason)).toEqual(reports.map(() => 'full'))
  })

  it('leaves out those that were aborted meanwhile', async () => {
    const model = await open(8)
    const controller = new AbortController()
    const aborted = lookUp(model, [[0], [1], [2], [3]], { signal: controller.signal })
    const rest = lookUp(model, [[4], [5], [6], [bad]])
    expect(model.stats().pendingRequestCount).toBe(0) // all of them run
    controller.abort('withdrawn')
    const withdrawn = aborted.map(() => 'withdrawn')
    expect(await outcomesOf([...aborted, ...rest])).toEqual([
      ...withdrawn,
      'answered',
      'answered',
      'answered',
      'ERR_EXECUTION',
    ])
    const { rerunCount, inferenceCount, rejections } = model.stats()
    expect([rerunCount, inferenceCount]).toEqual([4, 3])
    expect(rejections).toMatchObject({ cancelled: 4, execution: 1 })
  })

  it.each([
    [0, 'ERR_INVALID_ARG'],
    [8, 'answered'],
  ])('is run again without a request whose data have %i bytes by then', async (byteLength, outcome) => {
    const model = await open(8)
    const buffer = new ArrayBuffer(8, { maxByteLength: 64 })
    const changed = model.infer({ index: new Tensor('int64', new BigInt64Array(buffer), [1, 1]) })
    const others = lookUp(model, [[1], [2], [3], [4], [5], [6], [bad]])
    expect(model.stats().pendingRequestCount).toBe(0) // all of them are in the slot
    buffer.resize(byteLength)
    const failed = outcomesOf(others.slice(6))
    expect(await outcomesOf([changed])).toEqual([outcome])
    const plain = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((index) => runPlain(model.metadata.path, sample([index]))),
    )
    for (const [at, other] of others.slice(0, 6).entries()) expectSame((await other) as never, plain[at]!)
    expect(await failed).toEqual(['ERR_EXECUTION'])
  })

  it('is answered in the order of its requests with preserveOrdering, the failure in its place', async () => {
    const model = await open(8, true)
    const settled: string[] = []
    const calls = lookUp(model, [[0], [1], [bad], [3], [4], [5], [6], [7], [0], [1]])
    await Promise.all(
      calls.map((call, at) =>
        call.then(
          () => settled.push(`${at}`),
          () => settled.push(`${at} failed`),
        ),
      ),
    )
    expect(settled).toEqual(['0', '1', '2 failed', '3', '4', '5', '6', '7', '8', '9'])
  })
})

it('requests withdrawn before they were run again hold up nothing', async () => {
  const crowded = ownEngine({ cpuWorkers: 1 })
  const quiet = { sessionOptions: { logSeverityLevel: 4 } } as const
  const [failing, slow, light] = await Promise.all([
    load(crowded, small.gatherRow(), { maxBatchSize: 2, ...quiet }),
    load(crowded, small.matmulLoop(512, 400), { dynamicBatching: false }),
    load(crowded, small.identity('float32'), { dynamicBatching: false }),
  ])
  const controller = new AbortController()
  const withdrawn = outcomesOf(lookUp(failing, [[bad], [1]], { signal: controller.signal }))
  // These take the worker's places as soon as the first run has failed.
  const x = new Tensor('float32', new Float32Array(32 * 512), [32, 512])
  const others = Array.from({ length: 4 }, () => [
    slow.infer({ x }),
    light.infer({ x: new Float32Array(4) }),
  ]).flat()
  await until(() => failing.stats().pendingRequestCount > 0)
  controller.abort('withdrawn')
  expect(failing.stats().pendingRequestCount).toBe(0)
  expect(await withdrawn).toEqual(['withdrawn', 'withdrawn'])
  await Promise.all(others)
  await crowded.unload(failing.name)
})
