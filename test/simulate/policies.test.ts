import { describe, expect, it } from 'vitest'
import type { PolicyName, Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { linear } from './tables.ts'

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
      requests: 50_000,
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
