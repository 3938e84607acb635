import { describe, expect, it } from 'vitest'
import { bestFixed } from '../../bench/simulate/best-fixed.ts'
import type { Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { atLoad, capacity, linear, subLinear } from './tables.ts'

const models: [name: string, scenario: Partial<Scenario>, sizes: number[], delaysMs: number[]][] = [
  ['a linear model, 500 ms', { ...linear, targetMs: 500 }, [1, 2, 4, 8], [0, 20]],
  ['a linear model, 250 ms', { ...linear, targetMs: 250 }, [1, 2, 4, 8], [0, 20]],
  ['a sub-linear model, 80 ms', { ...subLinear, targetMs: 80 }, [4, 16, 64], [0, 5]],
  ['a sub-linear model, 30 ms', { ...subLinear, targetMs: 30 }, [4, 16, 64], [0, 5]],
  [
    'a sub-linear model on 4 instances, 30 ms',
    { ...subLinear, targetMs: 30, instances: 4 },
    [4, 16, 64],
    [0, 5],
  ],
]

describe.each(models)('a latency target without a setting besides: %s', (_, scenario, sizes, delaysMs) => {
  it.each([
    [0.3, 0],
    [0.6, 0],
    [0.9, 0],
    [0.6, 0.1],
    [0.9, 0.1],
  ])(
    'is kept at load %f and jitter %f, with as many in time as with the best fixed setting',
    (load, jitter) => {
      const requests = { ...atLoad(load, scenario), requests: 10_000, jitter }
      const { withinTarget, highest } = bestFixed(requests, sizes, delaysMs)
      const found = simulate({ ...requests, policy: 'zerohop-target' })
      expect(found.p99Ms!).toBeLessThanOrEqual(scenario.targetMs!)
      expect(found.goodputPerSecond).toBeGreaterThanOrEqual(
        0.95 * (withinTarget ?? highest).result.goodputPerSecond,
      )
      expect(found.dropped / found.requests).toBeLessThan(0.005)
    },
  )
})

it.each([0.3, 0.6, 0.9, 1.5, 3])(
  'a latency target is kept on a machine whose runs are very uneven, too: load %f',
  (load) => {
    for (const jitter of [0.3, 0.5]) {
      for (const targetMs of [180, 500]) {
        const scenario = { ...linear, targetMs }
        const found = simulate({
          ...atLoad(load, scenario),
          policy: 'zerohop-target',
          requests: 20_000,
          jitter,
        })
        expect(found.p99Ms!).toBeLessThanOrEqual(targetMs)
      }
    }
  },
)

it('a latency target refuses few on a machine whose runs are very uneven, while the load is low', () => {
  const scenario = { ...linear, targetMs: 180 }
  const found = simulate({
    ...atLoad(0.3, scenario),
    policy: 'zerohop-target',
    requests: 10_000,
    jitter: 0.5,
  })
  expect(found.refused / found.requests).toBeLessThan(0.05)
  expect(found.p99Ms!).toBeLessThanOrEqual(scenario.targetMs)
})

describe('overload with a latency target', () => {
  it.each([
    [...models[0]!, 0],
    [...models[0]!, 0.1],
    [...models[1]!, 0],
    [...models[1]!, 0.1],
    [...models[2]!, 0],
    [...models[2]!, 0.1],
    [...models[4]!, 0],
  ] as const)(
    'costs little of the capacity, and the rest is refused when it comes: %s',
    (_name, scenario, _sizes, _delaysMs, jitter) => {
      const found = simulate({ ...atLoad(1.5, scenario), policy: 'zerohop-target', requests: 20_000, jitter })
      expect(found.goodputPerSecond).toBeGreaterThanOrEqual(0.9 * capacity(scenario))
      expect(found.p99Ms!).toBeLessThanOrEqual(scenario.targetMs!)
      expect(found.dropped / found.refused).toBeLessThan(0.01)
    },
  )

  it('is no worse the heavier it is', () => {
    const scenario = models[2]![1]
    const goodput = [1.5, 3, 10].map(
      (load) =>
        simulate({ ...atLoad(load, scenario), policy: 'zerohop-target', requests: 20_000 }).goodputPerSecond,
    )
    for (const found of goodput) expect(found).toBeGreaterThanOrEqual(0.95 * capacity(scenario))
  })

  it('costs throughput, but not the latency, where the target is too short for two runs of the best size', () => {
    for (const jitter of [0, 0.05]) {
      const found = simulate({
        ...atLoad(1.5, models[3]![1]),
        policy: 'zerohop-target',
        requests: 20_000,
        jitter,
      })
      expect(found.p99Ms!).toBeLessThanOrEqual(30)
      expect(found.goodputPerSecond).toBeGreaterThan(0.8 * capacity(subLinear))
    }
  })

  it('is shared by models on the same instances', () => {
    const scenario = { ...subLinear, targetMs: 200, models: 10 }
    const found = simulate({ ...atLoad(1.5, scenario), policy: 'zerohop-target', requests: 20_000 })
    expect(found.goodputPerSecond).toBeGreaterThan(0.8 * capacity(scenario))
    expect(found.refused).toBeGreaterThan(found.dropped)
  })
})
