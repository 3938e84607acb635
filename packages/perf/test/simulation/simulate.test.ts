import { describe, expect, it } from 'vitest'
import { defaultScenario, type Scenario } from '../../../../bench/simulate/scenario.ts'
import { simulate, type SimulationOptions } from '../../src/simulation/simulate.ts'
import { factorAt, schedule, timeOfWork } from '../../src/simulation/traffic.ts'
import { VirtualClock } from '../../src/simulation/virtual-clock.ts'

const flat = [
  { rows: 1, ms: 10 },
  { rows: 8, ms: 10 },
]
const one: Pick<SimulationOptions, 'serviceTimes' | 'instances' | 'maxBatchSize'> = {
  serviceTimes: flat,
  instances: 1,
  maxBatchSize: 8,
}
const closed = (callers: number, thinkMs = 0) => ({ kind: 'closed', callers, thinkMs }) as const

describe('callers who wait for their answers', () => {
  it('have all their requests in one batch when the instance is theirs', () => {
    const result = simulate({ ...one, arrivals: closed(8), requests: 800 })
    expect(result).toMatchObject({ answered: 800, batches: { 8: 100 }, p50Ms: 10, maxMs: 10 })
    expect(result.throughputPerSecond).toBeCloseTo(800, 6)
    expect(result.utilisation).toBeCloseTo(1, 6)
  })

  it('keep no more than themselves waiting', () => {
    const result = simulate({ ...one, maxBatchSize: 1, arrivals: closed(5), requests: 500 })
    expect(result).toMatchObject({ answered: 500, batches: { 1: 500 }, maxQueued: 5 })
    expect(result.p99Ms).toBeCloseTo(50, 6)
    expect(result.throughputPerSecond).toBeCloseTo(100, 6)
  })

  it('leave the instance idle while they think', () => {
    const result = simulate({ ...one, arrivals: closed(1, 30), requests: 100 })
    expect(result.p50Ms).toBeCloseTo(10, 6)
    expect(result.utilisation).toBeCloseTo(10 / 40, 2)
  })
})

describe('instances that share cores', () => {
  const two = { ...one, instances: 2, maxBatchSize: 1 }

  it('gain what the slowdown leaves', () => {
    const throughput = (slowdown: number[]) =>
      simulate({ ...two, slowdown, arrivals: closed(2), requests: 1000 }).throughputPerSecond
    expect(throughput([])).toBeCloseTo(200, 6)
    expect(throughput([1, 1.25])).toBeCloseTo(160, 6)
    expect(throughput([1, 2])).toBeCloseTo(100, 6)
  })

  it('slow each other only while both run', () => {
    // The second comes after 4 ms: of the first 6 ms are left, which take 12; then 4 of the second's, alone.
    const arrivals = {
      kind: 'recorded',
      arrivals: [
        { atUs: 0, rows: 1 },
        { atUs: 4000, rows: 1 },
      ],
    } as const
    const { maxMs, meanMs, simulatedSeconds } = simulate({ ...two, slowdown: [1, 2], arrivals })
    expect(maxMs).toBeCloseTo(16, 6)
    expect(meanMs).toBeCloseTo(16, 6)
    expect(simulatedSeconds).toBeCloseTo(0.02, 6)
  })
})

describe('measured runs', () => {
  it('are what is drawn, around the mean of each size', () => {
    const serviceTimes = [{ rows: 1, ms: 10, samplesMs: [8, 12] }]
    const { p50Ms, maxMs, meanMs } = simulate({
      ...one,
      maxBatchSize: 1,
      serviceTimes,
      arrivals: closed(1),
      requests: 10_000,
    })
    expect([8, 12]).toContain(Math.round(p50Ms!))
    expect(maxMs).toBeCloseTo(12, 6)
    expect(meanMs).toBeCloseTo(10, 1)
  })
})

describe('what requests and batches cost besides their runs', () => {
  it('is on the way of each answer', () => {
    const overheads = {
      requestMs: 0.1,
      gatherMs: 0.2,
      gatherRowMs: 0.3,
      handOverMs: 0.4,
      wakeMs: 0.5,
      scatterMs: 0.6,
      scatterRowMs: 0.7,
    }
    const { p50Ms } = simulate({ ...one, overheads, arrivals: closed(1), requests: 10 })
    expect(p50Ms).toBeCloseTo(10 + 2.8, 6)
  })

  it('keeps others waiting on the same thread', () => {
    // Each of the four is taken in for 1 ms and runs alone; the thread is busy with the next while the first runs.
    const arrivals = { kind: 'recorded', arrivals: [0, 0, 0, 0].map((atUs) => ({ atUs, rows: 1 })) } as const
    const { maxMs } = simulate({ ...one, maxBatchSize: 4, overheads: { requestMs: 1 }, arrivals })
    expect(maxMs).toBeCloseTo(4 + 10, 6)
  })
})

describe('a recording', () => {
  const arrivals = Array.from({ length: 100 }, (_, index) => ({
    atUs: index * 20_000,
    rows: 1 + (index % 2),
  }))

  it('comes as it was recorded, or faster', () => {
    const once = simulate({ ...one, arrivals: { kind: 'recorded', arrivals } })
    expect(once).toMatchObject({ requests: 100, answered: 100, batches: { 1: 50, 2: 50 } })
    const faster = simulate({ ...one, arrivals: { kind: 'recorded', arrivals, speed: 4 } })
    expect(faster.simulatedSeconds).toBeLessThan(once.simulatedSeconds / 3.5)
    expect(faster.meanBatchRows).toBeGreaterThan(2.5)
  })
})

describe('a virtual clock', () => {
  it('fires timers by time, those of one moment in the order in which they were set', () => {
    const clock = new VirtualClock()
    const fired: [name: string, atMs: number][] = []
    const set = (name: string, delayMs: number) =>
      clock.setTimer(() => fired.push([name, clock.nowMs()]), delayMs)
    set('c', 3)
    set('a', 1)
    set('b', 1)
    while (clock.nextMs < Infinity) clock.fireNext()
    expect(fired).toEqual([
      ['a', 1],
      ['b', 1],
      ['c', 3],
    ])
  })

  it('does not fire what was cleared, also when it is cleared twice or too late', () => {
    const clock = new VirtualClock()
    const fired: string[] = []
    const a = clock.setTimer(() => fired.push('a'), 1)
    const b = clock.setTimer(() => fired.push('b'), 2)
    clock.clearTimer(b)
    clock.clearTimer(b)
    clock.fireNext()
    clock.clearTimer(a)
    expect(clock.nextMs).toBe(Infinity)
    expect(fired).toEqual(['a'])
  })

  it('lets a timer set others, counted from its own time', () => {
    const clock = new VirtualClock()
    clock.advanceTo(10)
    clock.setTimer(() => clock.setTimer(() => {}, 5), 1)
    clock.fireNext()
    expect(clock.nextMs).toBe(16)
  })
})

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
