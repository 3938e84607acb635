import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from '../queue/waiting-request.ts'
import {
  admissionMarginMs,
  type Backlog,
  estimatedAnswerMs,
  spreadOfSumMs,
} from '../../src/schedule/answer-estimate.ts'
import { candidateSizes, chooseBatchSize, LatencyTarget } from '../../src/schedule/batch-sizer.ts'
import { calibrate, type RunSample } from '../../src/schedule/calibration.ts'
import { Estimator, Recent, RunTimes, SafetyFactor } from '../../src/schedule/estimates.ts'
import type { MailedTensor } from '../../src/tensor/tensor.ts'
import { mulberry32 } from '../models/random.ts'
import { repetitions } from '../support/full.ts'
import { noPolicy } from '../queue/recorder.ts'
import { seen } from './seen.ts'

describe('RunTimes', () => {
  it('knows nothing of a bucket that was not run', () => {
    const runTimes = seen({ 1: 5 })
    expect([runTimes.knows(''), runTimes.knows('other'), runTimes.of('other').p99Ms(1)]).toEqual([
      true,
      false,
      0,
    ])
  })

  it('lies between measured sizes, and above the largest grows in proportion', () => {
    const runTimes = seen({ 2: 10, 6: 20 })
    expect([1, 2, 3, 4, 6, 12].map((rows) => runTimes.of('').usualMs(rows))).toEqual([
      10, 10, 12.5, 15, 20, 40,
    ])
  })

  it('is not led astray by one run, and takes the 99th of a hundred for the spread', () => {
    const runTimes = seen({ 4: 10 }, 99)
    runTimes.observe('', 4, 500)
    expect([runTimes.of('').usualMs(4), runTimes.of('').presentMs(4), runTimes.of('').p99Ms(4)]).toEqual([
      10, 10, 10,
    ])
    runTimes.observe('', 4, 500)
    expect(runTimes.of('').p99Ms(4)).toBe(500)
  })

  it('is not led astray by the first runs, which are slow: by few nobody can tell a pace', () => {
    const runTimes = new RunTimes()
    for (const ms of [313, 31, 61, 14]) runTimes.observe('', 1, ms)
    expect([1, 32].map((rows) => runTimes.of('').presentMs(rows))).toEqual([14, 32 * 14])
    expect(runTimes.of('').p99Ms(32)).toBe(32 * 14)
    runTimes.observe('', 2, 480) // the first of its size
    expect([2, 32].map((rows) => runTimes.of('').presentMs(rows))).toEqual([28, 32 * 14])
    for (const ms of [26, 25, 24, 27]) runTimes.observe('', 2, ms)
    expect(runTimes.of('').presentMs(32)).toBe(16 * 26)
  })

  it('takes what came between a short run for no longer between a long one, and the longest of few for none of a hundred', () => {
    const runTimes = seen({ 1: 4, 25: 100 })
    for (const ms of [44, 24, 24]) runTimes.observe('', 1, ms)
    expect(runTimes.of('').p99Ms(1)).toBe(24)
    expect(runTimes.of('').p99Ms(25)).toBe(100 + (20 / 2) * 10)
  })

  it('takes a slow time for one of all sizes, and forgets it', () => {
    const runTimes = seen({ 1: 10, 8: 40 })
    for (let run = 0; run < 9; run++) runTimes.observe('', 1, 30)
    expect([runTimes.of('').usualMs(8), runTimes.of('').presentMs(8)]).toEqual([40, 120])
    for (let run = 0; run < 9; run++) runTimes.observe('', 1, 10)
    expect(runTimes.of('').presentMs(8)).toBe(40)
  })

  it('takes a pace that lasts for the usual one of all sizes: a faster one after 100 runs, a slower one after 1000', () => {
    const runTimes = seen({ 1: 10, 8: 40 })
    const run = (runs: number, ms: number) => {
      for (let left = runs; left > 0; left--) runTimes.observe('', 1, ms)
      return [1, 8].map((rows) => [runTimes.of('').usualMs(rows), runTimes.of('').presentMs(rows)])
    }
    const all = (...values: number[]) => values.map((value) => expect.closeTo(value, 6) as number)
    expect(run(100, 5)).toEqual([all(10, 5), all(40, 20)])
    expect(run(10, 5)).toEqual([all(5, 5), all(20, 20)])
    expect(run(1000, 15)).toEqual([all(5, 15), all(20, 60)])
    expect(run(10, 15)).toEqual([all(15, 15), all(60, 60)])
  })

  it('knows how far runs spread as well when another pace has become usual', () => {
    const [faster, known] = [seen({ 4: 10 }), seen({ 4: 5 })]
    for (let run = 0; run < 110; run++) {
      const ms = run % 10 === 9 ? 7 : 5
      faster.observe('', 4, ms)
      known.observe('', 4, ms)
    }
    expect(faster.of('').usualMs(4)).toBeCloseTo(known.of('').usualMs(4))
    for (const isProportional of [false, true])
      expect(faster.of('').p99Ms(4, isProportional)).toBeCloseTo(known.of('').p99Ms(4, isProportional), 1)
  })

  it('does not drift, however long runs are faster or slower than those that it saw first', () => {
    for (const seed of [1, 2, 3]) {
      const random = mulberry32(seed)
      const runTimes = new RunTimes()
      for (let run = 0; run < 30_000; run++) {
        const noise = 0.5 + (random() + random() + random()) / 3
        runTimes.observe('', 128, (run < 2000 ? 2 : run < 16_000 ? 1 : 3) * noise)
        if (run % 1000 === 999 && run > 4000 && (run < 16_000 || run > 18_000))
          expect(Math.abs(Math.log(runTimes.of('').usualMs(128) / (run < 16_000 ? 1 : 3)))).toBeLessThan(0.3)
      }
    }
  })

  it('counts slower and faster runs apart: a slow time does not make the faster one after it usual at once', () => {
    const runTimes = seen({ 1: 10 })
    for (let run = 0; run < 500; run++) runTimes.observe('', 1, 20)
    for (let run = 0; run < 90; run++) runTimes.observe('', 1, 5)
    expect(runTimes.of('').usualMs(1)).toBe(10)
    for (let run = 0; run < 20; run++) runTimes.observe('', 1, 5)
    expect(runTimes.of('').usualMs(1)).toBeCloseTo(5, 6)
  })

  it('knows no p99 below what runs take in proportion, or below 0, where the size that was run last is far larger', () => {
    const runTimes = seen({ 1: 0.01, 256: 10 })
    for (let run = 0; run < 1008; run++) runTimes.observe('', 1, 0.03)
    runTimes.observe('', 256, 30)
    for (let run = 0; run < 9; run++) {
      expect(runTimes.of('').p99Ms(1)).toBeGreaterThan(0.009)
      runTimes.observe('', 1, 0.03)
    }
  })

  it('recovers from runs that a coarse clock says took no time', () => {
    const runTimes = seen({ 1: 1 })
    for (const ms of [0, 1]) for (let run = 0; run < 300; run++) runTimes.observe('', 1, ms)
    expect([runTimes.of('').usualMs(1), runTimes.of('').presentMs(1)]).toEqual([1, 1])
  })

  it('says 0 of a bucket that was not run, at any time', () => {
    const times = new RunTimes().of('x')
    expect([times.leastMs(1, 0), times.usualMs(1), times.presentMs(1), times.p99Ms(1)]).toEqual([0, 0, 0, 0])
  })

  it('has a least time that does not grow with a slow pace: else its end would never be noticed', () => {
    const runTimes = seen({ 4: 10 })
    for (let run = 0; run < 9; run++) runTimes.observe('', 4, 30, 1000)
    expect([runTimes.of('').presentMs(4), runTimes.of('').leastMs(4, 1000)]).toEqual([30, 10])
  })

  it('has a least time that falls with the pace', () => {
    const runTimes = seen({ 4: 10 })
    for (let run = 0; run < 9; run++) runTimes.observe('', 4, 5, 1000)
    expect([runTimes.of('').usualMs(4), runTimes.of('').leastMs(4, 1000)]).toEqual([10, 5])
  })

  it('has a least time of 0 after fewer than five runs, or when the last one is long ago', () => {
    const runTimes = new RunTimes()
    const least = (rows: number, nowMs = 0, batchRows = rows) =>
      runTimes.of('').leastMs(rows, nowMs, batchRows)
    runTimes.observe('', 16, 600) // the first, while much else began
    expect([least(16), least(32), least(1)]).toEqual([0, 0, 0])
    for (let run = 0; run < 4; run++) runTimes.observe('', 16, 320, 1000)
    expect([least(16, 1000), least(32, 1000)]).toEqual([320, 640])
    expect([least(1, 1000), least(1, 1000, 8), least(1, 1000, 99)]).toEqual([20, 160, 320])
    expect([least(16, 1000 + 20 * 320), least(16, 1001 + 20 * 320)]).toEqual([320, 0])
    expect(runTimes.of('').usualMs(16)).toBe(320)
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
    expect([runTimes.of('hot').usualMs(1), runTimes.knows('0')]).toEqual([5, false])
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

it('a request is estimated at 0 ms, which says that nobody can tell, when no instance is left', () => {
  const runTimes = new RunTimes()
  for (let run = 0; run < 5; run++) runTimes.observe('', 1, 5)
  const limits = { maxBatchSize: 32, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
  const times = new Estimator(runTimes, { limits, latencyTargetMs: 0, instances: 1, weight: 1 })
  expect(times.estimatedAnswerMs('', 1, 0, [], 0)).toBe(0)
  expect(times.estimatedAnswerMs('', 1, 100, [], 0)).toBe(0)
  expect(
    times.estimatedAnswerMs('', 1, 0, [{ worker: { freeInMs: 0, sharing: () => 1 } }], 0),
  ).toBeGreaterThan(5)
})

describe('where all that is under way fits one batch', () => {
  const limits = { maxBatchSize: 64, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
  const request = { bucketKey: '', deadlineAtMs: null }

  /** Batches of 64, each taken half a millisecond after the one before it; returns after how many ms they have another size. */
  function ran(times: Estimator, requests = [request, request]): number | null {
    for (let run = 0; run < 1100; run++) {
      const startMs = run + 0.5
      if (
        times.observe(
          { requests, rows: 64, timeline: { takenAtMs: startMs, startMs, inferEndMs: run + 1 } },
          0,
          0,
          run + 1,
        )
      )
        return run
    }
    return null
  }

  it('batches are to have half of it', () => {
    const times = new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1 })
    expect([times.sizer?.limits(''), times.divides]).toEqual([limits, false])
    expect(ran(times)).toBeGreaterThan(500) // while code is compiled, what is tried later is faster
    expect([times.sizer?.limits(''), times.divides]).toEqual([{ ...limits, preferredBatchSizes: [32] }, true])
  })

  it('it stays as it is where it is one request', () => {
    expect(
      ran(new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1 }), [request]),
    ).toBeNull()
  })

  it('it stays as it is where its requests have slots', () => {
    expect(
      new Estimator(new RunTimes(), {
        limits,
        latencyTargetMs: 0,
        instances: 1,
        weight: 1,
        isCapped: false,
        isDivisible: false,
      }).sizer,
    ).toBeNull()
  })

  it('batches have the size that a latency target, or a search for the best one, gives them', () => {
    const [targeted, searched] = [
      new Estimator(new RunTimes(), { limits, latencyTargetMs: 1000, instances: 1, weight: 1 }),
      new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1, isCapped: true }),
    ]
    ran(targeted)
    expect(targeted.sizer).toBe(targeted.target)
    expect(ran(searched)).toBeNull()
    expect(searched.sizer).toBe(searched.cap)
  })
})

