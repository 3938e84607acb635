import { describe, expect, it } from 'vitest'
import { estimatePercentile, isEnough, minPassingQueries } from '../../../src/perf/scenarios/judge-run.ts'

const overCounts = [0, 1, 2, 3, 5, 10, 20, 50, 100, 300, 1000]

describe('early stopping', () => {
  it.each([
    [0.9, [44, 63, 79, 94, 122, 187, 305, 631, 1146, 3107, 9722]],
    [0.97, [152, 218, 275, 329, 428, 657, 1077, 2243, 4082, 11106, 34831]],
    [0.99, [459, 661, 836, 998, 1302, 2000, 3284, 6848, 12471, 33962, 106569]],
    [0.999, [4603, 6635, 8401, 10039, 13100, 20130, 33077, 69008, 125726, 342504, 1075032]],
  ])(
    "asks for as many queries as LoadGen's early_stopping.cc for the percentile %d",
    (percentile, passing) => {
      expect(overCounts.map((count) => minPassingQueries(count, percentile))).toEqual(passing)
    },
  )

  it('takes little time for as many queries as ten minutes have', () => {
    expect(isEnough(50_000_000, 495_000, 0.99)).toBe(true)
    expect(isEnough(50_000_000, 499_900, 0.99)).toBe(false)
    expect(isEnough(50_000_000, 700_000, 0.99)).toBe(false)
  })

  it('estimates a percentile by the latency below which all but few enough are', () => {
    const ascending = Float64Array.from({ length: 700 }, (_, index) => index + 1)
    // LoadGen said of 700 queries that it would discard the 50 highest for the percentile 90.
    expect(estimatePercentile(ascending, 0.9)).toEqual({ estimate: 650, discarded: 50 })
    expect(estimatePercentile(ascending, 0.99)).toEqual({ estimate: 700, discarded: 0 })
    expect(estimatePercentile(ascending.subarray(0, 661), 0.99)).toBeNull()
  })
})
