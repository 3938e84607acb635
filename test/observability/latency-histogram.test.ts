import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { LatencyHistogram } from '../../src/observe/model-stats.ts'

const of = (...latenciesMs: number[]) => {
  const histogram = new LatencyHistogram()
  for (const ms of latenciesMs) histogram.record(ms)
  return histogram.distribution()
}

describe('a latency histogram', () => {
  it('is all 0 before the first', () => {
    expect(of()).toEqual({
      count: 0,
      p50Ms: 0,
      p90Ms: 0,
      p95Ms: 0,
      p99Ms: 0,
      p999Ms: 0,
      maxMs: 0,
      buckets: [],
    })
  })

  it('has each percentile within 1 % of what was measured, whatever that was', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.001, max: 4e6, noNaN: true }), { minLength: 1, maxLength: 300 }),
        (values) => {
          const sorted = values.toSorted((a, b) => a - b)
          const exact = (share: number) => sorted[Math.ceil(values.length * share) - 1]!
          const { count, p50Ms, p90Ms, p99Ms, maxMs } = of(...values)
          expect([count, maxMs]).toEqual([values.length, sorted.at(-1)])
          for (const [found, share] of [
            [p50Ms, 0.5],
            [p90Ms, 0.9],
            [p99Ms, 0.99],
          ] as const) {
            expect(Math.abs(found - exact(share)) / exact(share)).toBeLessThan(0.01)
          }
        },
      ),
    )
  })

  it('counts a batch of requests at once', () => {
    const histogram = new LatencyHistogram()
    histogram.record(1, 98)
    histogram.record(100, 2)
    expect(histogram.distribution()).toMatchObject({ count: 100, maxMs: 100 })
    expect(histogram.distribution().p90Ms).toBeCloseTo(1, 1)
    expect(histogram.distribution().p99Ms).toBeGreaterThan(99)
  })

  it('takes what no clock should give', () => {
    expect(of(0, -1, 1e-9)).toMatchObject({ count: 3, p50Ms: 1e-9 })
    expect(of(1e12)).toMatchObject({ count: 1, maxMs: 1e12 })
    expect(of(Number.NaN).count).toBe(1)
  })
})
