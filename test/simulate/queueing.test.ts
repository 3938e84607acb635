import { describe, expect, it } from 'vitest'
import { policyNames } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { atLoad, capacity, linear } from './tables.ts'

describe('a simulated queue', () => {
  it('has the mean wait of an M/D/1 queue under Poisson arrivals at 50 %', () => {
    const one = { service: [{ rows: 1, ms: 30 }], maxBatchSize: 1 }
    const { meanMs, utilisation } = simulate({ ...atLoad(0.5, one), policy: 'none', requests: 200_000 })
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
        simulate({ ...atLoad(0.7, { ...linear, instances }), policy, requests: 20_000 }),
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
