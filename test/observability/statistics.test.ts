import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InferenceError } from '../../src/errors.ts'
import { Tensor } from '../../src/index.ts'
import { LatencyHistogram, ModelCounts, within } from '../../src/observe/model-counts.ts'
import { refusalOf, rejectionOf } from '../../src/observe/rejections.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  paddingOf,
  serverFigures,
} from '../../src/observe/statistics-difference.ts'
import { InstanceUse } from '../../src/run/model-instance.ts'
import { FakeClock } from '../fake-clock.ts'
import { mulberry32 } from '../models/random.ts'
import * as small from '../models/small.ts'
import { identity } from '../models/small.ts'
import { outcomeOf } from '../scheduling/outcome.ts'
import { load, sharedEngine } from '../support/open.ts'

const times = { inputMs: 1, inferMs: 6, outputMs: 1 }

describe('the statistics of a model', () => {
  it('split a success into overhead, queue and compute, and lose nothing of it', () => {
    const stats = new ModelCounts()
    stats.ran(2, times, false)
    stats.waited([10, 12], 20, 30)
    stats.computed(2, times)
    const { success, overhead, queue, computeInput, computeInfer, computeOutput } =
      stats.snapshot(0).inferenceStats
    expect(success).toEqual({ count: 2, ns: 38e6 })
    expect([queue.ns, computeInput.ns, computeInfer.ns, computeOutput.ns, overhead.ns]).toEqual([
      18e6, 2e6, 12e6, 2e6, 4e6,
    ])
  })

  it('go nowhere back, whatever rounding makes of sums: to Prometheus that would be a start anew', () => {
    const stats = new ModelCounts()
    const random = mulberry32(5)
    let before = stats.snapshot(0).inferenceStats
    const back: string[] = []
    for (let request = 0; request < 5000; request++) {
      const [atMs, waitedMs, ranMs] = [3e8 + 1.37 * request, random(), 5 * random()]
      stats.waited([atMs], atMs + waitedMs, atMs + waitedMs + ranMs) // without overhead, as pipelines are
      stats.computed(1, { inputMs: ranMs / 3, inferMs: ranMs / 3, outputMs: ranMs / 3 })
      const { inferenceStats } = stats.snapshot(0)
      const { success, overhead, queue, computeInput, computeInfer, computeOutput } = inferenceStats
      expect(overhead.ns + queue.ns + computeInput.ns + computeInfer.ns + computeOutput.ns).toBe(success.ns)
      for (const sum of Object.keys(before) as (keyof typeof before)[])
        if (inferenceStats[sum].ns < before[sum].ns) back.push(sum)
      before = inferenceStats
    }
    expect(back).toEqual([])
  })

  it('shorten runs that took place at once to the time that there was', () => {
    expect(within(4, times)).toEqual({ inputMs: 0.5, inferMs: 3, outputMs: 0.5 })
    expect(within(100, times)).toEqual(times)
    expect(within(0, { inputMs: 0, inferMs: 0, outputMs: 0 })).toEqual({
      inputMs: 0,
      inferMs: 0,
      outputMs: 0,
    })
    const stats = new ModelCounts()
    stats.answered(0, 2, times, 6) // of four parts on four instances, say
    const { success, overhead, queue } = stats.snapshot(0).inferenceStats
    expect([success.ns, queue.ns, overhead.ns]).toEqual([6e6, 2e6, 0])
  })

  it('charge one that came while its run went on with no more than what it has seen', () => {
    const stats = new ModelCounts()
    stats.answered(5, 2, times, 6)
    const { success, overhead, queue, computeInfer } = stats.snapshot(0).inferenceStats
    expect([success.ns, queue.ns, computeInfer.ns, overhead.ns]).toEqual([1e6, 0, 0.75e6, 0])
  })

  it('take little memory however many sizes of batches there are: large ones are counted to 1.6 %', () => {
    const stats = new ModelCounts()
    for (const rows of [1, 4096, 4097, 4100, 5000, 1_000_000, 1_000_001, 2 ** 31])
      stats.ran(rows, times, false)
    const { batchStats, inferenceCount } = stats.snapshot(0)
    expect(batchStats.map(({ batchSize, computeInfer: { count } }) => [batchSize, count])).toEqual([
      [1, 1],
      [4096, 1],
      [4160, 2],
      [5056, 1],
      [1_007_616, 2],
      [2 ** 31, 1],
    ])
    expect(inferenceCount).toBe(1 + 4096 + 4097 + 4100 + 5000 + 1_000_000 + 1_000_001 + 2 ** 31)
    for (let rows = 5000; rows < 500_000; rows += 7) stats.ran(rows, times, false)
    expect(stats.snapshot(0).batchStats.length).toBeLessThan(500)
  })

  it('have in two snapshots what came between them', () => {
    const histogram = new LatencyHistogram()
    histogram.record(1, 3)
    const before = histogram.distribution()
    histogram.record(1, 2)
    histogram.record(50)
    const after = histogram.distribution()
    const counts = new Map(before.buckets.map(({ upToMs, count }) => [upToMs, count]))
    const between = after.buckets.map(
      ({ upToMs, count }) => [upToMs, count - (counts.get(upToMs) ?? 0)] as const,
    )
    expect(between.map(([, count]) => count)).toEqual([2, 1])
    for (const [at, ms] of [1, 50].entries()) {
      expect(between[at]![0]).toBeGreaterThan(ms)
      expect(between[at]![0]).toBeLessThan(1.017 * ms)
    }
    expect([after.p95Ms, after.p999Ms].every((ms) => Math.abs(ms - 50) < 0.5)).toBe(true)
  })
})

