// Alone: it measures the memory of its process.
import { describe, expect, it } from 'vitest'
import type { SampleSource } from '../../src/perf/input/sample-source.ts'
import { measureLoad } from '../../src/tune/measure-load.ts'
import { gatherRow } from '../../../../test/models/small.ts'
import { load, sharedEngine } from '../../../../test/support/open.ts'

const engine = sharedEngine()
/** Rows of a table of 8, one after the other. */
const asking = (index: bigint): SampleSource => ({
  size: 1,
  next: () => ({ feeds: { index: new BigInt64Array([index]) }, rows: 1 }),
})
const task = { type: 'measure', name: 'model', load: { concurrency: 4 }, warmupMs: 20, windowMs: 50 } as const

describe('a measurement', () => {
  it('tells what a model serves, and the most memory that the process had', async () => {
    const { measurement, failure, runMs } = await measureLoad(
      await load(engine, gatherRow()),
      asking(1n),
      task,
    )
    expect({ failure, failures: measurement.failures }).toEqual({ failure: null, failures: 0 })
    expect(measurement.rowsPerSecond).toBeGreaterThan(0)
    expect(runMs).toBeGreaterThan(0)
    expect(measurement.memoryBytes).toBeGreaterThanOrEqual(0.9 * process.memoryUsage.rss())
  })

  it('tells why requests fail, in the words of the model', async () => {
    const { measurement, failure } = await measureLoad(await load(engine, gatherRow()), asking(100n), task)
    expect(measurement.failures).toBeGreaterThan(0)
    expect(failure).toMatch(
      /^\d+ requests with ERR_EXECUTION failed: .*indices element out of data bounds, idx=100/s,
    )
  })
})
