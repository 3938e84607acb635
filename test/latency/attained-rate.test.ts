import { describe, expect, it } from 'vitest'
import { AttainedRate } from '../../src/schedule/load-division.ts'

/** Runs of ten rows, each of which takes so many milliseconds: what is said at which of them. */
function said(tookMs: readonly number[], parts = 1): [run: number, rate: number] | null {
  const rate = new AttainedRate()
  let nowMs = 100
  rate.begin(nowMs)
  for (const [run, ms] of tookMs.entries()) {
    const perMs = rate.ran(10, parts, (nowMs += ms))
    if (perMs !== null) return [run + 1, perMs]
  }
  return null
}

describe('the rate that a load attains', () => {
  it('is told after six windows of ten milliseconds', () => {
    expect(said(Array<number>(100).fill(1))).toEqual([60, 10])
    expect(said(Array<number>(59).fill(1))).toBeNull()
  })

  it('is that of the second best of them: neither what was slow at first nor what met something else', () => {
    const windows = [4, 2, 1, 0.5, 3, 1].flatMap((ms) =>
      Array<number>(Math.max(4, Math.ceil(10 / ms))).fill(ms),
    )
    expect(said(windows)![1]).toBeCloseTo(10, 6)
  })

  it('has the whole load four times in a window, however many parts that has, and no part of it besides', () => {
    expect(said(Array<number>(100).fill(15))![0]).toBe(24)
    expect(said(Array<number>(100).fill(7.5), 2)![0]).toBe(48)
    expect(said(Array<number>(1000).fill(0.7), 4)![0]).toBe(96)
  })

  it('is told after half a second, with the whole load twice at least', () => {
    expect(said(Array<number>(10).fill(400))![0]).toBe(2)
    expect(said(Array<number>(10).fill(400), 2)![0]).toBe(4)
    expect(said(Array<number>(10).fill(200))![0]).toBe(3)
    expect(said(Array<number>(10).fill(100))![0]).toBe(8)
  })

  it('begins anew', () => {
    const rate = new AttainedRate()
    rate.begin(0)
    for (let run = 1; run <= 20; run++) rate.ran(1, 1, run * 10)
    rate.begin(1000)
    expect(rate.sinceMs).toBe(1000)
    for (let run = 1; run < 24; run++) expect(rate.ran(10, 1, 1000 + run * 10)).toBeNull()
    expect(rate.ran(10, 1, 1240)).toBeCloseTo(1, 6)
  })
})
