import { describe, expect, it } from 'vitest'
import * as small from '../models/small.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import type { Sample } from '../support/plain.ts'
import { expectClose } from '../support/same.ts'
import { floats, noise, sample } from '../support/samples.ts'

const engine = sharedEngine()
const counts = [1, 2, 1, 5, 1, 3, 0, 1]
const keep = (...values: number[]): Sample => ({
  type: 'bool',
  dims: [values.length],
  data: Uint8Array.from(values),
})
const index = (...values: number[]): Sample => ({
  type: 'int64',
  dims: [values.length, 1],
  data: BigInt64Array.from(values, BigInt),
})

const addable = ['float32', 'float64', 'float16', 'int32', 'int64'] as const

describe('a model with several inputs and outputs', () => {
  it.each(addable)('adds and subtracts rows of %s of several callers', async (type) => {
    const model = await load(engine, small.addSub(type))
    await matchesPlain(
      model,
      counts.map((rows) => ({ a: sample(type, [rows, 16]), b: sample(type, [rows, 16]) })),
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('takes inputs of different types', async () => {
    const model = await load(engine, small.twoInputsDifferentTypes())
    await matchesPlain(
      model,
      counts.map((rows) => ({
        a: noise([rows, 4]),
        b: index(...Array.from({ length: rows }, (_, i) => i * 7)),
      })),
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('takes the feeds in any order', async () => {
    const model = await load(engine, small.addSub('int32'))
    await matchesPlain(model, [{ b: sample('int32', [2, 16]), a: sample('int32', [2, 16]) }])
  })

  it('joins strings row by row', async () => {
    const model = await load(engine, small.stringConcat())
    await matchesPlain(
      model,
      counts.map((rows) => ({ a: sample('string', [rows, 2]), b: sample('string', [rows, 2]) })),
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('leaves out an input that has a default', async () => {
    const model = await load(engine, small.defaultedInput())
    expect(model.metadata.inputs.map(({ name }) => name)).toEqual(['x'])
    await matchesPlain(
      model,
      counts.map((rows) => ({ x: noise([rows, 4]) })),
    )
  })
})

describe('a model that computes across a row', () => {
  it('gives rows the same products in a batch as alone', async () => {
    const model = await load(engine, small.withExternalData())
    await matchesPlain(
      model,
      counts.map((rows) => ({ x: noise([rows, 16]) })),
      { same: expectClose },
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })

  it('looks rows up by their index', async () => {
    const model = await load(engine, small.gatherRow())
    await matchesPlain(model, [{ index: index(1, -1) }, { index: index(7) }, { index: index(0, 3, 5) }])
    expect(largestBatch(model)).toBe(6)
  })

  it('is batched on a first dimension without a name', async () => {
    const model = await load(engine, small.unnamedBatch())
    await matchesPlain(
      model,
      counts.map((rows) => ({ x: noise([rows, 4]) })),
    )
    expect(largestBatch(model)).toBeGreaterThan(1)
  })
})

describe('a model that cannot be batched', () => {
  const unbatched = async (path: string) => {
    const model = await load(engine, path)
    expect(model.metadata.maxBatchSize).toBe(0)
    return model
  }

  it('is left unbatched when two inputs have first dimensions of different names', async () => {
    const shapes = [
      [2, 3],
      [1, 1],
      [2, 3],
      [4, 1],
      [0, 2],
    ] as const
    const model = await unbatched(small.pairwise())
    await matchesPlain(
      model,
      shapes.map(([m, n]) => ({ a: noise([m, 4]), b: noise([n, 4]) })),
      { same: expectClose },
    )
  })

  it('is left unbatched when the first dimension occurs twice in an output', async () => {
    const model = await unbatched(small.gram())
    await matchesPlain(
      model,
      [2, 1, 5, 2, 0].map((rows) => ({ x: noise([rows, 4]) })),
      { same: expectClose },
    )
  })

  it('but along other dimensions than the first keeps the state of each caller apart', async () => {
    const model = await load(engine, small.softmaxState())
    expect(model.metadata).toMatchObject({
      maxBatchSize: 32,
      inputs: [{ name: 'x' }, { name: 'state', batchAxis: 1 }],
    })
    await matchesPlain(
      model,
      [1, 3, 1, 2].map((rows) => ({ x: noise([rows, 4]), state: noise([2, rows, 8]) })),
      { same: expectClose },
    )
  })

  it('broadcasts inputs that disagree about a named dimension', async () => {
    const model = await load(engine, small.addSub('float32'), { maxBatchSize: 0 })
    const request = (a: number, b: number) => ({ a: noise([a, 16]), b: noise([b, 16]) })
    await matchesPlain(model, [request(3, 1), request(1, 3), request(2, 2), request(3, 1)])
  })
})

describe('outputs whose size only the run tells', () => {
  it('has the indices of what is not zero', async () => {
    const model = await load(engine, small.nonZero())
    await matchesPlain(model, [
      { x: floats([2, 4], [1, 0, 0, 2, 0, 0, 3, 0]) },
      { x: floats([1, 4], [0, 0, 0, 0]) },
      { x: noise([3, 4]) },
    ])
  })

  it('has the distinct values', async () => {
    const model = await load(engine, small.unique())
    await matchesPlain(model, [
      { x: floats([12], [3, 3, 2, 2, 1, 1, 0, 0, 3, 2, 1, 0]) },
      {
        x: floats(
          [12],
          Array.from({ length: 12 }, () => 4),
        ),
      },
      { x: noise([12]) },
    ])
  })

  it.each(['K', 'N'] as const)('has the rows that were kept, declared as %s', async (rows) => {
    const model = await load(engine, small.compress(rows))
    const requests = [[0, 1], [1], [0], [1, 1, 1], [0, 0]].map((kept) => ({
      x: noise([kept.length, 4]),
      keep: keep(...kept),
    }))
    await matchesPlain(model, requests)
    await matchesPlain(model, requests)
  })

  it.each(['plain', 'hidden'] as const)('is wider than declared (%s)', async (how) => {
    const model = await load(engine, small.lyingShape(how))
    const requests = counts.map((rows) => ({
      x: floats(
        [rows, 4],
        Array.from({ length: rows * 4 }, (_, i) => i),
      ),
    }))
    await matchesPlain(model, requests)
    await matchesPlain(model, requests)
  })
})

describe('a model whose rows influence each other', () => {
  const requests = counts.filter((rows) => rows > 0).map((rows) => ({ x: noise([rows, 4]) }))

  it.each([
    ['maxBatchSize: 0', { maxBatchSize: 0 }],
    ['dynamicBatching: false', { dynamicBatching: false }],
  ] as const)('answers each request as if alone with %s', async (_, config) => {
    await matchesPlain(await load(engine, small.mixesRows(), config), requests)
  })
})
