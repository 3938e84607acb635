import { describe, expect, it } from 'vitest'
import { SizeMedians } from '../../src/simulation/service-times.ts'

type Runs = readonly (readonly [rows: number, ms: number, count: number])[]

const mediansOf = (runs: Runs) =>
  new SizeMedians(new Map(runs.map(([rows, ms, count]) => [rows, Array.from({ length: count }, () => ms)])))

describe('what runs of a size usually take', () => {
  it('is not decided by one slow run of the largest size', () => {
    const medians = mediansOf([
      [1, 6, 233],
      [2, 9, 34],
      [3, 12, 6],
      [4, 15, 2],
      [5, 36.7, 1],
    ])
    expect([4, 5, 8].map((rows) => medians.of(rows))).toEqual(
      [15, 18, 27].map((ms) => expect.closeTo(ms, 6) as number),
    )
  })

  it('follows above the sizes that ran those that ran often, not those that hardly did', () => {
    const medians = mediansOf([
      [1, 6, 1000],
      [2, 9, 1000],
      [4, 40, 3],
    ])
    expect(medians.of(4)).toBe(40)
    expect((medians.of(8) - 40) / 4).toBeLessThan(4)
  })

  it('is in proportion where one size ran', () => {
    expect(mediansOf([[2, 10, 50]]).of(8)).toBe(40)
  })

  it('is no more than in proportion where of the larger sizes one ran, and once', () => {
    const medians = mediansOf([
      [1, 6, 200],
      [2, 400, 1],
    ])
    expect([2, 8].map((rows) => medians.of(rows))).toEqual([12, 48])
  })

  it('never becomes less with more rows', () => {
    const medians = mediansOf([
      [1, 10, 100],
      [2, 30, 3],
      [3, 12, 50],
      [4, 11, 1],
      [6, 8, 4],
    ])
    const times = Array.from({ length: 12 }, (_, index) => medians.of(index + 1))
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(times[0]).toBe(10)
  })

  it('is taken from single runs where no size ran more often', () => {
    expect(
      [1, 2, 3, 5].map((rows) =>
        mediansOf([
          [1, 10, 1],
          [3, 14, 2],
        ]).of(rows),
      ),
    ).toEqual([10, 12, 14, 18].map((ms) => expect.closeTo(ms, 6) as number))
  })
})
