import { describe, expect, it } from 'vitest'
import { budgetsOf, configurationKey, optionsFor, withBudgets } from '../../src/tune/configuration.ts'

const cost = { input: 'input_ids', dim: 1 }
const configuration = { instances: 1, threads: 2, maxBatchSize: 8, maxQueueDelayMs: 0 }
const expected = { rowsPerSecond: 10, p50Ms: 1, p99Ms: 2, memoryBytes: 0, meanBatchRows: 8, failures: 0 }

describe('budgets of batches', () => {
  it('are tried where a cost is configured: those around the one that is given, and none', () => {
    expect(budgetsOf(undefined, { dynamicBatching: { cost, maxBatchCost: 600 } })).toEqual([
      300, 600, 1200, 0,
    ])
    expect(budgetsOf(undefined, { dynamicBatching: { cost } })).toEqual([1024, 4096, 16_384, 0])
    expect(budgetsOf([5, 5, 7], { dynamicBatching: { cost } })).toEqual([5, 7])
  })

  it('are none without a cost', () => {
    for (const dynamicBatching of [undefined, false, { maxQueueDelayMs: 5 }] as const)
      expect(budgetsOf([5], dynamicBatching === undefined ? {} : { dynamicBatching })).toEqual([])
  })

  it('stand side by side for each configuration that has batches', () => {
    const prospects = [8, 1].map((maxBatchSize) => ({
      candidate: { configuration: { ...configuration, maxBatchSize }, load: { concurrency: 4 } },
      expected,
    }))
    const keys = withBudgets(prospects, [64, 0]).map(({ candidate }) =>
      configurationKey(candidate.configuration),
    )
    expect(keys).toEqual(['i1 t2 b8 d0 c64', 'i1 t2 b8 d0', 'i1 t2 b1 d0'])
    expect(withBudgets(prospects, [])).toEqual(prospects)
  })

  it('are what the model is loaded with, in the place of the one that was given', () => {
    const given = {
      dynamicBatching: { cost, maxBatchCost: 600, overCostAction: 'REJECT', maxPaddingShare: 0.2 },
    } as const
    expect(optionsFor({ ...configuration, maxBatchCost: 64 }, given, 'cpu').dynamicBatching).toEqual({
      cost,
      maxBatchCost: 64,
      overCostAction: 'REJECT',
      maxPaddingShare: 0.2,
      maxQueueDelayMs: 0,
    })
    expect(optionsFor(configuration, given, 'cpu').dynamicBatching).toEqual({
      cost,
      maxPaddingShare: 0.2,
      maxQueueDelayMs: 0,
    })
  })
})