describe('the use of an instance', () => {
  it('is what its runs took since it began to serve, failed ones included', () => {
    const clock = new FakeClock(100)
    const use = new InstanceUse(clock)
    expect(use.statistics('m_0', 'cpu_0')).toEqual({
      name: 'm_0',
      worker: 'cpu_0',
      runs: 0,
      rows: 0,
      busyMs: 0,
      servingMs: 0,
      busyShare: 0,
    })
    clock.advanceBy(40)
    use.ran(105, 115, 8)
    use.failed(10)
    expect(use.statistics('m_0', 'cpu_0')).toMatchObject({
      runs: 2,
      rows: 8,
      busyMs: 20,
      servingMs: 40,
      busyShare: 0.5,
    })
  })
})

describe('a failure is counted', () => {
  const of = (code: ConstructorParameters<typeof InferenceError>[0]) => new InferenceError(code, 'no')

  it('by the code of its error, else as one of its run', () => {
    expect((['ERR_QUEUE_FULL', 'ERR_TIMEOUT', 'ERR_DEADLINE', 'ERR_CLOSED', 'ERR_INSTANCE_CRASHED', 'ERR_EXECUTION', 'ERR_SEQUENCE_ENDED', 'ERR_INVALID_ARG', 'ERR_MODEL_NOT_READY'] as const).map((code) => rejectionOf(of(code)))).toEqual([
      'queueFull', 'timeout', 'deadline', 'closed', 'crashed', 'execution', 'sequenceEnded', 'invalid', 'notReady',
    ]) // prettier-ignore
    expect([rejectionOf('left'), rejectionOf(undefined), rejectionOf(new Error('left'))]).toEqual([
      'execution',
      'execution',
      'execution',
    ])
  })

  it('before it was accepted, as an abort only where it is the reason of the signal', () => {
    const reason = of('ERR_TIMEOUT')
    const { signal } = { signal: AbortSignal.abort(reason) }
    expect([
      refusalOf(reason, signal),
      refusalOf(of('ERR_TIMEOUT'), signal),
      refusalOf(reason, undefined),
    ]).toEqual(['cancelled', 'timeout', 'timeout'])
    expect([
      refusalOf(of('ERR_IMAGE_DECODE'), undefined),
      refusalOf(of('ERR_LEASE_ENDED'), undefined),
      refusalOf(new RangeError('no'), undefined),
    ]).toEqual(['imageDecode', 'leaseEnded', 'other'])
  })

  it('as any other if a caller has made it with a code of its own', () => {
    const errors = ['ERR_MINE', 'toString'].map((code) => of(code as 'ERR_TIMEOUT'))
    expect(errors.map(rejectionOf)).toEqual(['execution', 'execution'])
    expect(errors.map((error) => refusalOf(error, undefined))).toEqual(['other', 'other'])
  })
})

const of = (...latenciesMs: number[]) => {
  const histogram = new LatencyHistogram()
  for (const ms of latenciesMs) histogram.record(ms)
  return histogram.distribution()
}

describe('a latency histogram', () => {
  it('is all 0 before the first', () => {
    expect(of()).toEqual({
      count: 0,
      p50Ms: 0,
      p90Ms: 0,
      p95Ms: 0,
      p99Ms: 0,
      p999Ms: 0,
      maxMs: 0,
      buckets: [],
    })
  })

  it('has each percentile within 1 % of what was measured, whatever that was', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.001, max: 4e6, noNaN: true }), { minLength: 1, maxLength: 300 }),
        (values) => {
          const sorted = values.toSorted((a, b) => a - b)
          const exact = (share: number) => sorted[Math.ceil(values.length * share) - 1]!
          const { count, p50Ms, p90Ms, p99Ms, maxMs } = of(...values)
          expect([count, maxMs]).toEqual([values.length, sorted.at(-1)])
          for (const [found, share] of [
            [p50Ms, 0.5],
            [p90Ms, 0.9],
            [p99Ms, 0.99],
          ] as const) {
            expect(Math.abs(found - exact(share)) / exact(share)).toBeLessThan(0.01)
          }
        },
      ),
    )
  })

  it('counts a batch of requests at once', () => {
    const histogram = new LatencyHistogram()
    histogram.record(1, 98)
    histogram.record(100, 2)
    expect(histogram.distribution()).toMatchObject({ count: 100, maxMs: 100 })
    expect(histogram.distribution().p90Ms).toBeCloseTo(1, 1)
    expect(histogram.distribution().p99Ms).toBeGreaterThan(99)
  })

  it('takes what no clock should give', () => {
    expect(of(0, -1, 1e-9)).toMatchObject({ count: 3, p50Ms: 1e-9 })
    expect(of(1e12)).toMatchObject({ count: 1, maxMs: 1e12 })
    expect(of(Number.NaN).count).toBe(1)
  })
})

