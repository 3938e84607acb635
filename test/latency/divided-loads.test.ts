import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BatchLimits } from '../../src/options/batching.ts'
import { ClosedLoop } from './closed-loop.ts'

const limits: BatchLimits = {
  maxBatchSize: 64,
  preferredBatchSizes: [],
  maxQueueDelayMs: 0,
  joinRequests: true,
}

/** What loads give where they may be divided, by what they give where not, from the first second to the fifth. */
function compared(
  callers: number,
  runMs: (rows: number) => number,
  change: (loop: ClosedLoop, ms: number) => void = () => {},
  [fromMs, endMs]: readonly [number, number] = [1000, 5000],
) {
  const [divided, whole] = [true, false].map((divides) => {
    const loop = new ClosedLoop(limits, callers, runMs, divides)
    for (let ms = 0; ms < endMs; ms += 50) {
      change(loop, ms)
      loop.until(ms + 50)
    }
    return loop.figures(fromMs, endMs)
  }) as [ReturnType<ClosedLoop['figures']>, ReturnType<ClosedLoop['figures']>]
  return {
    rate: divided.perMs / whole.perMs,
    p99: divided.p99Ms / whole.p99Ms,
    longest: divided.longestMs / whole.longestMs,
  }
}

describe('callers in turn before the queue and a worker', () => {
  it('are served in one batch again after a trial in vain, although halves would go on by themselves', () => {
    const loop = new ClosedLoop(limits, 64, () => 0.2).until(200)
    expect(loop.sizes).toContain(32)
    expect(new Set(loop.sizes.slice(-100))).toEqual(new Set([64]))
  })

  it('gain by halves where runs and answers overlap, for as long as that lasts', () => {
    expect(compared(64, (rows) => 0.02 + 0.002 * rows).rate).toBeGreaterThan(1.5)
  })

  it.each([33, 64, 90])(
    'lose nothing by it where a run takes as long however few rows it has (%d callers)',
    (callers) => {
      expect(compared(callers, () => 0.2).rate).toBeGreaterThan(0.98)
    },
  )

  it('lose hardly anything though their number changes all the time, and soon nothing', () => {
    const change = (loop: ClosedLoop, ms: number) => void (loop.callers = ms % 300 < 150 ? 64 : 30)
    expect(compared(64, () => 0.2, change).rate).toBeGreaterThan(0.97)
    const { rate, p99 } = compared(64, () => 0.2, change, [10_000, 20_000])
    expect(rate).toBeGreaterThan(0.99)
    expect(p99).toBeLessThan(1.1)
  })

  it.each(Array.from({ length: 12 }, (_, index) => 20 + 10 * index))(
    'are served as a whole again where fewer are left in the middle of a trial (%d ms)',
    (changedAtMs) => {
      const loop = new ClosedLoop(limits, 64, () => 0.2).until(changedAtMs)
      loop.callers = 40
      loop.until(3000)
      expect(loop.sizes.slice(-1000).filter((rows) => rows < 40).length).toBeLessThan(300)
    },
  )

  it('are served as a whole again where fewer are left in a trial, none of which is waited for in vain', () => {
    for (let changedAtMs = 10; changedAtMs < 60; changedAtMs++) {
      const loop = new ClosedLoop(limits, 64, () => 0.2).until(changedAtMs)
      loop.callers = 20
      expect([changedAtMs, new Set(loop.until(500).sizes.slice(-100))]).toEqual([changedAtMs, new Set([20])])
    }
  })

  it('lose little whatever their numbers and runs are, and none waits for long', () => {
    const phase = fc.record({
      callers: fc.integer({ min: 1, max: 100 }),
      ms: fc.integer({ min: 1, max: 20 }),
    })
    const history = fc.record({
      phases: fc.array(phase, { minLength: 1, maxLength: 4 }),
      fixedMs: fc.double({ min: 0.02, max: 0.5, noNaN: true }),
      rowMs: fc.double({ min: 0, max: 0.01, noNaN: true }),
    })
    const rates = fc.sample(history, 30).map(({ phases, fixedMs, rowMs }) => {
      const turns = phases.flatMap(({ callers, ms }) => Array.from({ length: ms }, () => callers))
      const runMs = (rows: number) => fixedMs + rowMs * rows
      const change = (loop: ClosedLoop, ms: number) => void (loop.callers = turns[(ms / 50) % turns.length]!)
      const { rate, longest } = compared(turns[0]!, runMs, change, [0, 2000])
      expect(longest).toBeLessThan(3)
      return rate
    })
    expect(rates.reduce((sum, rate) => sum + Math.log(rate), 0) / rates.length).toBeGreaterThan(
      Math.log(0.97),
    )
    // Fewer callers than before may come to be in two batches that follow each other, with or without parts: that is chance.
    expect(rates.filter((rate) => rate < 0.93).length).toBeLessThanOrEqual(3)
  }, 30_000)

  it('that are one more than were seen as a whole come together again', () => {
    const change = (loop: ClosedLoop, ms: number) => void (loop.callers = ms % 150 === 0 ? 25 : 24)
    expect(compared(25, () => 0.086, change, [0, 2000]).rate).toBeGreaterThan(0.95)
  })

  it('are served as a whole soon once halves, which gave more, give less', () => {
    const { rate } = compared(64, (rows) => 0.02 + 0.002 * rows, (loop, ms) => {
      if (ms >= 1000) loop.runMs = () => 0.2
    }) // prettier-ignore
    expect(rate).toBeGreaterThan(0.9)
  })
})
