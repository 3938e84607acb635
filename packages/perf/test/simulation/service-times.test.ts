import { describe, expect, it } from 'vitest'
import { mulberry32 } from '../../../../src/base/numbers.ts'
import type { Arrival } from '../../../../src/observe/arrival.ts'
import {
  checkPrediction,
  recordedFigures,
  type RecordedRun,
  runningAtOnce,
} from '../../src/simulation/recorded-run.ts'
import {
  capacityRowsPerSecond,
  RecordedDurations,
  seldomSizes,
  ServiceTimes,
  SizeMedians,
  tableMs,
} from '../../src/simulation/service-times.ts'
import { simulate, type SimulationOptions } from '../../src/simulation/simulate.ts'

const table = [
  { rows: 2, ms: 20 },
  { rows: 4, ms: 30 },
  { rows: 8, ms: 70 },
]

describe('service times', () => {
  it('lie on the lines between the sizes of the table, and in proportion above', () => {
    expect([1, 2, 3, 4, 6, 8, 16].map((rows) => tableMs(table, rows))).toEqual([20, 20, 25, 30, 50, 70, 140])
  })

  it('give the capacity with the best size, not with the largest', () => {
    expect(capacityRowsPerSecond(table, 8)).toBeCloseTo(4000 / 30, 9)
    expect(capacityRowsPerSecond(table, 3)).toBeCloseTo(3000 / 25, 9)
  })

  it('differ by the jitter around the same mean', () => {
    const times = new ServiceTimes(table, 0.2, [], 1)
    const drawn = Array.from({ length: 20_000 }, () => times.draw('', 4, 0))
    const mean = drawn.reduce((sum, ms) => sum + ms, 0) / drawn.length
    const deviation = Math.sqrt(drawn.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / drawn.length)
    expect(mean / 30).toBeCloseTo(1, 2)
    expect(deviation / 30).toBeCloseTo(0.2, 1)
  })

  it('follow their steps', () => {
    const times = new ServiceTimes(table, 0, [{ fromMs: 100, factor: 3 }], 1)
    expect([0, 99, 100, 200].map((atMs) => times.draw('', 2, atMs))).toEqual([20, 20, 60, 60])
  })
})

type Runs = readonly (readonly [rows: number, ms: number, count: number])[]

const mediansOf = (runs: Runs) =>
  new SizeMedians(new Map(runs.map(([rows, ms, count]) => [rows, Array.from({ length: count }, () => ms)])))

describe('what runs of a size usually take', () => {
  it('is not decided by one slow run of the largest size', () => {
    const medians = mediansOf([
      [1, 6, 233],
      [2, 9, 34],
      [3, 12, 6],
      [4, 15, 2],
      [5, 36.7, 1],
    ])
    expect([4, 5, 8].map((rows) => medians.of(rows))).toEqual(
      [15, 18, 27].map((ms) => expect.closeTo(ms, 6) as number),
    )
  })

  it('follows above the sizes that ran those that ran often, not those that hardly did', () => {
    const medians = mediansOf([
      [1, 6, 1000],
      [2, 9, 1000],
      [4, 40, 3],
    ])
    expect(medians.of(4)).toBe(40)
    expect((medians.of(8) - 40) / 4).toBeLessThan(4)
  })

  it('is in proportion where one size ran', () => {
    expect(mediansOf([[2, 10, 50]]).of(8)).toBe(40)
  })

  it('is no more than in proportion where of the larger sizes one ran, and once', () => {
    const medians = mediansOf([
      [1, 6, 200],
      [2, 400, 1],
    ])
    expect([2, 8].map((rows) => medians.of(rows))).toEqual([12, 48])
  })

  it('never becomes less with more rows', () => {
    const medians = mediansOf([
      [1, 10, 100],
      [2, 30, 3],
      [3, 12, 50],
      [4, 11, 1],
      [6, 8, 4],
    ])
    const times = Array.from({ length: 12 }, (_, index) => medians.of(index + 1))
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(times[0]).toBe(10)
  })

  it('is taken from single runs where no size ran more often', () => {
    expect(
      [1, 2, 3, 5].map((rows) =>
        mediansOf([
          [1, 10, 1],
          [3, 14, 2],
        ]).of(rows),
      ),
    ).toEqual([10, 12, 14, 18].map((ms) => expect.closeTo(ms, 6) as number))
  })
})

const runs = [
  [1, 20],
  [2, 3],
  [5, 1],
].flatMap(([rows, count]) => Array.from({ length: count! }, () => ({ rows: rows! })))