const engine = sharedEngine()

it('stats() have percentiles of how long answered requests waited, computed and took', async () => {
  const delayMs = 20
  const model = await load(engine, small.matmulSlow(256, 50), {
    maxBatchSize: 64,
    dynamicBatching: { maxQueueDelayMs: delayMs },
  })
  const startMs = performance.now()
  const rows = { x: new Tensor('float32', new Float32Array(256), [1, 256]) }
  await Promise.all(Array.from({ length: 10 }, () => model.infer(rows)))
  const tookMs = performance.now() - startMs
  const { queue, compute, total } = model.stats().latency
  for (const each of [queue, compute, total]) {
    expect(each.count).toBe(10)
    expect(each.p50Ms).toBeLessThanOrEqual(each.p90Ms)
    expect(each.p90Ms).toBeLessThanOrEqual(each.p99Ms)
    expect(each.p99Ms).toBeLessThanOrEqual(each.maxMs)
    expect(each.maxMs).toBeLessThanOrEqual(tookMs)
  }
  expect(queue.maxMs).toBeGreaterThan(delayMs - 1) // the oldest, for which the others came too late to wait as long
  expect(compute.p50Ms).toBeGreaterThan(0)
  expect(total.p50Ms).toBeGreaterThan(0.98 * queue.p50Ms)
})

it('requests that were not answered are not among them', async () => {
  const model = await load(engine, small.gatherRow(), { sessionOptions: { logSeverityLevel: 4 } })
  const [bad] = await Promise.all(
    [99n, 1n, 2n].map((index) => outcomeOf(model.infer({ index: BigInt64Array.of(index) }))),
  )
  expect(bad).toBe('ERR_EXECUTION')
  const { queue, compute, total } = model.stats().latency
  expect([queue.count, compute.count, total.count]).toEqual([2, 2, 2])
})

describe('what an engine says of the time between two looks', () => {
  it('is of the requests in between alone, and adds up to what they took', async () => {
    const model = await load(engine, identity('float32'), { dynamicBatching: { holdUntilQueued: 3 } })
    const ask = (count: number) =>
      Promise.all(
        Array.from({ length: count }, () =>
          model.infer({ x: new Tensor('float32', new Float32Array(4), [1, 4]) }),
        ),
      )
    await ask(3)
    const before = model.stats()
    await ask(3)
    await ask(3)
    const span = { before, after: model.stats() }
    expect(serverFigures(span)).toMatchObject({
      inferenceCount: 6,
      executionCount: 2,
      successCount: 6,
      cacheHitCount: 0,
      cacheMissCount: 0,
    })
    expect(batchSizesOf(span)).toEqual([{ batchSize: 3, count: 2 }])
    expect(Object.values(batchReasonsOf(span)).reduce((sum, count) => sum + count, 0)).toBe(2)
  })

  it('is the mean of a request, and what no part of it has is overhead', async () => {
    const before = (await load(engine, identity('float32'))).stats()
    const parts = { success: 1000, queue: 500, computeInput: 20, computeInfer: 300, computeOutput: 80 }
    const inferenceStats = {
      ...before.inferenceStats,
      ...Object.fromEntries(
        Object.entries(parts).map(([name, us]) => [
          name,
          {
            count: before.inferenceStats.success.count + 4,
            ns: before.inferenceStats[name as 'queue'].ns + 4 * us * 1000,
          },
        ]),
      ),
    }
    expect(serverFigures({ before, after: { ...before, inferenceStats } })).toMatchObject({
      successCount: 4,
      requestUs: 1000,
      queueUs: 500,
      computeInputUs: 20,
      computeInferUs: 300,
      computeOutputUs: 80,
      overheadUs: 100,
    })
  })

  it('is all zeros where nothing was asked', async () => {
    const model = await load(engine, identity('float32'))
    const stats = model.stats()
    const span = { before: stats, after: stats }
    expect(new Set(Object.values(serverFigures(span)))).toEqual(new Set([0]))
    expect([batchSizesOf(span), batchReasonsOf(span), paddingOf(span)]).toEqual([[], {}, {}])
  })

  it('has the share of padding in what was run in between', async () => {
    const before = (await load(engine, identity('float32'))).stats()
    const padded = (ownElements: number, paddedElements: number) => ({
      ...before,
      padding: { ownElements, paddedElements, wasteShare: 0 },
    })
    expect(paddingOf({ before: padded(10, 100), after: padded(90, 200) })).toEqual({
      paddingShare: 1 - 80 / 100,
    })
  })
})
