import { describe, expect, it } from 'vitest'
import { InferenceError } from '../../src/errors.ts'
import { InstanceUse } from '../../src/run/model-instance.ts'
import { LatencyHistogram, ModelStats, within } from '../../src/observe/model-stats.ts'
import { refusalOf, rejectionOf } from '../../src/observe/rejections.ts'
import { FakeClock } from '../fake-clock.ts'
import { mulberry32 } from '../models/random.ts'

const times = { inputMs: 1, inferMs: 6, outputMs: 1 }

describe('the statistics of a model', () => {
  it('split a success into overhead, queue and compute, and lose nothing of it', () => {
    const stats = new ModelStats()
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
    const stats = new ModelStats()
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
    const stats = new ModelStats()
    stats.answered(0, 2, times, 6) // of four parts on four instances, say
    const { success, overhead, queue } = stats.snapshot(0).inferenceStats
    expect([success.ns, queue.ns, overhead.ns]).toEqual([6e6, 2e6, 0])
  })

  it('charge one that came while its run went on with no more than what it has seen', () => {
    const stats = new ModelStats()
    stats.answered(5, 2, times, 6)
    const { success, overhead, queue, computeInfer } = stats.snapshot(0).inferenceStats
    expect([success.ns, queue.ns, computeInfer.ns, overhead.ns]).toEqual([1e6, 0, 0.75e6, 0])
  })

  it('take little memory however many sizes of batches there are: large ones are counted to 1.6 %', () => {
    const stats = new ModelStats()
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
})
