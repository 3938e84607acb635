import { describe, expect, it } from 'vitest'
import { simulate, type SimulationOptions } from '../../src/simulation/simulate.ts'

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
