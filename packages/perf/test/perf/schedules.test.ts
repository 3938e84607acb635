import { describe, expect, it } from 'vitest'
import {
  constantSchedule,
  firstOf,
  intervalSchedule,
  poissonSchedule,
} from '../../src/perf/load/open-loop.ts'

describe('when requests are meant to be sent', () => {
  it('at a constant rate is the same interval apart, without errors that add up', () => {
    expect([...firstOf(constantSchedule(4), 4)]).toEqual([0, 250, 500, 750])
    expect([...firstOf(constantSchedule(3), 300_001)].at(-1)).toBe(100_000_000)
  })

  it('as a Poisson process has the rate, a deviation of the intervals as large as their mean, and the same times for the same seed', () => {
    const count = 20_000
    const times = [...firstOf(poissonSchedule(100, 7), count)]
    const intervals = times.map((atMs, index) => atMs - (times[index - 1] ?? 0))
    const mean = times.at(-1)! / count
    const deviation = Math.sqrt(intervals.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / count)
    expect(mean).toBeGreaterThan(9.8)
    expect(mean).toBeLessThan(10.2)
    expect(deviation / mean).toBeGreaterThan(0.97)
    expect(deviation / mean).toBeLessThan(1.03)
    expect([...firstOf(poissonSchedule(100, 7), 10)]).toEqual(times.slice(0, 10))
    expect([...firstOf(poissonSchedule(100, 8), 10)]).not.toEqual(times.slice(0, 10))
  })

  it('by intervals goes through them again and again', () => {
    expect([...firstOf(intervalSchedule([1000, 500]), 5)]).toEqual([1, 1.5, 2.5, 3, 4])
  })

  it('ends where it is cut off, or ends itself', () => {
    expect([...firstOf(constantSchedule(1), 0)]).toEqual([])
    expect([...firstOf([1, 2][Symbol.iterator](), 5)]).toEqual([1, 2])
  })
})
