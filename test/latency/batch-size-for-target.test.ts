import { describe, expect, it } from 'vitest'
import { candidateSizes, chooseBatchSize, LatencyTarget } from '../../src/schedule/batch-sizer.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'

const limits = { preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }

/** Runs that take 1 ms and 0.1 ms per row. */
function known(): RunTimes {
  const runTimes = new RunTimes()
  for (let run = 0; run < 4; run++)
    for (let rows = 1; rows <= 1024; rows *= 2) runTimes.observe('', rows, 1 + rows / 10)
  return runTimes
}

describe('the batch sizes that a latency target chooses from', () => {
  it('are all of them up to 64', () => {
    expect(candidateSizes(1)).toEqual([1])
    expect(candidateSizes(3)).toEqual([1, 2, 3])
    expect(candidateSizes(64)).toEqual(Array.from({ length: 64 }, (_, index) => index + 1))
  })

  it.each([65, 100, 1000, 65_536, 1_000_000, 2 ** 31 - 1])(
    'are close to each other and few up to %i, itself and powers of two among them',
    (most) => {
      const sizes = candidateSizes(most)
      expect(sizes.length).toBeLessThan(500)
      expect(sizes.at(-1)).toBe(most)
      for (let power = 1; power < most; power *= 2) expect(sizes).toContain(power)
      for (const [index, size] of sizes.entries())
        expect(size).toBeLessThanOrEqual(
          Math.max((sizes[index - 1] ?? 0) + 1, 1.0625 * (sizes[index - 1] ?? 0)),
        )
    },
  )
})

describe('a latency target', () => {
  it.each([200_000, 2 ** 31 - 1])(
    'finds the same size with a largest batch of %i rows as with one of 1024',
    (maxBatchSize) => {
      const chosen = (most: number) => {
        const target = new LatencyTarget({ ...limits, maxBatchSize: most }, 50, known(), 1)
        const [first] = target.limits('').preferredBatchSizes
        target.review('', 1)
        return [first, target.limits('').preferredBatchSizes[0]]
      }
      expect(chosen(maxBatchSize)).toEqual(chosen(1024))
      expect(chosen(1024)[0]).toBeGreaterThan(64)
    },
  )

  it('chooses among as many preferred sizes as there are', () => {
    const sizes = Array.from({ length: 200_000 }, (_, index) => index + 1)
    const best = chooseBatchSize(sizes, { bucketKey: '', runTimes: known(), targetMs: 50, instances: 1 })
    expect(best).toBeGreaterThan(64)
    expect(best).toBeLessThan(1024)
  })
})
