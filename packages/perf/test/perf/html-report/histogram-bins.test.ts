import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { binsOf } from '../../../src/perf/html-report/level-sections.ts'

describe('bins of a latency histogram', () => {
  it('are as wide as each other on a logarithmic axis, with those that are empty', () => {
    const { bounds, counts } = binsOf([
      { upToUs: 100, count: 5 },
      { upToUs: 200, count: 7 },
      { upToUs: 400, count: 1 },
    ])
    expect(bounds.map(Math.round)).toEqual([100, 119, 141, 168, 200, 238, 283, 336, 400])
    expect(counts).toEqual([5, 0, 0, 0, 7, 0, 0, 0, 1])
  })

  it('lose no latency, and are 40 at most, whatever was measured', () => {
    const bins = fc.array(
      fc.record({
        upToUs: fc.double({ min: 0, max: 1e300, noNaN: true }),
        count: fc.integer({ min: 0, max: 1e6 }),
      }),
    )
    fc.assert(
      fc.property(bins, (given) => {
        const histogram = given.toSorted((a, b) => a.upToUs - b.upToUs)
        const { bounds, counts } = binsOf(histogram)
        const sum = (counted: readonly number[]) => counted.reduce((a, b) => a + b, 0)
        expect(sum(counts)).toBe(sum(histogram.map(({ count }) => count)))
        expect(bounds.length).toBeLessThanOrEqual(41)
      }),
    )
  })

  it('tell where a latency lies among them', () => {
    const { bounds, placeOf } = binsOf([
      { upToUs: 100, count: 5 },
      { upToUs: 400, count: 1 },
    ])
    expect(placeOf(100)).toBeCloseTo(0.5) // the upper end of the first
    expect(placeOf(200)).toBeCloseTo(4.5)
    expect(placeOf(1)).toBe(-0.5)
    expect(placeOf(1e9)).toBe(bounds.length - 0.5)
  })

  it('are none where nothing was measured', () => {
    expect(binsOf([])).toMatchObject({ bounds: [], counts: [] })
    expect(binsOf([{ upToUs: Infinity, count: 3 }])).toMatchObject({ bounds: [], counts: [] })
  })
})