describe('the sizes of predicted batches', () => {
  it('are counted by whether they ran, and often enough', () => {
    expect(seldomSizes(runs, { batches: { 1: 3, 2: 2, 5: 4, 8: 6 } })).toEqual({
      batches: 15,
      neverRan: 6,
      seldomRan: 4,
      isTrusted: false,
    })
  })

  it('are trusted up to a tenth of the batches', () => {
    expect(seldomSizes(runs, { batches: { 1: 18, 5: 1, 8: 1 } }).isTrusted).toBe(true)
    expect(seldomSizes(runs, { batches: { 1: 17, 5: 1, 8: 1 } }).isTrusted).toBe(false)
  })
})

/** Of every ten requests one is long. A run takes 0.2 ms and 10 us for each unit of its cost. */
const base: SimulationOptions = {
  arrivals: { kind: 'closed', callers: 128 },
  requests: 5000,
  instances: 1,
  maxBatchSize: 32,
  serviceTimes: [1, 20_000].map((cost) => ({ rows: cost, ms: 0.2 + cost / 100 })),
}
const mix = [
  { cost: 37, share: 0.9 },
  { cost: 400, share: 0.1 },
]

describe('requests that cost something', () => {
  it('take what a padded batch of them costs', () => {
    const { costs, p50Ms } = simulate({
      ...base,
      requests: 100,
      arrivals: { kind: 'closed', callers: 1 },
      costs: { mix: [{ cost: 100, share: 1 }] },
    })
    expect(costs).toEqual({ meanBatchCost: 100, largestBatchCost: 100, paddingShare: 0 })
    expect(p50Ms).toBeCloseTo(1.2, 6)
  })

  it('are served faster with those of their length, within the budget', () => {
    const byArrival = simulate({ ...base, costs: { mix, joinBy: 'arrival' } })
    const byCost = simulate({ ...base, costs: { mix, maxBatchCost: 4096 } })
    expect(byArrival.costs!.paddingShare).toBeGreaterThan(0.5)
    expect(byCost.costs!.paddingShare).toBeLessThanOrEqual(0.1)
    expect(byCost.costs!.largestBatchCost).toBeLessThanOrEqual(4096)
    expect(byArrival.costs!.largestBatchCost).toBe(32 * 400)
    expect(byCost.throughputPerSecond).toBeGreaterThan(1.5 * byArrival.throughputPerSecond)
    for (const { requests, answered } of [byArrival, byCost]) expect(answered).toBe(requests)
  })

  it('do not wait longer at 60 % of what can be served in the order of arrival', () => {
    const rate = 0.6 * simulate({ ...base, costs: { mix, joinBy: 'arrival' } }).throughputPerSecond
    const arrivals = { kind: 'poisson', ratePerSecond: rate } as const
    const byArrival = simulate({ ...base, arrivals, costs: { mix, joinBy: 'arrival' } })
    const byCost = simulate({ ...base, arrivals, costs: { mix, maxBatchCost: 4096 } })
    expect(byCost.p99Ms!).toBeLessThanOrEqual(byArrival.p99Ms!)
  })

  it('cost what they do together where nothing is padded', () => {
    const { costs } = simulate({ ...base, costs: { mix, isPadded: false, maxBatchCost: 1000 } })
    expect(costs!.paddingShare).toBe(0)
    expect(costs!.largestBatchCost).toBeLessThanOrEqual(1000)
    expect(costs!.largestBatchCost).toBeGreaterThan(900)
  })

  it('come out the same with the same seed, and change nothing where nothing is said of them', () => {
    const { wallSeconds: _, ...one } = simulate({ ...base, costs: { mix }, seed: 5 })
    const { wallSeconds: __, ...other } = simulate({ ...base, costs: { mix }, seed: 5 })
    expect(one).toEqual(other)
    expect(simulate({ ...base, serviceTimes: [{ rows: 1, ms: 1 }] }).costs).toBeNull()
  })
})

const run = (atMs: number, rows: number, ms: number): RecordedRun => ({
  atMs,
  request: atMs,
  rows,
  ms,
  bucketKey: '',
})

/** What is drawn for so many rows at a moment, on average. */
function meanOf(durations: RecordedDurations, rows: number, atMs: number): number {
  const drawn = Array.from({ length: 2000 }, () => durations.draw('', rows, 0, atMs))
  return drawn.reduce((sum, ms) => sum + ms, 0) / drawn.length
}

