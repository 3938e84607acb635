import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  paddingOf,
  serverFigures,
} from '../../src/observe/statistics-difference.ts'
import { identity } from '../models/small.ts'
import { load, sharedEngine } from '../support/open.ts'

const engine = sharedEngine()

describe('what an engine says of the time between two looks', () => {
  it('is of the requests in between alone, and adds up to what they took', async () => {
    const model = await load(engine, identity('float32'), { dynamicBatching: { holdUntilQueued: 3 } })
    const ask = (count: number) =>
      Promise.all(
        Array.from({ length: count }, () =>
          model.infer({ x: new Tensor('float32', new Float32Array(4), [1, 4]) }),
        ),
      )
    await ask(3)
    const before = model.stats()
    await ask(3)
    await ask(3)
    const span = { before, after: model.stats() }
    expect(serverFigures(span)).toMatchObject({
      inferenceCount: 6,
      executionCount: 2,
      successCount: 6,
      cacheHitCount: 0,
      cacheMissCount: 0,
    })
    expect(batchSizesOf(span)).toEqual([{ batchSize: 3, count: 2 }])
    expect(Object.values(batchReasonsOf(span)).reduce((sum, count) => sum + count, 0)).toBe(2)
  })

  it('is the mean of a request, and what no part of it has is overhead', async () => {
    const before = (await load(engine, identity('float32'))).stats()
    const parts = { success: 1000, queue: 500, computeInput: 20, computeInfer: 300, computeOutput: 80 }
    const inferenceStats = {
      ...before.inferenceStats,
      ...Object.fromEntries(
        Object.entries(parts).map(([name, us]) => [
          name,
          {
            count: before.inferenceStats.success.count + 4,
            ns: before.inferenceStats[name as 'queue'].ns + 4 * us * 1000,
          },
        ]),
      ),
    }
    expect(serverFigures({ before, after: { ...before, inferenceStats } })).toMatchObject({
      successCount: 4,
      requestUs: 1000,
      queueUs: 500,
      computeInputUs: 20,
      computeInferUs: 300,
      computeOutputUs: 80,
      overheadUs: 100,
    })
  })

  it('is all zeros where nothing was asked', async () => {
    const model = await load(engine, identity('float32'))
    const stats = model.stats()
    const span = { before: stats, after: stats }
    expect(new Set(Object.values(serverFigures(span)))).toEqual(new Set([0]))
    expect([batchSizesOf(span), batchReasonsOf(span), paddingOf(span)]).toEqual([[], {}, {}])
  })

  it('has the share of padding in what was run in between', async () => {
    const before = (await load(engine, identity('float32'))).stats()
    const padded = (ownElements: number, paddedElements: number) => ({
      ...before,
      padding: { ownElements, paddedElements, wasteShare: 0 },
    })
    expect(paddingOf({ before: padded(10, 100), after: padded(90, 200) })).toEqual({
      paddingShare: 1 - 80 / 100,
    })
  })
})
