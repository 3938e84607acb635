import { describe, expect, it } from 'vitest'
import { admissionMarginMs, estimatedAnswerMs, type Backlog } from '../../src/schedule/answer-estimate.ts'
import { chooseBatchSize, LatencyTarget } from '../../src/schedule/batch-sizer.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import { seen } from './seen.ts'

describe('RunTimes', () => {
  it('knows nothing of a bucket that was not run', () => {
    const runTimes = seen({ 1: 5 })
    expect([runTimes.knows(''), runTimes.knows('other'), runTimes.p99Ms('other', 1)]).toEqual([
      true,
      false,
      0,
    ])
  })

  it('lies between measured sizes, and above the largest grows in proportion', () => {
    const runTimes = seen({ 2: 10, 6: 20 })
    expect([1, 2, 3, 4, 6, 12].map((rows) => runTimes.medianMs('', rows))).toEqual([10, 10, 12.5, 15, 20, 40])
  })

  it('is not led astray by one run, and takes the 99th of a hundred for the spread', () => {
    const runTimes = seen({ 4: 10 }, 99)
    runTimes.observe('', 4, 500)
    expect([runTimes.medianMs('', 4), runTimes.presentMs('', 4), runTimes.p99Ms('', 4)]).toEqual([10, 10, 10])
    runTimes.observe('', 4, 500)
    expect(runTimes.p99Ms('', 4)).toBe(500)
  })

  it('is not led astray by the first runs, which are slow: by few nobody can tell a pace', () => {
    const runTimes = new RunTimes()
    for (const ms of [313, 31, 61, 14]) runTimes.observe('', 1, ms)
    expect([1, 32].map((rows) => runTimes.presentMs('', rows))).toEqual([14, 32 * 14])
    expect(runTimes.p99Ms('', 32)).toBe(32 * 14)
    runTimes.observe('', 2, 480) // the first of its size
    expect([2, 32].map((rows) => runTimes.presentMs('', rows))).toEqual([28, 32 * 14])
    for (const ms of [26, 25, 24, 27]) runTimes.observe('', 2, ms)
    expect(runTimes.presentMs('', 32)).toBe(16 * 26)
  })

  it('takes what came between a short run for no longer between a long one, and the longest of few for none of a hundred', () => {
    const runTimes = seen({ 1: 4, 25: 100 })
    for (const ms of [44, 24, 24]) runTimes.observe('', 1, ms)
    expect(runTimes.p99Ms('', 1)).toBe(24)
    expect(runTimes.p99Ms('', 25)).toBe(100 + (20 / 2) * 10)
  })

  it('takes a slow time for one of all sizes, and forgets it', () => {
    const runTimes = seen({ 1: 10, 8: 40 })
    for (let run = 0; run < 9; run++) runTimes.observe('', 1, 30)
    expect([runTimes.medianMs('', 8), runTimes.presentMs('', 8)]).toEqual([40, 120])
    for (let run = 0; run < 9; run++) runTimes.observe('', 1, 10)
    expect(runTimes.presentMs('', 8)).toBe(40)
  })

  it('remembers a bounded number of buckets', () => {
    const runTimes = new RunTimes()
    for (let bucket = 0; bucket < 1000; bucket++) runTimes.observe(String(bucket), 1, 1)
    expect([runTimes.knows('0'), runTimes.knows('999')]).toEqual([false, true])
  })

  it('remembers the bucket that is run most, however many others are run once', () => {
    const runTimes = new RunTimes()
    for (let other = 0; other < 1000; other++) {
      runTimes.observe('hot', 1, 5)
      runTimes.observe(String(other), 1, 9)
    }
    expect([runTimes.medianMs('hot', 1), runTimes.knows('0')]).toEqual([5, false])
  })
})

