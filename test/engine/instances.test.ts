import { expect, it } from 'vitest'
import * as small from '../models/small.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, ownEngine } from '../support/open.ts'
import { feedsOf } from '../support/plain.ts'
import { expectClose } from '../support/same.ts'
import { noise, sample } from '../support/samples.ts'

const counts = Array.from({ length: 60 }, (_, index) => 1 + (index % 3))

it.each([1, 2, 3])('%i instances on two workers answer a burst as one does', async (count) => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const instanceGroup = [{ kind: 'cpu', count }] as const
  const sums = await load(engine, small.addSub('float32'), { instanceGroup })
  await matchesPlain(
    sums,
    counts.map((rows) => ({ a: noise([rows, 16]), b: noise([rows, 16]) })),
  )
  expect(largestBatch(sums)).toBeGreaterThan(1)
  const lying = await load(engine, small.lyingShape('hidden'), { instanceGroup })
  await matchesPlain(
    lying,
    counts.map((rows) => ({ x: noise([rows, 4]) })),
  )
  const compressed = await load(engine, small.compress('N'), { instanceGroup })
  const keep = { type: 'bool', dims: [2], data: Uint8Array.of(0, 1) } as const
  await matchesPlain(
    compressed,
    counts.map(() => ({ x: noise([2, 4]), keep })),
  )
})

it('two groups of one instance each are on workers of their own', async () => {
  const engine = ownEngine({ cpuWorkers: 2 })
  await load(engine, small.identity('float32'), {
    instanceGroup: [
      { kind: 'cpu', count: 1 },
      { kind: 'cpu', count: 1 },
    ],
  })
  expect(engine.capabilities().cpu.workers).toBe(2)
})

it('models that are loaded at once are spread over the workers', async () => {
  const engine = ownEngine({ cpuWorkers: 3 })
  await Promise.all([1, 2, 3].map(() => load(engine, small.identity('float32'))))
  expect(engine.capabilities().cpu.workers).toBe(3)
})

it('both workers take requests of a model with two instances', async () => {
  const engine = ownEngine({ cpuWorkers: 2 })
  const one = await load(engine, small.matmulSlow(256, 100), { dynamicBatching: false })
  const two = await load(engine, small.matmulSlow(256, 100), {
    dynamicBatching: false,
    instanceGroup: [{ kind: 'cpu', count: 2 }],
  })
  expect(engine.capabilities().cpu.workers).toBe(2)
  for (const [model, instances] of [
    [one, 1],
    [two, 2],
  ] as const) {
    const x = noise([1, 256])
    const reports = await Promise.all(
      Array.from({ length: 40 }, () => model.infer(feedsOf({ x }), { report: true })),
    )
    expect(new Set(reports.map(({ report }) => report.instance)).size).toBe(instances)
    expect(model.stats().executionCount).toBe(40)
  }
})

it('many models in one engine answer at once, each its own callers', async () => {
  const engine = ownEngine()
  const float = await load(engine, small.identity('float32'))
  const words = await load(engine, small.identity('string'))
  const whole = await load(engine, small.identity('int64'))
  const ragged = await load(engine, small.identityVariable('uint8'))
  const sums = await load(engine, small.addSub('float64'))
  const turned = await load(engine, small.matmulSlow(32, 5))
  const uniques = await load(engine, small.unique())
  const requests = <T>(make: (rows: number) => T): T[] => counts.map((rows) => make(rows))
  await Promise.all([
    matchesPlain(
      float,
      requests((rows) => ({ x: sample('float32', [rows, 4]) })),
    ),
    matchesPlain(
      words,
      requests((rows) => ({ x: sample('string', [rows, 4]) })),
    ),
    matchesPlain(
      whole,
      requests((rows) => ({ x: sample('int64', [rows, 4]) })),
    ),
    matchesPlain(
      ragged,
      requests((rows) => ({ x: sample('uint8', [rows, rows * 5]) })),
    ),
    matchesPlain(
      sums,
      requests((rows) => ({ a: noise64(rows), b: noise64(rows) })),
    ),
    matchesPlain(
      turned,
      requests((rows) => ({ x: noise([rows, 32]) })),
      { same: expectClose },
    ),
    matchesPlain(
      uniques,
      requests(() => ({ x: noise([12]) })),
    ),
  ])
  for (const model of [float, words, whole, ragged, sums, turned])
    expect(largestBatch(model)).toBeGreaterThan(1)
})

it('one file serves under several names and with several configurations', async () => {
  const engine = ownEngine({ inline: false }) // inline runs may have more rows
  const path = small.identity('float32')
  const configs = [{}, { maxBatchSize: 4 }, { maxBatchSize: 0 }, { dynamicBatching: false }] as const
  const models = await Promise.all(configs.map((config) => load(engine, path, config)))
  const requests = counts.map((rows) => ({ x: sample('float32', [rows, 4]) }))
  await Promise.all(models.map((model) => matchesPlain(model, requests)))
  // Where it leaves one or two rows of 32 free, the next request had more.
  expect(models.map(largestBatch)).toEqual([expect.toBeOneOf([30, 31, 32]), 4, 1, 3])
})

function noise64(rows: number) {
  return {
    type: 'float64',
    dims: [rows, 16],
    data: Float64Array.from(noise([rows, 16]).data as Float32Array),
  } as const
}
