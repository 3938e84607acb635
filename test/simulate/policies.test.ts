import { describe, expect, it } from 'vitest'
import { type PolicyName, policyNames, type Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { atLoad, capacity, linear, subLinear } from './tables.ts'
import { repetitions } from '../support/full.ts'

/** Requests of one row at these times; one instance, and runs of 100 ms whatever their size. */
function batchesOf(policy: PolicyName, timesMs: readonly number[], changes: Partial<Scenario> = {}) {
  const arrivals = { kind: 'trace', trace: timesMs.map((atMs) => ({ atMs })) } as const
  const flat = {
    service: [
      { rows: 1, ms: 100 },
      { rows: 8, ms: 100 },
    ],
    maxBatchSize: 8,
    maxQueueDelayMs: 0,
  }
  return simulate({ ...flat, arrivals, policy, ...changes })
}

const steady = (count: number, everyMs: number) =>
  Array.from({ length: count }, (_, index) => index * everyMs)

describe('the fixed window', () => {
  it('seals a batch when its time is up although the instance is busy', () => {
    expect(batchesOf('window', steady(20, 10), { maxQueueDelayMs: 25 }).batches).toEqual({ 2: 1, 3: 6 })
  })

  it('seals a full one at once', () => {
    expect(batchesOf('window', [0, 1, 2, 3], { maxBatchSize: 2, maxQueueDelayMs: 1000 })).toMatchObject({
      batches: { 2: 2 },
      maxMs: 199,
    })
  })
})

describe("Triton's batcher", () => {
  const overload = { maxBatchSize: 8, preferredBatchSizes: [4], maxQueueDelayMs: 60_000 }

  it('runs one more than the largest preferred size under overload, where zerohop never does', () => {
    const times = steady(400, 1)
    const triton = batchesOf('triton', times, overload).batches
    expect(triton[5]! / Object.values(triton).reduce((sum, runs) => sum + runs, 0)).toBeGreaterThan(0.9)
    expect(batchesOf('zerohop', times, overload).batches).toEqual({ 4: 100 })
  })

  it('runs none of those when the largest preferred size is that of the model', () => {
    const { batches } = batchesOf('triton', steady(400, 1), { ...overload, preferredBatchSizes: [8] })
    expect(batches).toEqual({ 8: 50 })
  })

  it('takes what waits when the delay is 0, up to the largest size', () => {
    // Two payloads at most are formed ahead of the instance, and only the last of them grows.
    const { batches, answered } = batchesOf('triton', steady(40, 10))
    expect(answered).toBe(40)
    expect(batches[8]).toBeGreaterThan(0)
  })

  it('lets an instance that is idle wait for the delay, and no longer', () => {
    expect(batchesOf('triton', [0, 10, 20], { maxQueueDelayMs: 30 })).toMatchObject({
      batches: { 3: 1 },
      maxMs: 130,
    })
  })
})

describe('the batcher of zerohop', () => {
  it('lets a batch grow until the instance is free', () => {
    // A run starts every 100 ms, by when 10 more have come; 8 of them fit.
    const { batches } = batchesOf('zerohop', steady(30, 20))
    expect(batches).toEqual({ 1: 1, 4: 1, 5: 5 })
  })

  it('hands one full batch ahead and no partial one', () => {
    // Prefetched at 8 ms, the full batch does not get the ninth request, which leads the next one.
    expect(batchesOf('zerohop', [0, ...steady(9, 1).map((ms) => ms + 1)]).batches).toEqual({ 1: 2, 8: 1 })
  })

  it('never exceeds the largest size, with requests of several rows', () => {
    const rows = [
      { rows: 3, share: 1 },
      { rows: 5, share: 1 },
    ]
    const { batches } = simulate({
      ...linear,
      rows,
      policy: 'zerohop',
      arrivals: { kind: 'poisson', ratePerSecond: 100 },
      requests: 5000,
    })
    expect(Math.max(...Object.keys(batches).map(Number))).toBe(8)
  })

  it('has better latencies than a fixed window and no worse ones than Triton under load', () => {
    const scenario = {
      ...linear,
      arrivals: { kind: 'poisson', ratePerSecond: 33 },
      requests: repetitions(50_000, 15_000),
      maxQueueDelayMs: 10,
    } as const
    const p99 = (policy: PolicyName) => simulate({ ...scenario, policy }).p99Ms!
    expect(p99('zerohop')).toBeLessThan(0.8 * p99('window'))
    expect(p99('zerohop')).toBeLessThan(1.02 * p99('triton'))
  })
})

describe('models that share instances', () => {
  it('share no batches', () => {
    const atOnce = [0, 0, 0, 0, 0, 0, 0, 0]
    expect(batchesOf('zerohop', atOnce, { models: 4 })).toMatchObject({ batches: { 2: 4 }, maxMs: 400 })
    expect(batchesOf('zerohop', atOnce, { models: 4, instances: 4 })).toMatchObject({
      batches: { 2: 4 },
      maxMs: 100,
    })
  })

  it('take turns: a long queue of one does not keep the others waiting', () => {
    // Of the two models the first has 20 runs to do, the second 3; their requests are dealt out in turns.
    const trace = Array.from({ length: 40 }, (_, index) => ({ atMs: 0, rows: index % 2 === 0 ? 8 : 1 }))
    const { batches, p50Ms, maxMs } = batchesOf('zerohop', [], {
      models: 2,
      arrivals: { kind: 'trace', trace },
    })
    expect(batches).toEqual({ 4: 1, 8: 22 })
    expect(p50Ms).toBeLessThanOrEqual(600)
    expect(maxMs).toBe(2300)
  })
})

describe('a simulated queue', () => {
  it('has the mean wait of an M/D/1 queue under Poisson arrivals at 50 %', () => {
    const one = { service: [{ rows: 1, ms: 30 }], maxBatchSize: 1 }
    const { meanMs, utilisation } = simulate({
      ...atLoad(0.5, one),
      policy: 'none',
      requests: repetitions(200_000, 100_000),
    })
    const waitMs = (0.5 * 30) / (2 * (1 - 0.5))
    expect(utilisation).toBeCloseTo(0.5, 2)
    expect(Math.abs(meanMs! - 30 - waitMs) / waitMs).toBeLessThan(0.03)
  })

  it.each(policyNames)('answers constant arrivals below its capacity after one run: %s', (policy) => {
    const arrivals = { kind: 'constant', ratePerSecond: 20 } as const
    const result = simulate({ ...linear, arrivals, policy, requests: 1000, maxQueueDelayMs: 0 })
    expect(result).toMatchObject({ answered: 1000, batches: { 1: 1000 } })
    expect(result.p50Ms).toBeCloseTo(30, 6)
    expect(result.maxMs).toBeCloseTo(30, 6)
    expect(result.throughputPerSecond).toBeCloseTo(20, 1)
  })

  it.each(policyNames)(
    'has as much to do on twice the instances at twice the rate, with shorter queues: %s',
    (policy) => {
      const [one, two] = [1, 2].map((instances) =>
        simulate({ ...atLoad(0.7, { ...linear, instances }), policy, requests: repetitions(20_000, 6000) }),
      )
      expect(two!.p99Ms!).toBeLessThan(one!.p99Ms!)
      expect(two!.throughputPerSecond / one!.throughputPerSecond).toBeCloseTo(2, 0)
    },
  )

  it('serves at most its capacity, whatever comes', () => {
    const { throughputPerSecond, utilisation } = simulate({
      ...atLoad(3, linear),
      policy: 'zerohop',
      requests: 20_000,
    })
    expect(throughputPerSecond / capacity(linear)).toBeGreaterThan(0.99)
    expect(throughputPerSecond / capacity(linear)).toBeLessThanOrEqual(1)
    expect(utilisation).toBeGreaterThan(0.99)
  })

  it('comes out the same for the same seed, and otherwise for another', () => {
    const scenario = {
      ...atLoad(0.8, linear),
      policy: 'zerohop-target',
      requests: 5000,
      jitter: 0.1,
    } as const
    const [first, again, other] = [1, 1, 2].map((seed) => ({
      ...simulate({ ...scenario, seed }),
      wallSeconds: 0,
    }))
    expect(again).toEqual(first)
    expect(other).not.toEqual(first)
  })
})

const mixed: Partial<Scenario> = {
  rows: [
    { rows: 1, share: 0.8 },
    { rows: 2, share: 0.1 },
    { rows: 4, share: 0.1 },
  ],
}

const count = repetitions(5000, 2000)

const scenarios: [name: string, scenario: Partial<Scenario>][] = [
  ['light load', atLoad(0.3, linear)],
  ['overload', atLoad(2, subLinear)],
  [
    'a queue delay and preferred sizes',
    { ...atLoad(0.9, linear), maxQueueDelayMs: 20, preferredBatchSizes: [3, 6] },
  ],
  ['requests of several rows, and jitter', { ...atLoad(0.9, { ...linear, ...mixed }), jitter: 0.3 }],
  [
    'models that share instances',
    { ...atLoad(1.2, { ...subLinear, ...mixed, instances: 3 }), models: 10, maxQueueDelayMs: 5 },
  ],
  [
    'bursts',
    { ...linear, arrivals: { kind: 'on-off', ratePerSecond: 200, onMs: 500, offMs: 2000 }, burst: 500 },
  ],
]

describe.each(scenarios)('under %s', (_, scenario) => {
  it.each(policyNames)('every request ends once, in a batch of allowed size: %s', (policy) => {
    const { maxBatchSize } = scenario
    const result = simulate({ ...scenario, policy, requests: count, targetMs: 300, timelineMs: 1000 })
    const { requests, answered, refused, dropped, late, batches, timeline, meanBatchRows } = result
    expect(requests).toBe(count + (scenario.burst ?? 0))
    expect(answered + refused + dropped).toBe(requests)
    expect(Math.max(...Object.keys(batches).map(Number))).toBeLessThanOrEqual(maxBatchSize!)
    const runs = Object.values(batches).reduce((sum, count) => sum + count, 0)
    expect(timeline.reduce((sum, interval) => sum + interval.runs, 0)).toBe(runs)
    expect(timeline.reduce((sum, interval) => sum + interval.rows, 0)).toBeCloseTo(meanBatchRows * runs, 6)
    const sum = (key: 'offered' | 'answered' | 'late' | 'refused' | 'dropped') =>
      timeline.reduce((total, interval) => total + interval[key], 0)
    expect([sum('offered'), sum('answered'), sum('late'), sum('refused'), sum('dropped')]).toEqual([
      requests,
      answered,
      late,
      refused,
      dropped,
    ])
    if (policy !== 'zerohop-target') expect(answered).toBe(requests)
  })
})

const burst = repetitions(100_000, 10_000)

describe('more than a machine has', () => {
  it.each(policyNames)(
    `64 instances, 100 models and ${burst} requests at once end, each once: %s`,
    (policy) => {
      const result = simulate({ ...linear, policy, instances: 64, models: 100, requests: 0, burst })
      expect(result.answered + result.refused + result.dropped).toBe(burst)
      if (policy === 'zerohop-target') expect(result).toMatchObject({ late: 0, dropped: 0 })
      else expect(result).toMatchObject({ answered: burst, maxQueued: burst })
    },
  )
})

describe('misuse', () => {
  it('a request with more rows than a batch may have is a RangeError', () => {
    expect(() => simulate({ ...linear, rows: [{ rows: 9, share: 1 }], requests: 1 })).toThrow(RangeError)
  })
})
