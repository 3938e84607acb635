import { describe, expect, it } from 'vitest'
import { loadedSamples, sampleOrder } from '../../../src/perf/scenarios/random-draws.ts'
import { resolveScenario, type ScenarioOptions } from '../../../src/perf/scenarios/scenario-settings.ts'

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
