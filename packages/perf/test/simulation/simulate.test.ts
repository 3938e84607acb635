import { describe, expect, it } from 'vitest'
import { simulate, type SimulationOptions } from '../../src/simulation/simulate.ts'

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
