import { describe, expect, it } from 'vitest'
import type { Feeds } from '../../../../src/index.ts'
import type { PerfModel } from '../../src/perf/open-target.ts'
import { calibrateService } from '../../src/perf/service-calibration.ts'

/** A model whose runs take what they are said to, by its own reports: nothing here depends on how fast the machine is. */
function reporting(runMs: (rows: number, running: number) => number): PerfModel {
  const counts = new Map<number, number>()
  let running = 0
  const infer = async (feeds: Feeds) => {
    const rows = feeds['rows'] as unknown as number
    const atOnce = ++running
    counts.set(rows, (counts.get(rows) ?? 0) + 1)
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    const computeMs = runMs(rows, Math.max(atOnce, running))
    running--
    return { outputs: {}, report: { batchSize: rows, computeMs, queuedMs: 0.25 } }
  }
  const duration = (count: number, ms: number) => ({ count, ns: count * ms * 1e6 })
  const stats = () => ({
    batchStats: [...counts].map(([batchSize, count]) => ({
      batchSize,
      computeInput: duration(count, 0.1 + 0.02 * batchSize),
      computeOutput: duration(count, 0.05),
    })),
  })
  return { name: 'reporting', version: 1, metadata: {}, infer, stats } as unknown as PerfModel
}

const settings = { maxBatchSize: 8, seconds: 0.2, feedsOf: (rows: number) => ({ rows }) as unknown as Feeds }

describe('a calibration', () => {
  it('has the run times of each size, with single runs', async () => {
    const { serviceTimes, slowdown } = await calibrateService(
      reporting((rows) => 5 + rows),
      { ...settings, instances: 1 },
    )
    expect(serviceTimes.map(({ rows, ms }) => [rows, ms])).toEqual([
      [1, 6],
      [2, 7],
      [4, 9],
      [8, 13],
    ])
    expect(serviceTimes.every(({ samplesMs }) => samplesMs!.length >= 5)).toBe(true)
    expect(slowdown).toEqual([1])
  })

  it('has what gathering and handing out cost, for a batch and for each row', async () => {
    const { overheads } = await calibrateService(
      reporting(() => 1),
      { ...settings, instances: 1 },
    )
    expect(overheads.gatherMs).toBeCloseTo(0.1, 6)
    expect(overheads.gatherRowMs).toBeCloseTo(0.02, 6)
    expect(overheads.scatterMs).toBeCloseTo(0.05, 6)
    expect(overheads.scatterRowMs).toBeCloseTo(0, 6)
    expect(overheads.handOverMs).toBe(0.25)
  })

  it('tells by how much instances slow each other', async () => {
    const { serviceTimes, slowdown } = await calibrateService(
      reporting((rows, running) => (running > 1 ? 1.5 : 1) * rows),
      { ...settings, instances: 3 },
    )
    expect(serviceTimes[0]).toMatchObject({ rows: 1, ms: 1 })
    expect(slowdown).toEqual([1, 1.25, 1.5])
  })

  it('names the shape that it is of', async () => {
    const { serviceTimes } = await calibrateService(
      reporting(() => 1),
      { ...settings, instances: 1, bucketKey: 'long' },
    )
    expect(serviceTimes.every(({ bucketKey }) => bucketKey === 'long')).toBe(true)
  })
})
