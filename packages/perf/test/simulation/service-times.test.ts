import { describe, expect, it } from 'vitest'
import { capacityRowsPerSecond, ServiceTimes, tableMs } from '../../src/simulation/service-times.ts'

const table = [
  { rows: 2, ms: 20 },
  { rows: 4, ms: 30 },
  { rows: 8, ms: 70 },
]

describe('service times', () => {
  it('lie on the lines between the sizes of the table, and in proportion above', () => {
    expect([1, 2, 3, 4, 6, 8, 16].map((rows) => tableMs(table, rows))).toEqual([20, 20, 25, 30, 50, 70, 140])
  })

  it('give the capacity with the best size, not with the largest', () => {
    expect(capacityRowsPerSecond(table, 8)).toBeCloseTo(4000 / 30, 9)
    expect(capacityRowsPerSecond(table, 3)).toBeCloseTo(3000 / 25, 9)
  })

  it('differ by the jitter around the same mean', () => {
    const times = new ServiceTimes(table, 0.2, [], 1)
    const drawn = Array.from({ length: 20_000 }, () => times.draw('', 4, 0))
    const mean = drawn.reduce((sum, ms) => sum + ms, 0) / drawn.length
    const deviation = Math.sqrt(drawn.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / drawn.length)
    expect(mean / 30).toBeCloseTo(1, 2)
    expect(deviation / 30).toBeCloseTo(0.2, 1)
  })

  it('follow their steps', () => {
    const times = new ServiceTimes(table, 0, [{ fromMs: 100, factor: 3 }], 1)
    expect([0, 99, 100, 200].map((atMs) => times.draw('', 2, atMs))).toEqual([20, 20, 60, 60])
  })
})
