import { describe, expect, it } from 'vitest'
import type { CalibrationPoint } from '../../src/tune/calibrate.ts'
import { nextPoint, pointToRepeat } from '../../src/tune/next-point.ts'

const layout = { instances: 1, threads: 1 }
const batchSizes = [1, 2, 4, 8, 16, 32, 64, 128]

/** What is calibrated one after the other, where each batch size gives so many rows a second. */
function calibrated(rowsPerSecond: Readonly<Record<number, number>>): number[] {
  const points: CalibrationPoint[] = []
  for (
    let next = nextPoint(points, [layout], batchSizes, () => true);
    next !== null;
    next = nextPoint(points, [layout], batchSizes, () => true)
  ) {
    const measurement = {
      rowsPerSecond: rowsPerSecond[next.maxBatchSize] ?? 1,
      p50Ms: 1,
      p99Ms: 1,
      memoryBytes: 1,
      meanBatchRows: 1,
      failures: 0,
    }
    points.push({ ...next, runMs: 1, measurement, failure: null, isOwnMemory: true, times: 1 })
  }
  return points.map(({ maxBatchSize }) => maxBatchSize)
}

describe('batch sizes to calibrate', () => {
  it('are every third, then those beside the best', () => {
    expect(calibrated({ 1: 10, 4: 40, 8: 80, 16: 60, 64: 60 })).toEqual([1, 8, 64, 4, 16])
  })

  it('are larger ones too while they give nearly as much: the best may have met a better moment', () => {
    expect(calibrated({ 1: 10, 8: 60, 16: 70, 32: 100, 64: 90, 128: 110 })).toContain(128)
    expect(calibrated({ 1: 10, 8: 60, 16: 70, 32: 100, 64: 80, 128: 110 })).not.toContain(128)
  })
})

describe('a batch size that is measured once more', () => {
  const point = (maxBatchSize: number, rowsPerSecond: number, times = 1): CalibrationPoint => {
    const measurement = { rowsPerSecond, p50Ms: 1, p99Ms: 1, memoryBytes: 1, meanBatchRows: 1, failures: 0 }
    return { ...layout, maxBatchSize, runMs: 1, measurement, failure: null, isOwnMemory: true, times }
  }
  const repeated = (...points: CalibrationPoint[]) =>
    pointToRepeat(points, [layout], () => true)?.maxBatchSize ?? null

  it('gave less than with both fewer and more rows', () => {
    expect(repeated(point(1, 33), point(4, 38), point(8, 36), point(16, 37))).toBe(8)
    expect(repeated(point(1, 33), point(4, 38), point(8, 36, 2), point(16, 37))).toBeNull()
  })

  it('gave much less than with fewer', () => {
    expect(repeated(point(1, 33), point(4, 38), point(8, 30))).toBe(8)
    expect(repeated(point(1, 33), point(4, 38), point(8, 36))).toBeNull()
  })
})
