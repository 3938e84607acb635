import { describe, expect, it } from 'vitest'
import { factorAt, schedule, timeOfWork } from '../../src/simulation/traffic.ts'
import { defaultScenario, type Scenario } from '../../../../bench/simulate/scenario.ts'

const draw = (scenario: Partial<Scenario>) => schedule({ ...defaultScenario, requests: 10_000, ...scenario })

/** Requests of each interval. */
function counts(timesMs: Float64Array, intervalMs: number): number[] {
  const found: number[] = []
  for (const atMs of timesMs)
    found[Math.floor(atMs / intervalMs)] = (found[Math.floor(atMs / intervalMs)] ?? 0) + 1
  return Array.from(found, (count) => count ?? 0)
}

describe('arrivals', () => {
  it('are as many a second as asked for, in order, spread over the models', () => {
    const { timesMs, models } = draw({ arrivals: { kind: 'poisson', ratePerSecond: 100 }, models: 4 })
    expect(timesMs.at(-1)! / 100_000).toBeCloseTo(1, 1)
    expect(timesMs.every((atMs, index) => index === 0 || atMs >= timesMs[index - 1]!)).toBe(true)
    for (let model = 0; model < 4; model++)
      expect(models.filter((of) => of === model).length / 2500).toBeCloseTo(1, 1)
  })

  it('vary by chance as Poisson arrivals do, and constant ones not at all', () => {
    const variance = (timesMs: Float64Array) => {
      const found = counts(timesMs, 1000).slice(0, -1)
      const mean = found.reduce((sum, count) => sum + count, 0) / found.length
      return found.reduce((sum, count) => sum + (count - mean) ** 2, 0) / found.length
    }
    expect(
      variance(draw({ requests: 100_000, arrivals: { kind: 'poisson', ratePerSecond: 100 } }).timesMs) / 100,
    ).toBeCloseTo(1, 0)
    expect(
      variance(draw({ arrivals: { kind: 'constant', ratePerSecond: 100 }, models: 3 }).timesMs),
    ).toBeLessThan(2)
  })

  it('come only while on when they go on and off', () => {
    const { timesMs } = draw({ arrivals: { kind: 'on-off', ratePerSecond: 1000, onMs: 200, offMs: 300 } })
    expect(timesMs.every((atMs) => atMs % 500 <= 200)).toBe(true)
    expect(timesMs.at(-1)! / 25_000).toBeCloseTo(1, 1)
  })

  it('have their bursts in turns when models go on and off', () => {
    const { timesMs, models } = draw({
      arrivals: { kind: 'on-off', ratePerSecond: 1000, onMs: 200, offMs: 300 },
      models: 2,
    })
    const ofSecond = timesMs.filter((_, index) => models[index] === 1)
    expect(ofSecond.every((atMs) => (atMs + 250) % 500 <= 200)).toBe(true)
  })

  it('follow the steps of the load', () => {
    const loadSteps = [
      { fromMs: 10_000, factor: 3 },
      { fromMs: 20_000, factor: 0 },
      { fromMs: 30_000, factor: 1 },
    ]
    const { timesMs } = draw({
      requests: 6000,
      arrivals: { kind: 'constant', ratePerSecond: 100 },
      loadSteps,
    })
    expect(counts(timesMs, 10_000)).toEqual([1000, 3000, 0, 1000, 1000])
  })

  it('end when the load goes to 0 for good', () => {
    const loadSteps = [{ fromMs: 1000, factor: 0 }]
    expect(draw({ arrivals: { kind: 'constant', ratePerSecond: 100 }, loadSteps })).toMatchObject({
      count: 100,
    })
  })

  it('are those of a trace, with its rows, after a burst', () => {
    const trace = [{ atMs: 5 }, { atMs: 7, rows: 4 }, { atMs: 7 }]
    const { timesMs, models, rows } = draw({ arrivals: { kind: 'trace', trace }, burst: 2, models: 2 })
    expect([...timesMs]).toEqual([0, 0, 5, 7, 7])
    expect([...models]).toEqual([0, 1, 0, 1, 0])
    expect([...rows]).toEqual([1, 1, 1, 4, 1])
  })

  it('have the rows of the mix', () => {
    const { rows } = draw({
      rows: [
        { rows: 1, share: 0.8 },
        { rows: 2, share: 0.1 },
        { rows: 4, share: 0.1 },
      ],
    })
    expect([...new Set(rows)].sort()).toEqual([1, 2, 4])
    expect(rows.filter((size) => size === 1).length / 8000).toBeCloseTo(1, 1)
  })
})

describe('steps', () => {
  const steps = [
    { fromMs: 10, factor: 2 },
    { fromMs: 20, factor: 0 },
    { fromMs: 30, factor: 0.5 },
  ]

  it('hold from their time on', () => {
    expect([0, 9, 10, 19, 20, 30, 99].map((atMs) => factorAt(steps, atMs))).toEqual([1, 1, 2, 2, 0, 0.5, 0.5])
  })

  it('make work take more or less time', () => {
    expect([0, 5, 10, 20, 29, 35].map((workMs) => timeOfWork(steps, workMs))).toEqual([
      0, 5, 10, 15, 19.5, 40,
    ])
  })
})
