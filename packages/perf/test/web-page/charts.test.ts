import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countOf, roundTimeOf, shareOf, tickOf, timeOf } from '../../src/web-page/charts/figures.ts'
import { grownLength, linearTicks, logarithmicTicks } from '../../src/web-page/charts/ticks.ts'

describe('figures of a report', () => {
  it.each([
    [0, '0 µs'],
    [0.25, '250 ns'],
    [0.9996, '1.00 µs'],
    [1, '1.00 µs'],
    [812.34, '812 µs'],
    [999.4, '999 µs'],
    [999.6, '1.00 ms'],
    [12_345, '12.3 ms'],
    [999_499, '999 ms'],
    [1_500_000, '1.50 s'],
    [119e6, '119 s'],
    [150e6, '2.50 min'],
    [9e9, '2.50 h'],
    [1e30, '2.78e+20 h'],
    [-1500, '-1.50 ms'],
    [NaN, '–'],
    [null, '–'],
    [Infinity, '∞'],
    [-Infinity, '-∞'],
  ])('give %d microseconds as %s', (us, text) => expect(timeOf(us)).toBe(text))

  it.each([
    [10_000, '10 ms'],
    [1500, '1.5 ms'],
    [100_000, '100 ms'],
    [5e6, '5 s'],
    [12_340, '12.3 ms'],
    [100, '100 µs'],
  ])('leave out zeros of %d microseconds that were chosen: %s', (us, text) => {
    expect(roundTimeOf(us)).toBe(text)
  })

  it.each([
    [0, '0'],
    [7, '7'],
    [1234, '1,234'],
    [1234.56, '1,235'],
    [12.345, '12.3'],
    [0.001234, '0.00123'],
    [0.0001, '1.00e-4'],
    [1e15, '1.00e+15'],
    [NaN, '–'],
    [Infinity, '∞'],
    [null, '–'],
  ])('count %d as %s', (value, text) => {
    expect(countOf(value)).toBe(text)
  })

  it.each([
    [0, '0 %'],
    [1, '100 %'],
    [0.5, '50 %'],
    [0.99999, '> 99.9 %'],
    [0.00001, '< 0.01 %'],
    [0.98765, '98.8 %'],
    [NaN, '–'],
  ])('give a share of %d as %s', (share, text) => {
    expect(shareOf(share)).toBe(text)
  })

  it('are short beside an axis', () => {
    expect([
      tickOf(2500, 'count'),
      tickOf(1e16, 'count'),
      tickOf(2500, 'microseconds'),
      tickOf(0.2, 'share'),
    ]).toEqual(['2.5K', '1e+16', '2.5 ms', '20 %'])
  })
})

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
