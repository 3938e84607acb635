import { describe, expect, it } from 'vitest'
import type { Interval } from '../../packages/perf/src/simulation/simulation-result.ts'
import type { Scenario } from '../../bench/simulate/scenario.ts'
import { simulate } from '../../bench/simulate/simulate.ts'
import { atLoad, capacity, linear, subLinear } from './tables.ts'

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
    rows: (from: number, to: number) => sum(from, to, ({ rows }) => rows) / sum(from, to, ({ runs }) => runs),
  }
}

const models: [name: string, scenario: Partial<Scenario>, intervalMs: number][] = [
  ['a linear model', { ...linear, targetMs: 500, jitter: 0.1 }, 10_000],
  ['a sub-linear model', { ...subLinear, targetMs: 80, jitter: 0.1 }, 1000],
  ['a sub-linear model on 4 instances', { ...subLinear, targetMs: 30, jitter: 0.1, instances: 4 }, 500],
]

describe.each(models)('%s with a latency target', (_, scenario, intervalMs) => {
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
