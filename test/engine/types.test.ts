import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../abuse/refusal.ts'
import type { FeedValue } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { batchSizes, largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { sample, tensorTypes } from '../support/samples.ts'

const engine = sharedEngine()

describe.each(tensorTypes)('%s', (type) => {
  const rows = (...counts: number[]) => counts.map((count) => ({ x: sample(type, [count, 4]) }))

  it('comes back bit for bit from requests of one row, of several and of none that share a batch', async () => {
    const model = await load(engine, small.identity(type))
    expect(model.metadata.maxBatchSize).toBe(32)
    await matchesPlain(model, rows(1, 3, 0, 1, 7, 0, 2, 32, 1))
    expect(largestBatch(model)).toBe(32)
  })

  it('comes back bit for bit from a single row and from rows without elements', async () => {
    const model = await load(engine, small.identity(type))
    await matchesPlain(model, rows(1))
    await matchesPlain(model, rows(0))
    expect(batchSizes(model)).toEqual([0, 1])
  })

  it('comes back bit for bit when inner dimensions vary within one burst', async () => {
    const model = await load(engine, small.identityVariable(type))
    const lengths = [3, 1, 3, 0, 64, 1, 3, 0, 1000, 5]
    await matchesPlain(
      model,
      lengths.map((length, index) => ({ x: sample(type, [index % 3 === 2 ? 2 : 1, length]) })),
    )
    await matchesPlain(
      model,
      lengths.map((length, index) => ({ x: sample(type, [index % 4, length]) })),
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('comes back bit for bit as a scalar', async () => {
    const model = await load(engine, small.identityScalar(type))
    await matchesPlain(
      model,
      [1, 2, 3].map(() => ({ x: sample(type, []) })),
    )
  })

  it('comes back bit for bit from a model whose shapes are all fixed', async () => {
    const model = await load(engine, small.identityUnbatched(type, [2, 3]))
    expect(model.metadata.maxBatchSize).toBe(0)
    await matchesPlain(
      model,
      [1, 2, 3, 4, 5].map(() => ({ x: sample(type, [2, 3]) })),
    )
  })

  it('comes back bit for bit from a model that takes any rank', async () => {
    const model = await load(engine, small.unknownRank(type))
    const shapes = [[4], [], [2, 2], [0], [1, 2, 1, 3], [2, 2], [1]]
    await matchesPlain(
      model,
      shapes.map((dims) => ({ x: sample(type, dims) })),
    )
  })
})

it('what data has to be is said in words', async () => {
  const model = await load(engine, small.identity('int32'))
  const received = (x: unknown) => rejectionOf(() => model.infer({ x: x as FeedValue }))
  expect(await received(new Float32Array(4))).toMatchObject({
    code: 'ERR_INVALID_ARG',
    expected: 'an Int32Array',
  })
  expect(await received([1, 2, 3, 4])).toMatchObject({ expected: 'a Tensor or an Int32Array' })
})
