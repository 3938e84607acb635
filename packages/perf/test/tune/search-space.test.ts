import { describe, expect, it } from 'vitest'
import { batchSizesOf, delaysOf, layoutsOf, roundNumber, saturating } from '../../src/tune/configuration.ts'

const shown = (layouts: ReturnType<typeof layoutsOf>) =>
  layouts.map(({ instances, threads }) => `${instances}x${threads}`)

describe('layouts', () => {
  it('keep at most all cores busy, those that keep all of them first', () => {
    expect(shown(layoutsOf({}, 1))).toEqual(['1x1'])
    expect(shown(layoutsOf({}, 2))).toEqual(['1x2', '2x1', '1x1'])
    expect(shown(layoutsOf({}, 6)).slice(0, 3)).toEqual(['1x6', '2x3', '6x1'])
    for (const cores of [3, 8, 48])
      expect(layoutsOf({}, cores).every(({ instances, threads }) => instances * threads <= cores)).toBe(true)
  })

  it('are those that are named, whatever they come to', () => {
    expect(shown(layoutsOf({ instances: [3], threads: [1, 5] }, 2)).sort()).toEqual(['3x1', '3x5'])
    expect(shown(layoutsOf({ instances: [4] }, 2))).toEqual(['4x1'])
  })
})

describe('batch sizes', () => {
  it('go up to 128 by twos, hold a request, and are those that are named', () => {
    expect(batchSizesOf({}, true, 1)).toEqual([1, 2, 4, 8, 16, 32, 64, 128])
    expect(batchSizesOf({}, true, 5)).toEqual([8, 16, 32, 64, 128])
    expect(batchSizesOf({}, true, 300)).toEqual([300])
    expect(batchSizesOf({ batchSizes: [6, 3, 3] }, true, 1)).toEqual([3, 6])
  })

  it('are none where requests are not joined', () => {
    expect(batchSizesOf({ batchSizes: [8] }, false, 1)).toEqual([0])
  })
})

describe('delays', () => {
  it('are parts of a run, in round numbers, beside none', () => {
    expect(delaysOf({}, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 1 })).toEqual([0, 10, 50])
    expect(delaysOf({ delaysMs: [5, 0] }, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 1 })).toEqual([0, 5])
  })

  it('are none where a batch has one request', () => {
    expect(delaysOf({ delaysMs: [5] }, { maxBatchSize: 1, runMs: 37, rowsPerRequest: 1 })).toEqual([0])
    expect(delaysOf({}, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 5 })).toEqual([0])
  })

  it('are 1, 2 or 5 times a power of ten', () => {
    expect([0.013, 0.3, 1, 3, 6.5, 80, 0].map(roundNumber)).toEqual([0.01, 0.2, 1, 2, 5, 100, 0])
  })
})

it('two full batches for each instance saturate', () => {
  const configuration = { instances: 2, threads: 1, maxBatchSize: 8, maxQueueDelayMs: 0 }
  expect(saturating(configuration, 1)).toBe(32)
  expect(saturating(configuration, 4)).toBe(8)
  expect(saturating({ ...configuration, maxBatchSize: 0 }, 1)).toBe(4)
})
