import { describe, expect, it } from 'vitest'
import type { BatchLimits } from '../../src/config/batching.ts'
import { ClosedLoop } from './closed-loop.ts'

const limits: BatchLimits = { maxBatchSize: 64, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }

/** What loads give where they may be divided, by what they give where not, from the first second to the fifth. */
function compared(callers: number, runMs: (rows: number) => number, change: (loop: ClosedLoop, ms: number) => void = () => {}, [fromMs, endMs]: readonly [number, number] = [1000, 5000]) {
  const [divided, whole] = [true, false].map((divides) => {
    const loop = new ClosedLoop(limits, callers, runMs, divides)
    for (let ms = 0; ms < endMs; ms += 50) {
      change(loop, ms)
      loop.until(ms + 50)
    }
    return loop.figures(fromMs, endMs)
  }) as [{ perMs: number; p99Ms: number }, { perMs: number; p99Ms: number }]
  return { rate: divided.perMs / whole.perMs, p99: divided.p99Ms / whole.p99Ms }
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

  it.each([33, 64, 90])('lose nothing by it where a run takes as long however few rows it has (%d callers)', (callers) => {
    expect(compared(callers, () => 0.2).rate).toBeGreaterThan(0.98)
  })

  it('lose hardly anything though their number changes all the time, and soon nothing', () => {
    const change = (loop: ClosedLoop, ms: number) => void (loop.callers = ms % 300 < 150 ? 64 : 30)
    expect(compared(64, () => 0.2, change).rate).toBeGreaterThan(0.97)
    const { rate, p99 } = compared(64, () => 0.2, change, [10_000, 20_000])
    expect(rate).toBeGreaterThan(0.99)
    expect(p99).toBeLessThan(1.1)
  })

  it('are served as a whole soon once halves, which gave more, give less', () => {
    const { rate } = compared(64, (rows) => 0.02 + 0.002 * rows, (loop, ms) => {
      if (ms >= 1000) loop.runMs = () => 0.2
    }) // prettier-ignore
    expect(rate).toBeGreaterThan(0.9)
  })
})
