import { describe, expect, it } from 'vitest'
import { policyNames, type Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { atLoad, linear, subLinear } from './tables.ts'

const mixed: Partial<Scenario> = {
  rows: [
    { rows: 1, share: 0.8 },
    { rows: 2, share: 0.1 },
    { rows: 4, share: 0.1 },
  ],
}

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
    const result = simulate({ ...scenario, policy, requests: 5000, targetMs: 300, timelineMs: 1000 })
    const { requests, answered, refused, dropped, late, batches, timeline, meanBatchRows } = result
    expect(requests).toBe(5000 + (scenario.burst ?? 0))
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

describe('more than a machine has', () => {
  it.each(policyNames)(
    '64 instances, 100 models and 100 000 requests at once end, each once: %s',
    (policy) => {
      const result = simulate({ ...linear, policy, instances: 64, models: 100, requests: 0, burst: 100_000 })
      expect(result.answered + result.refused + result.dropped).toBe(100_000)
      if (policy === 'zerohop-target') expect(result).toMatchObject({ late: 0, dropped: 0 })
      else expect(result).toMatchObject({ answered: 100_000, maxQueued: 100_000 })
    },
  )
})

describe('misuse', () => {
  it('a request with more rows than a batch may have is a RangeError', () => {
    expect(() => simulate({ ...linear, rows: [{ rows: 9, share: 1 }], requests: 1 })).toThrow(RangeError)
  })
})
