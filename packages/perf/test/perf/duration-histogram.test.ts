import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DurationHistogram } from '../../src/perf/load/recorder.ts'

function histogramOf(durations: readonly number[]): DurationHistogram {
  const histogram = new DurationHistogram()
  for (const us of durations) histogram.record(us)
  return histogram
}

const duration = fc.double({ min: 0.25, max: 1e9, noNaN: true })

describe('a histogram of durations', () => {
  it('has percentiles at index round(p * (n - 1)), as perf_analyzer, within a fifth of a per cent', () => {
    fc.assert(
      fc.property(
        fc.array(duration, { minLength: 1, maxLength: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (durations, share) => {
          const exact = durations.toSorted((a, b) => a - b)[Math.round(share * (durations.length - 1))]!
          expect(Math.abs(histogramOf(durations).quantileUs(share) - exact) / exact).toBeLessThan(0.002)
        },
      ),
    )
  })

  it('has the exact count, average, deviation and maximum', () => {
    const { count, averageUs, standardDeviationUs, maxUs } = histogramOf([1, 2, 3, 4, 10])
    expect({ count, averageUs, maxUs }).toEqual({ count: 5, averageUs: 4, maxUs: 10 })
    expect(standardDeviationUs).toBeCloseTo(Math.sqrt(50 / 4), 9)
  })

  it('joined with another is as if one had seen all', () => {
    const joined = histogramOf([5, 70])
    joined.add(histogramOf([900, 1]))
    const all = histogramOf([5, 70, 900, 1])
    expect([0, 0.3, 0.5, 0.9, 1].map((share) => joined.quantileUs(share))).toEqual(
      [0, 0.3, 0.5, 0.9, 1].map((share) => all.quantileUs(share)),
    )
    expect([joined.count, joined.averageUs, joined.maxUs]).toEqual([all.count, all.averageUs, all.maxUs])
  })

  it('counts each duration in one bar, at most its bound and above the bound before', () => {
    const durations = [0, 0.1, 1, 1.5, 2, 100, 101, 5000, 1e9, 1e12]
    const bars = histogramOf(durations).bars(8)
    expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(durations.length)
    expect(bars.map(({ upToUs }) => upToUs)).toEqual(
      bars.map(({ upToUs }) => upToUs).toSorted((a, b) => a - b),
    )
    const ofThousands = bars.find(({ upToUs }) => upToUs >= 5000)!
    expect(ofThousands.upToUs).toBeLessThan(5000 * 2 ** (1 / 4))
  })

  it('counts how many were within a bound', () => {
    const histogram = histogramOf([100, 200, 300, 400])
    expect([50, 150, 250, 1000].map((us) => histogram.countUpTo(us))).toEqual([0, 1, 2, 4])
  })

  it('of nothing is all zeros', () => {
    const empty = new DurationHistogram()
    expect([
      empty.count,
      empty.averageUs,
      empty.standardDeviationUs,
      empty.maxUs,
      empty.quantileUs(0.99),
      empty.bars(8).length,
    ]).toEqual([0, 0, 0, 0, 0, 0])
  })
})
