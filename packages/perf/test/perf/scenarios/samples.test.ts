import { describe, expect, it } from 'vitest'
import { estimatePercentile, isEnough, minPassingQueries } from '../../../src/perf/scenarios/judge-run.ts'
import {
  drawBelow,
  drawGap,
  loadedSamples,
  MersenneTwister,
  sampleOrder,
  shuffle,
} from '../../../src/perf/scenarios/random-draws.ts'
import { resolveScenario, type ScenarioOptions } from '../../../src/perf/scenarios/scenario-settings.ts'

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

/** What a program of g++ 12 prints for the same seeds. */
describe('random numbers as the C++ library draws them', () => {
  it('are those of std::mt19937, whose 10000th is fixed by the standard', () => {
    const random = new MersenneTwister(5489n)
    for (let drawn = 1; drawn < 10_000; drawn++) random.next()
    expect(random.next()).toBe(4_123_659_995)
  })

  it('begin with the low 32 bits of a seed', () => {
    expect(new MersenneTwister(7n + 5n * 2n ** 32n).next()).toBe(new MersenneTwister(7n).next())
  })

  it('have the gaps of std::exponential_distribution', () => {
    const random = new MersenneTwister(16159082839903944936n)
    const gaps = Array.from({ length: 8 }, () => drawGap(random, 500))
    const expected = [
      0.0036873080338310558, 0.00091584737741150517, 0.0025717246330298942, 0.0014259894479962344,
      0.00077281325162625696, 0.0044966833866183237, 0.0021831598362238185, 0.00020349389328213892,
    ]
    for (const [index, gap] of gaps.entries()) expect(gap).toBeCloseTo(expected[index]!, 15)
  })

  it('are whole numbers of std::uniform_int_distribution, also of wide ranges, where some are drawn again', () => {
    const random = new MersenneTwister(7n)
    expect(Array.from({ length: 6 }, () => drawBelow(random, 4_000_000_001))).toEqual([
      305233164, 3119675183, 1275888910, 1753636899, 3912891585, 2893860719,
    ])
  })

  it('shuffle as std::shuffle, also more than it takes two at a time', () => {
    const items = Uint32Array.from({ length: 70_001 }, (_, index) => index)
    shuffle(items, new MersenneTwister(9n))
    expect(Array.from(items.subarray(0, 8))).toEqual([39437, 53659, 60244, 20923, 38668, 24919, 51729, 49575])
  })
})

/** What LoadGen 6.0.17 (PyPI's mlcommons-loadgen) asked a system for, of 100 samples with 64 of them in memory. */
const options = { totalSampleCount: 100, performanceSampleCount: 64, minQueryCount: 700 }

const queries = (own: Partial<ScenarioOptions> & Pick<ScenarioOptions, 'scenario'>, count: number) => {
  const order = sampleOrder(resolveScenario({ ...options, ...own }))
  return Array.from({ length: count }, () => {
    const samples = new Uint32Array(order.samplesPerQuery)
    order.next(samples)
    return [...samples]
  })
}

describe('the samples of a run', () => {
  it('are loaded in the order of LoadGen', () => {
    const loaded = loadedSamples(resolveScenario({ ...options, scenario: 'server' }))
    expect(Array.from(loaded.subarray(0, 24))).toEqual([
      1, 5, 13, 44, 11, 37, 58, 36, 60, 33, 17, 42, 26, 51, 29, 9, 25, 6, 56, 41, 3, 63, 27, 54,
    ])
    expect([...loaded].sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, index) => index))
  })

  it.each(['single-stream', 'server'] as const)('are asked for by %s as by LoadGen', (scenario) => {
    expect(queries({ scenario }, 12).flat()).toEqual([36, 26, 17, 21, 3, 5, 26, 5, 49, 22, 28, 62])
  })

  it('are asked for by multi-stream as by LoadGen, consecutive ones in a query', () => {
    expect(queries({ scenario: 'multi-stream' }, 5)).toEqual([
      [49, 32, 50, 46, 48, 52, 31, 4],
      [50, 46, 48, 52, 31, 4, 35, 21],
      [24, 7, 20, 47, 53, 22, 12, 43],
      [56, 41, 3, 63, 27, 54, 23, 40],
      [0, 39, 30, 8, 28, 59, 10, 14],
    ])
  })

  it('are asked for by offline in turn', () => {
    const samples = queries({ scenario: 'offline' }, 700).flat()
    expect(samples.slice(0, 12)).toEqual([1, 5, 13, 44, 11, 37, 58, 36, 60, 33, 17, 42])
    expect(samples.slice(64, 128)).toEqual(samples.slice(0, 64))
  })
})