const level = new PriorityLevel(0, noPolicy)
const nowMs = 1000

/** Requests answered at {@link nowMs} with these deadlines. */
const batch = (...deadlinesMs: readonly (number | null)[]) =>
  deadlinesMs.map((deadlineMs) =>
    Object.assign(new WaitingRequest(1, '', level), { deadlineAtMs: deadlineMs }),
  )

it('the spread of many runs grows with the root of their number, up to one slow run plus the expected time', () => {
  expect(spreadOfSumMs(25, 4, 250)).toBe(20)
  expect(spreadOfSumMs(25, 800, 125)).toBe(925)
})

describe('SafetyFactor', () => {
  it('grows with requests that are late or dropped, and shrinks a little with those in time', () => {
    const caution = new SafetyFactor()
    caution.answered(batch(nowMs, nowMs + 1), nowMs)
    const { factor } = caution
    expect(factor).toBeLessThan(1)
    caution.answered(batch(nowMs - 1, nowMs + 1), nowMs)
    expect(caution.factor / factor - 1).toBeGreaterThan(20 * (1 - factor))
    const before = caution.factor
    caution.dropped()
    caution.answered(batch(nowMs + 1), nowMs)
    expect(caution.factor).toBeGreaterThan(before)
  })

  it('begins carefully for the deadlines that callers give, and trusts estimates once they hold', () => {
    const runTimes = new RunTimes()
    const limits = { maxBatchSize: 8, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
    const estimator = new Estimator(runTimes, { limits, latencyTargetMs: 0, instances: 1, weight: 1 })
    for (let run = 0; run < 20; run++) runTimes.observe('', 8, run % 2 === 0 ? 9 : 11)
    const instances = [{ worker: { freeInMs: 10, sharing: () => 1 } }]
    const estimate = () => estimator.estimatedAnswerMs('', 1, 8, instances, nowMs)
    const atFirstMs = estimate()
    const careful = runTimes.safetyFactor
    for (let run = 0; run < 120; run++) careful.answered(batch(nowMs + 1), nowMs)
    expect(careful.factor).toBeCloseTo(1, 1)
    expect(estimate()).toBeLessThan(atFirstMs - 1)
    careful.beginCarefully()
    careful.answered(batch(nowMs - 1), nowMs) // from here on it learns as usual
    const { factor } = careful
    careful.answered(batch(nowMs + 1), nowMs)
    expect(careful.factor / factor).toBeGreaterThan(0.999)
    const targeted = new RunTimes()
    new Estimator(targeted, { limits, latencyTargetMs: 20, instances: 1, weight: 1 })
    new Estimator(targeted, {
      limits: { ...limits, joinRequests: false },
      latencyTargetMs: 20,
      instances: 1,
      weight: 1,
    })
    expect(targeted.safetyFactor.factor).toBe(1)
  })

  it('at most doubles an estimate at first, where one of few runs was slow', () => {
    const careful = new SafetyFactor()
    careful.beginCarefully()
    expect([careful.reserveMs(10, 100), careful.reserveMs(50, 100)]).toEqual([30, 100])
    expect(careful.reserveMs(400, 100)).toBe(400) // without care as well
    careful.answered(batch(nowMs - 1), nowMs)
    expect(careful.reserveMs(50, 100)).toBeGreaterThan(150) // as it learned from a late answer
  })

  it('learns nothing from requests without a deadline', () => {
    const caution = new SafetyFactor()
    caution.answered(batch(null, null), nowMs)
    expect(caution.factor).toBe(1)
  })

  it('settles where fewer than one of 100 is late', () => {
    const caution = new SafetyFactor()
    const random = mulberry32(1)
    let [late, all] = [0, 0]
    for (let run = 0; run < 100_000; run++) {
      // Late with a chance of 1 in 10 at a factor of 1, 1 in 100 at 2.
      const isLate = random() < 10 ** -caution.factor
      caution.answered(batch(isLate ? nowMs - 1 : nowMs + 1), nowMs)
      if (run < 10_000) continue
      all++
      if (isLate) late++
    }
    expect(late / all).toBeGreaterThan(0.006)
    expect(late / all).toBeLessThan(0.009)
  })

  it('stays within bounds, so that it comes back from a time in which all was late', () => {
    const caution = new SafetyFactor()
    for (let run = 0; run < 1000; run++) caution.answered(batch(0), nowMs)
    expect(caution.factor).toBe(4)
    for (let run = 0; run < 10_000; run++) caution.answered(batch(nowMs + 1), nowMs)
    expect(caution.factor).toBe(0.5)
  })
})

const floats = (row: number): MailedTensor => ({
  type: 'float32',
  dims: [1, row],
  data: new Float32Array(row).buffer,
})

/** The batch sizes that are measured, with runs of `runMs`, and how often each is run. */
async function measured(
  feeds: readonly (MailedTensor | null)[],
  maxBatchSize: number,
  preferred: readonly number[] = [],
  runMs = (_rows: number) => 1,
) {
  const runs = new Map<number, number>()
  const run: RunSample = async (given) => {
    const rows = (given.find((feed) => feed !== null) as MailedTensor).dims[0]!
    runs.set(rows, (runs.get(rows) ?? 0) + 1)
    return { error: null, runMs: runMs(rows) }
  }
  await calibrate(new RunTimes(), { feeds, bucketKey: '' }, maxBatchSize, preferred, 50, run)
  expect(new Set(runs.values())).toEqual(new Set([4]))
  return [...runs.keys()]
}

describe('calibration', () => {
  it('measures powers of two, preferred sizes and the largest', async () => {
    expect(await measured([floats(4)], 12, [3, 6])).toEqual([1, 2, 3, 4, 6, 8, 12])
    expect(await measured([floats(4)], 0)).toEqual([1])
  })

  it('ends with the first size that exceeds the target alone', async () => {
    expect(await measured([floats(4)], 2 ** 31 - 1, [], (rows) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64])
  })

  it.each([
    ['rows of 16 bytes', [floats(4)], 2 ** 17],
    ['rows of no byte', [floats(0)], 2 ** 17],
    ['rows of 600 KB', [null, floats(150_000)], 128],
    ['rows of 140 MB', [{ type: 'uint8', dims: [1, 1.4e8], data: new ArrayBuffer(1.4e8) } as const], 1],
    [
      'rows of many strings',
      [{ type: 'string', dims: [1, 2048], data: Array.from({ length: 2048 }, () => 'a') } as const],
      256,
    ],
  ])(
    'ends where inputs would need much memory, however many rows are allowed: %s',
    async (_, feeds, largest) => {
      expect((await measured(feeds, 2 ** 31 - 1)).at(-1)).toBe(largest)
    },
  )

  it('does not measure each of many preferred sizes', async () => {
    const preferred = Array.from({ length: 1000 }, (_, index) => index + 1)
    expect(await measured([floats(4)], 1000, preferred)).toEqual([
      1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000,
    ])
  })
})

const limits = { preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }

/** Runs that take 1 ms and 0.1 ms per row. */
function known(): RunTimes {
  const runTimes = new RunTimes()
  for (let run = 0; run < 4; run++)
    for (let rows = 1; rows <= 1024; rows *= 2) runTimes.observe('', rows, 1 + rows / 10)
  return runTimes
}

describe('the batch sizes that a latency target chooses from', () => {
  it('are all of them up to 64', () => {
    expect(candidateSizes(1)).toEqual([1])
    expect(candidateSizes(3)).toEqual([1, 2, 3])
    expect(candidateSizes(64)).toEqual(Array.from({ length: 64 }, (_, index) => index + 1))
  })

  it.each([65, 100, 1000, 65_536, 1_000_000, 2 ** 31 - 1])(
    'are close to each other and few up to %i, itself and powers of two among them',
    (most) => {
      const sizes = candidateSizes(most)
      expect(sizes.length).toBeLessThan(500)
      expect(sizes.at(-1)).toBe(most)
      for (let power = 1; power < most; power *= 2) expect(sizes).toContain(power)
      for (const [index, size] of sizes.entries())
        expect(size).toBeLessThanOrEqual(
          Math.max((sizes[index - 1] ?? 0) + 1, 1.0625 * (sizes[index - 1] ?? 0)),
        )
    },
  )
})

describe('a latency target', () => {
  it.each([200_000, 2 ** 31 - 1])(
    'finds the same size with a largest batch of %i rows as with one of 1024',
    (maxBatchSize) => {
      const chosen = (most: number) => {
        const target = new LatencyTarget({ ...limits, maxBatchSize: most }, 50, known(), 1)
        const [first] = target.limits('').preferredBatchSizes
        target.review('', 1)
        return [first, target.limits('').preferredBatchSizes[0]]
      }
      expect(chosen(maxBatchSize)).toEqual(chosen(1024))
      expect(chosen(1024)[0]).toBeGreaterThan(64)
    },
  )

  it('chooses among as many preferred sizes as there are', () => {
    const sizes = Array.from({ length: repetitions(200_000, 20_000) }, (_, index) => index + 1)
    const best = chooseBatchSize(sizes, { bucketKey: '', runTimes: known(), targetMs: 50, instances: 1 })
    expect(best).toBeGreaterThan(64)
    expect(best).toBeLessThan(1024)
  })
})

describe('the last so many values', () => {
  it('have the quantiles of a sorted list, however often they are asked for', () => {
    const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.boolean()), { maxLength: 200 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), steps, (window, values) => {
        const recent = new Recent(window)
        const all: number[] = []
        for (const [value, asks] of values) {
          recent.add(value)
          all.push(value)
          if (!asks) continue
          const last = all.slice(-window).toSorted((a, b) => a - b)
          for (const q of [0, 0.5, 0.99, 1])
            expect(recent.quantile(q)).toBe(last[Math.max(0, Math.ceil(q * last.length) - 1)])
          expect(recent.count).toBe(last.length)
        }
      }),
    )
  })
})