describe('estimatedAnswerMs', () => {
  const runTimes = seen({ 1: 10, 4: 20 })
  const estimate = (rows: number, backlog: Partial<Backlog>, of = runTimes) =>
    estimatedAnswerMs(of, '', rows, {
      rowsAhead: 0,
      batchRows: 4,
      joiningRowsPerMs: 0,
      instances: 1,
      freeInMs: 0,
      sharing: 1,
      ...backlog,
    }) - admissionMarginMs

  /** What is kept free of runs that never differed. */
  const reserveMs = (runMs: number, runs: number) => 0.05 * runMs * Math.sqrt(runs)

  it('is the usual run time for an idle instance', () => {
    expect([estimate(1, {}), estimate(4, {})]).toEqual([10, 20])
  })

  it('adds what runs and the full batches ahead, divided among the instances', () => {
    expect(estimate(1, { freeInMs: 7 })).toBeCloseTo(17 + reserveMs(10, 2))
    expect(estimate(1, { freeInMs: 7, rowsAhead: 8 })).toBeCloseTo(7 + 40 + 10 + reserveMs(10, 4))
    expect(estimate(1, { freeInMs: 7, rowsAhead: 8, instances: 2 })).toBeCloseTo(
      7 + 20 + 10 + reserveMs(10, 3),
    )
  })

  it('reckons with those who join its own batch while it waits', () => {
    expect(estimate(1, { freeInMs: 7, joiningRowsPerMs: 1 })).toBeCloseTo(27 + reserveMs(20, 2))
    expect(estimate(1, { freeInMs: 10, joiningRowsPerMs: 0.1 })).toBeCloseTo(
      10 + 10 + 10 / 3 + reserveMs(10 + 10 / 3, 2),
    )
  })

  it('reckons with the turns of others on a shared worker', () => {
    expect(estimate(1, { freeInMs: 1, rowsAhead: 8, sharing: 2 })).toBeCloseTo(
      1 + 80 + 10 + 10 + reserveMs(10, 6),
    )
  })

  it('is 0 when nothing is known', () => {
    expect(estimate(1, {}, new RunTimes())).toBe(-admissionMarginMs)
  })
})

describe('a latency target', () => {
  const sizes = [1, 2, 3, 4, 5, 6, 7, 8]
  const choose = (
    table: Record<number, number>,
    targetMs: number,
    present?: number,
    arrivingRowsPerMs: number | null = null,
  ) =>
    chooseBatchSize(sizes, {
      bucketKey: '',
      runTimes: seen(table),
      targetMs,
      instances: 1,
      arrivingRowsPerMs,
      present,
    })

  it('takes the smallest size where larger ones serve no more rows', () => {
    expect(choose({ 1: 10, 2: 20, 4: 40, 8: 80 }, 1000)).toBe(1)
  })

  it('takes the size that serves most rows where that pays', () => {
    expect(choose({ 1: 10, 8: 17 }, 1000)).toBe(8)
  })

  it('keeps two runs within the target', () => {
    const size = choose({ 1: 10, 8: 24 }, 40)
    expect(size).toBeGreaterThan(1)
    expect(2 * (10 + (size - 1) * 2)).toBeLessThanOrEqual(40)
    expect(2 * (10 + size * 2) + admissionMarginMs).toBeGreaterThan(40)
  })

  it('takes a larger size than that only while so many come that enough are left whom it can serve', () => {
    const table = { 1: 10, 8: 24 } // 40 ms allow 5 rows, in 18 ms; of what comes while 8 run, half can wait for them
    expect(
      [null, 0.1, 0.4, 1].map((arrivingRowsPerMs) => choose(table, 40, undefined, arrivingRowsPerMs)),
    ).toEqual([5, 5, 6, 8])
  })

  it('stays with a size that is good enough', () => {
    expect(choose({ 1: 10, 2: 19.8, 4: 39 }, 1000, 2)).toBe(2)
    expect(choose({ 1: 10, 8: 17 }, 1000, 2)).toBe(8)
  })

  it('chooses among preferred sizes only, and again when runs change', () => {
    const runTimes = seen({ 1: 10, 2: 12, 8: 20 })
    const target = new LatencyTarget(
      { maxBatchSize: 8, preferredBatchSizes: [2, 8], maxQueueDelayMs: 0, joinRequests: true },
      100,
      runTimes,
      1,
    )
    expect(target.limits('').preferredBatchSizes).toEqual([8])
    expect(target.review('', 1)).toBe(false)
    for (let run = 0; run < 50; run++) runTimes.observe('', 8, 90)
    expect(target.review('', 1)).toBe(true)
    expect(target.limits('').preferredBatchSizes).toEqual([2])
    expect(target.limits('never run').preferredBatchSizes).toEqual([2, 8])
  })
})
