import { describe, expect, it } from 'vitest'
import { mulberry32 } from '../../../../src/base/seeded-random.ts'
import { RecordedDurations } from '../../src/simulation/service-times.ts'
import { runningAtOnce, type RecordedRun } from '../../src/simulation/recorded-run.ts'

const run = (atMs: number, rows: number, ms: number): RecordedRun => ({
  atMs,
  request: atMs,
  rows,
  ms,
  bucketKey: '',
})

/** What is drawn for so many rows at a moment, on average. */
function meanOf(durations: RecordedDurations, rows: number, atMs: number): number {
  const drawn = Array.from({ length: 2000 }, () => durations.draw('', rows, 0, atMs))
  return drawn.reduce((sum, ms) => sum + ms, 0) / drawn.length
}

describe('recorded run times', () => {
  it('are drawn by size, also for sizes that were not seen', () => {
    const runs = Array.from({ length: 300 }, (_, index) =>
      run(index * 100, index % 2 === 0 ? 1 : 4, index % 2 === 0 ? 10 : 22),
    )
    const durations = new RecordedDurations(runs, 1)
    expect([1, 2, 3, 4, 8].map((rows) => meanOf(durations, rows, 15_000))).toEqual(
      [10, 14, 18, 22, 38].map((ms) => expect.closeTo(ms, 1) as number),
    )
  })

  it('are long when they were long: a slow second stays one, for every size', () => {
    // From 10 s to 20 s all takes three times as long, and batches are larger, as they are then.
    const runs = Array.from({ length: 300 }, (_, index) => {
      const slow = index >= 100 && index < 200
      const rows = slow ? 1 + (index % 4) : 1 + (index % 2)
      return run(index * 100, rows, (slow ? 3 : 1) * (5 + 5 * rows))
    })
    const durations = new RecordedDurations(runs, 1)
    for (const rows of [1, 2, 4]) {
      expect(Math.abs(meanOf(durations, rows, 15_000) / (3 * (5 + 5 * rows)) - 1)).toBeLessThan(0.1)
      expect(Math.abs(meanOf(durations, rows, 5000) / (5 + 5 * rows) - 1)).toBeLessThan(0.1)
    }
  })

  it('have what a recording had again when it is gone through again', () => {
    const runs = Array.from({ length: 100 }, (_, index) => run(index * 1000, 1, index === 50 ? 500 : 10))
    const durations = new RecordedDurations(runs, 1)
    const round = (of: number) =>
      Array.from({ length: 100 }, (_, index) => durations.draw('', 1, 0, of * 99_001 + index * 1000)).reduce(
        (sum, ms) => sum + ms,
        0,
      )
    expect([round(0), round(1), round(2)]).toEqual(
      [1490, 1490, 1490].map((ms) => expect.closeTo(ms, 6) as number),
    )
  })

  it('tell how runs slow each other', () => {
    // Pairs that run at once take 1.3 times as long as the single ones between them.
    const random = mulberry32(7)
    const runs = Array.from({ length: 900 }, (_, index) => {
      const inPair = index % 3 !== 0
      const noise = 1 + 0.1 * (random() - 0.5)
      return run(Math.floor(index / 3) * 100 + (index % 3 === 0 ? 0 : 40), 1, (inPair ? 13 : 10) * noise)
    })
    const durations = new RecordedDurations(runs, 1)
    expect(durations.slowing).toBeCloseTo(0.3, 1)
    expect(meanOf(durations, 1, 10_000) / 10).toBeCloseTo(1, 1)
    expect(durations.slowdown(3)).toEqual([1, 1 + durations.slowing, 1 + 2 * durations.slowing])
  })

  it('of one run are those of that run', () => {
    expect(new RecordedDurations([run(0, 2, 7)], 1).draw('', 2, 0, 1000)).toBe(7)
  })
})

describe('how many run at once', () => {
  it('is counted for as long as each goes on', () => {
    // The second has the first beside it for half of its time, and the third for the other half.
    expect([...runningAtOnce([run(0, 1, 10), run(5, 1, 10), run(10, 1, 20)])]).toEqual([1.5, 2, 1.25])
  })
})
