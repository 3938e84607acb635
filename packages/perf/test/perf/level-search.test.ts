import { describe, expect, it } from 'vitest'
import { type LevelRange, searchLevels } from '../../src/perf/perf-run.ts'
import type { LevelResult } from '../../src/perf/result.ts'

/** Levels in the order in which they are measured, of a model that keeps its threshold up to `meetsUpTo`, and is stable up to `stableUpTo`. */
async function searched(
  range: LevelRange,
  binarySearch: boolean,
  meetsUpTo = Infinity,
  stableUpTo = Infinity,
): Promise<number[]> {
  const measure = (level: number) =>
    Promise.resolve({
      result: { level, stable: level <= stableUpTo } as LevelResult,
      meetsThreshold: level <= meetsUpTo,
    })
  return (await searchLevels({ range, binarySearch }, measure)).map(({ level }) => level)
}

describe('levels one after the other', () => {
  it('go from start to end by the step', async () => {
    expect(await searched({ start: 1, end: 8, step: 3 }, false)).toEqual([1, 4, 7])
    expect(await searched({ start: 4, end: 4, step: 1 }, false)).toEqual([4])
  })

  it('reach an end that is a sum of fractions', async () => {
    expect(await searched({ start: 0.1, end: 0.5, step: 0.1 }, false)).toHaveLength(5)
    for (let index = 0; index < 1000; index++) {
      // All in tenths, where there is no rounding.
      const [start, step, count] = [1 + ((index * 7) % 97), 1 + (index % 9), index % 50]
      expect(
        await searched({ start: start / 10, end: (start + count * step) / 10, step: step / 10 }, false),
      ).toHaveLength(count + 1)
    }
  })

  it('are one where start and end are so large that a step changes nothing', async () => {
    expect(await searched({ start: 1e17, end: 1e17, step: 1 }, false)).toEqual([1e17])
  })

  it('end with the first that goes over the threshold, or is not stable', async () => {
    expect(await searched({ start: 1, end: 100, step: 1 }, false, 3)).toEqual([1, 2, 3, 4])
    expect(await searched({ start: 1, end: 100, step: 1 }, false, Infinity, 1)).toEqual([1, 2])
  })

  it('have no other end where that is 0', async () => {
    expect(await searched({ start: 10, end: 0, step: 10 }, false, 200)).toHaveLength(21)
  })

  it('end when the user has had enough', async () => {
    const controller = new AbortController()
    const levels = await searchLevels(
      { range: { start: 1, end: 0, step: 1 }, binarySearch: false },
      (level) => {
        if (level === 3) controller.abort()
        return Promise.resolve({ result: { level, stable: true } as LevelResult, meetsThreshold: true })
      },
      controller.signal,
    )
    expect(levels.map(({ level }) => level)).toEqual([1, 2, 3])
  })
})

describe('levels by halves', () => {
  it('begin with start, which has to keep the threshold, and end, which has not to', async () => {
    expect(await searched({ start: 1, end: 9, step: 1 }, true, 0)).toEqual([1])
    expect(await searched({ start: 1, end: 9, step: 1 }, true, 100)).toEqual([1, 9])
  })

  it('close in on the last level that keeps it, to the width of a step', async () => {
    expect(await searched({ start: 1, end: 100, step: 1 }, true, 37)).toEqual([
      1, 100, 50, 25, 37, 43, 40, 38,
    ])
    expect(await searched({ start: 0, end: 1, step: 0.125 }, true, 0.4)).toEqual([0, 1, 0.5, 0.25, 0.375])
  })

  it('take one that is not stable for one that does not keep it', async () => {
    expect(await searched({ start: 1, end: 5, step: 1 }, true, Infinity, 2)).toEqual([1, 5, 3, 2])
  })

  it('are one where start and end are', async () => {
    expect(await searched({ start: 4, end: 4, step: 1 }, true)).toEqual([4])
  })
})