describe('recorded run times', () => {
  it('are drawn by size, also for sizes that were not seen', () => {
    const runs = Array.from({ length: 300 }, (_, index) =>
      run(index * 100, index % 2 === 0 ? 1 : 4, index % 2 === 0 ? 10 : 22),
    )
    const durations = new RecordedDurations(runs, 1)
    expect([1, 2, 3, 4, 8].map((rows) => meanOf(durations, rows, 15_000))).toEqual(
      [10, 14, 18, 22, 38].map((ms) => expect.closeTo(ms, 1) as number),
    )
  })

  it('are long when they were long: a slow second stays one, for every size', () => {
    // From 10 s to 20 s all takes three times as long, and batches are larger, as they are then.
    const runs = Array.from({ length: 300 }, (_, index) => {
      const slow = index >= 100 && index < 200
      const rows = slow ? 1 + (index % 4) : 1 + (index % 2)
      return run(index * 100, rows, (slow ? 3 : 1) * (5 + 5 * rows))
    })
    const durations = new RecordedDurations(runs, 1)
    for (const rows of [1, 2, 4]) {
      expect(Math.abs(meanOf(durations, rows, 15_000) / (3 * (5 + 5 * rows)) - 1)).toBeLessThan(0.1)
      expect(Math.abs(meanOf(durations, rows, 5000) / (5 + 5 * rows) - 1)).toBeLessThan(0.1)
    }
  })

  it('have what a recording had again when it is gone through again', () => {
    const runs = Array.from({ length: 100 }, (_, index) => run(index * 1000, 1, index === 50 ? 500 : 10))
    const durations = new RecordedDurations(runs, 1)
    const round = (of: number) =>
      Array.from({ length: 100 }, (_, index) => durations.draw('', 1, 0, of * 99_001 + index * 1000)).reduce(
        (sum, ms) => sum + ms,
        0,
      )
    expect([round(0), round(1), round(2)]).toEqual(
      [1490, 1490, 1490].map((ms) => expect.closeTo(ms, 6) as number),
    )
  })

  it('tell how runs slow each other', () => {
    // Pairs that run at once take 1.3 times as long as the single ones between them.
    const random = mulberry32(7)
    const runs = Array.from({ length: 900 }, (_, index) => {
      const inPair = index % 3 !== 0
      const noise = 1 + 0.1 * (random() - 0.5)
      return run(Math.floor(index / 3) * 100 + (index % 3 === 0 ? 0 : 40), 1, (inPair ? 13 : 10) * noise)
    })
    const durations = new RecordedDurations(runs, 1)
    expect(durations.slowing).toBeCloseTo(0.3, 1)
    expect(meanOf(durations, 1, 10_000) / 10).toBeCloseTo(1, 1)
    expect(durations.slowdown(3)).toEqual([1, 1 + durations.slowing, 1 + 2 * durations.slowing])
  })

  it('of one run are those of that run', () => {
    expect(new RecordedDurations([run(0, 2, 7)], 1).draw('', 2, 0, 1000)).toBe(7)
  })
})

describe('how many run at once', () => {
  it('is counted for as long as each goes on', () => {
    // The second has the first beside it for half of its time, and the third for the other half.
    expect([...runningAtOnce([run(0, 1, 10), run(5, 1, 10), run(10, 1, 20)])]).toEqual([1.5, 2, 1.25])
  })
})

/** Requests of 10 ms each, far apart. */
const arrivals = Array.from({ length: 50 }, (_, index): Arrival => ({
  atUs: index * 50_000,
  rows: 1,
  latencyUs: 10_000,
}))

function checked(ms: number) {
  const predicted = simulate({
    arrivals: { kind: 'recorded', arrivals },
    serviceTimes: [{ rows: 1, ms }],
    instances: 1,
    maxBatchSize: 1,
  })
  return checkPrediction(recordedFigures(arrivals), predicted)!
}

describe('the prediction of a recording', () => {
  it('is trusted within 15 % of the p99 and 5 % of the throughput', () => {
    expect(checked(11)).toEqual({
      p99Off: expect.closeTo(0.1, 6) as number,
      throughputOff: expect.closeTo(0, 2) as number,
      isTrusted: true,
    })
    expect(checked(8)).toMatchObject({ p99Off: expect.closeTo(-0.2, 6) as number, isTrusted: false })
  })

  it('is not where as many as that are not answered in time', () => {
    expect(checked(60)).toMatchObject({ isTrusted: false })
    expect(checked(60).throughputOff).toBeLessThan(-0.05)
  })

  it('is trusted where answers took no time, and are said to take none', () => {
    const cached = arrivals.map((arrival) => ({ ...arrival, latencyUs: 0, shared: true }))
    const predicted = simulate({
      arrivals: { kind: 'recorded', arrivals: cached },
      serviceTimes: [{ rows: 1, ms: 1 }],
      instances: 1,
      maxBatchSize: 1,
    })
    expect(checkPrediction(recordedFigures(cached), predicted)).toMatchObject({ p99Off: 0, isTrusted: true })
  })

  it('is none where nothing was answered', () => {
    expect(
      checkPrediction(
        recordedFigures([{ atUs: 0, rows: 1 }]),
        simulate({
          arrivals: { kind: 'recorded', arrivals },
          serviceTimes: [{ rows: 1, ms: 1 }],
          instances: 1,
          maxBatchSize: 1,
        }),
      ),
    ).toBeNull()
  })
})
