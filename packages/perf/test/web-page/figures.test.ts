import { describe, expect, it } from 'vitest'
import { countOf, roundTimeOf, shareOf, tickOf, timeOf } from '../../src/web-page/charts/figures.ts'

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
