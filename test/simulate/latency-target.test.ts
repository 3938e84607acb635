import { describe, expect, it } from 'vitest'
import { bestFixed } from '../../bench/simulate/best-fixed.ts'
import type { Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import type { Interval } from '../../packages/perf/src/simulation/simulation-result.ts'
import { full, repetitions } from '../support/full.ts'
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

const some = full ? models : [models[0]!, models[4]!]

describe.each(some)('a latency target without a setting besides: %s', (_, scenario, sizes, delaysMs) => {
  const loads = [
    [0.6, 0],
    [0.9, 0.1],
  ] as const
  const others = [
    [0.3, 0],
    [0.9, 0],
    [0.6, 0.1],
  ] as const
  it.each(full ? [...loads, ...others] : loads)(
    'is kept at load %f and jitter %f, with as many in time as with the best fixed setting',
    (load, jitter) => {
      const requests = { ...atLoad(load, scenario), requests: repetitions(10_000, 4000), jitter }
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

it.each(full ? [0.3, 0.6, 0.9, 1.5, 3] : [0.9, 3])(
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
  const cases = [
    [...models[0]!, 0],
    [...models[2]!, 0.1],
    [...models[4]!, 0],
  ] as const
  const others = [
    [...models[0]!, 0.1],
    [...models[1]!, 0],
    [...models[1]!, 0.1],
    [...models[2]!, 0],
  ] as const
  it.each(full ? [...cases, ...others] : cases)(
    'costs little of the capacity, and the rest is refused when it comes: %s',
    (_name, scenario, _sizes, _delaysMs, jitter) => {
      const found = simulate({
        ...atLoad(1.5, scenario),
        policy: 'zerohop-target',
        requests: 20_000,
        jitter,
      })
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

describe('recovery', () => {
  /** Something is `factor` times as much from the 10th to the 20th of 30 intervals. */
  function withStep(
    kind: 'loadSteps' | 'serviceSteps',
    factor: number,
    load: number,
    scenario: Partial<Scenario>,
    intervalMs: number,
  ) {
    const steps = [
      { fromMs: 10 * intervalMs, factor },
      { fromMs: 20 * intervalMs, factor: 1 },
    ]
    const meanFactor = kind === 'loadSteps' ? (20 + 10 * factor) / 30 : 1
    const requests = Math.floor((load * capacity(scenario) * 30 * intervalMs * meanFactor) / 1000)
    const { timeline } = simulate({
      ...atLoad(load, scenario),
      policy: 'zerohop-target',
      requests,
      [kind]: steps,
      timelineMs: intervalMs,
    })
    const sum = (from: number, to: number, value: (interval: Interval) => number) =>
      timeline.slice(from, to).reduce((total, interval) => total + value(interval), 0)
    return {
      refusedShare: (from: number, to: number) =>
        sum(from, to, ({ refused, dropped }) => refused + dropped) / sum(from, to, ({ offered }) => offered),
      lateShare: (from: number, to: number) =>
        sum(from, to, ({ late }) => late) / sum(from, to, ({ offered }) => offered),
      /** In-time answers, of what the instances can do. */
      goodput: (from: number, to: number) =>
        (sum(from, to, ({ answered, late }) => answered - late) * 1000) /
        ((to - from) * intervalMs * capacity(scenario)),
      rows: (from: number, to: number) =>
        sum(from, to, ({ rows }) => rows) / sum(from, to, ({ runs }) => runs),
    }
  }

  const models: [name: string, scenario: Partial<Scenario>, intervalMs: number][] = [
    ['a linear model', { ...linear, targetMs: 500, jitter: 0.1 }, 10_000],
    ['a sub-linear model', { ...subLinear, targetMs: 80, jitter: 0.1 }, 1000],
    ['a sub-linear model on 4 instances', { ...subLinear, targetMs: 30, jitter: 0.1, instances: 4 }, 500],
  ]

  const some = full ? models : models.slice(0, 2)

  describe.each(some)('%s with a latency target', (_, scenario, intervalMs) => {
    it('takes a step of the load from 60 to 150 % and back', () => {
      const { refusedShare, lateShare, goodput, rows } = withStep('loadSteps', 2.5, 0.6, scenario, intervalMs)
      expect(refusedShare(0, 10)).toBeLessThan(0.01)
      expect(goodput(10, 20)).toBeGreaterThan(0.8)
      expect(lateShare(10, 20)).toBeLessThan(0.02)
      expect(refusedShare(21, 30)).toBeLessThan(0.01)
      expect(rows(21, 30) / rows(0, 10)).toBeCloseTo(1, 0)
    })

    it('takes a time in which runs take 3 times as long, and is then as it was before', () => {
      const { refusedShare, goodput, rows } = withStep('serviceSteps', 3, 0.6, scenario, intervalMs)
      expect(goodput(11, 20)).toBeGreaterThan(0.1) // of the full capacity, of which there is a third
      expect(refusedShare(21, 30)).toBeLessThan(0.01)
      expect(rows(21, 30) / rows(0, 10)).toBeCloseTo(1, 0)
    })

    it('is as before after such a time under overload, too: large batches have not come into disrepute', () => {
      const { goodput } = withStep('serviceSteps', 3, 1.3, scenario, intervalMs)
      expect(goodput(22, 30)).toBeGreaterThan(0.92 * goodput(0, 10))
    })

    it('comes back from a time in which no run can meet the target', () => {
      const { refusedShare, lateShare } = withStep('serviceSteps', 30, 0.6, scenario, intervalMs)
      expect(refusedShare(11, 20)).toBeGreaterThan(0.9)
      expect(refusedShare(22, 30)).toBeLessThan(0.01)
      expect(lateShare(22, 30)).toBeLessThan(0.01)
    })
  })
})
