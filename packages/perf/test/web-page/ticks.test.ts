import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { grownLength, linearTicks, logarithmicTicks } from '../../src/web-page/charts/ticks.ts'

const positive = fc.double({ min: 1e-12, max: 1e300, noNaN: true })

describe('linear ticks', () => {
  it('go in round steps from 0 to at least the largest value', () => {
    expect(linearTicks([3, null, 1834.5], 5).at).toEqual([0, 500, 1000, 1500, 2000])
    expect(linearTicks([0.7, 0.31], 5).at).toEqual([0, 0.2, 0.4, 0.6, 0.8])
  })

  it('are whole numbers for what is counted', () => {
    expect(linearTicks([1, 2, 3], 5).at).toEqual([0, 1, 2, 3])
  })

  it('do not add a step for an error of rounding', () => {
    expect(linearTicks([1.0000002], 5).max).toBe(1)
  })

  it.each([[[]], [[null]], [[0]]])('are there without a value above 0: %j', (values) => {
    expect(linearTicks(values, 5)).toMatchObject({ min: 0, max: 1 })
  })

  it('are few, ascend and hold every value, whatever it is', () => {
    fc.assert(
      fc.property(fc.array(positive, { minLength: 1 }), (values) => {
        const { at, min, max } = linearTicks(values, 5)
        expect(at.length).toBeLessThanOrEqual(7)
        expect(at.every((tick, index) => index === 0 || tick > at[index - 1]!)).toBe(true)
        expect(min).toBe(0)
        expect(max).toBeGreaterThanOrEqual(Math.max(...values) * 0.999)
      }),
    )
  })
})

describe('logarithmic ticks', () => {
  it('go by 1, 2 and 5 while these are few, then by powers of ten', () => {
    expect(logarithmicTicks([300, null, 0, 4000])).toEqual({
      min: 200,
      max: 5000,
      at: [200, 500, 1000, 2000, 5000],
    })
    expect(logarithmicTicks([3, 4e5])).toEqual({ min: 2, max: 5e5, at: [10, 100, 1000, 1e4, 1e5] })
  })

  it.each([[[]], [[null, 0]]])('are there without a value above 0: %j', (values) => {
    expect(logarithmicTicks(values)).toEqual({ min: 1, max: 10, at: [1, 10] })
  })

  it('are few, and within a range that holds every value', () => {
    fc.assert(
      fc.property(fc.array(positive, { minLength: 1 }), (values) => {
        const { at, min, max } = logarithmicTicks(values)
        expect(at.length).toBeLessThanOrEqual(11)
        expect(min).toBeGreaterThan(0)
        expect(min).toBeLessThanOrEqual(Math.min(...values))
        expect(max).toBeGreaterThanOrEqual(Math.max(...values))
        expect(max).toBeGreaterThan(min)
        expect(at.every((tick) => tick >= min && tick <= max)).toBe(true)
      }),
    )
  })
})

describe('a time axis that grows', () => {
  it.each([
    [0, 12],
    [12, 12],
    [13, 24],
    [40, 60],
    [61, 120],
    [300, 120],
  ])('shows %d of at most 120 seconds in %d', (shown, length) => {
    expect(grownLength(120, shown)).toBe(length)
  })
})
