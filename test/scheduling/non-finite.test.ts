import { describe, expect, it } from 'vitest'
import { Tensor, type ModelConfig } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { feedsOf, type Sample } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { sample } from '../support/samples.ts'
import { outcomeOf, outcomesOf, rejectedCount, reported, settledCount } from './outcome.ts'

const engine = sharedEngine()
type Guard = NonNullable<ModelConfig['rejectNonFinite']>

/** Of each floating-point type: values that are finite, up to the ends of its range, and values that are not. */
const values = {
  float32: {
    finite: Float32Array.of(0, -0, 1.5, -3.4028234663852886e38, 3.4028234663852886e38, 1e-45),
    strange: Float32Array.of(NaN, Infinity, -Infinity),
  },
  float64: {
    finite: Float64Array.of(0, -0, 1.5, -Number.MAX_VALUE, Number.MAX_VALUE, 5e-324),
    strange: Float64Array.of(NaN, Infinity, -Infinity),
  },
  float16: {
    finite: Uint16Array.of(0, 0x8000, 0x3e00, 0xfbff, 0x7bff, 1),
    strange: Uint16Array.of(0x7e00, 0x7c00, 0xfc00),
  },
}
const types = ['float32', 'float64', 'float16'] as const

/** One row of six finite values, one of which is replaced by a strange one. */
function row(type: (typeof types)[number], strange?: number, at = 0): Sample {
  const data = values[type].finite.slice()
  if (strange !== undefined) data[at] = values[type].strange[strange]!
  return { type, dims: [1, 6], data }
}

const open = (type: (typeof types)[number], rejectNonFinite: Guard, config: Omit<ModelConfig, 'path'> = {}) =>
  load(engine, small.identity(type, [6]), {
    rejectNonFinite,
    dynamicBatching: { holdUntilQueued: 3 },
    ...config,
  })

describe.each(types)("rejectNonFinite: 'inputs' with %s", (type) => {
  it.each([
    [0, 0],
    [1, 5],
    [2, 3],
  ])('refuses a request at once, and it alone', async (strange, at) => {
    const model = await open(type, 'inputs')
    const good = [row(type), row(type), row(type)]
    const answers = good.slice(1).map((x) => model.infer(feedsOf({ x })))
    const error = await rejectionOf(() => model.infer(feedsOf({ x: row(type, strange, at) })))
    expectRefusal(error, {
      argument: `input 'x'[${at}]`,
      expected: /finite/,
      received: values[type].strange[strange],
    })
    expect([model.stats().pendingRequestCount, rejectedCount(model)]).toEqual([2, 0]) // it was never accepted
    answers.push(model.infer(feedsOf({ x: good[0]! })))
    for (const answer of await Promise.all(answers)) expectSame(answer, feedsOf({ y: row(type) }))
  })
})

describe.each(types)("rejectNonFinite: 'outputs' with %s", (type) => {
  it.each([
    [0, 5],
    [1, 0],
    [2, 2],
  ])('rejects the request whose own rows have any, and it alone', async (strange, at) => {
    const model = await open(type, 'outputs')
    const before = reported(model, feedsOf({ x: row(type) }))
    const rejected = rejectionOf(() =>
      model.infer(feedsOf({ x: row(type, strange, at) }), { requestId: 'strange' }),
    )
    const after = reported(model, feedsOf({ x: row(type) }))
    expect(await rejected).toMatchObject({
      code: 'ERR_EXECUTION',
      argument: 'y',
      requestId: 'strange',
      message: expect.stringContaining("output 'y' is not finite"),
    })
    for (const { outputs } of [await before, await after]) expectSame(outputs, feedsOf({ y: row(type) }))
    expect([(await before).report, (await after).report]).toMatchObject([
      { batchId: 1, position: 0 },
      { batchId: 1, position: 2 },
    ])
    const { inferenceStats, rejections, executionCount, rerunCount } = model.stats()
    expect([inferenceStats.success.count, inferenceStats.fail.count, rejections.execution]).toEqual([2, 1, 1])
    expect([executionCount, rerunCount]).toEqual([1, 0]) // there is nothing to be found out by running it again
  })
})

describe("rejectNonFinite: 'outputs'", () => {
  const floats = (...numbers: number[]) => new Float32Array(16).fill(0).map((_, at) => numbers[at] ?? 0)

  it('looks at the outputs that are wanted, and names the one', async () => {
    const model = await load(engine, small.addSub('float32'), { rejectNonFinite: 'outputs' })
    const feeds = { a: floats(1, 3e38), b: floats(1, -3e38) }
    const [all, sum] = [rejectionOf(() => model.infer(feeds)), model.infer(feeds, { outputs: ['sum'] })]
    expect(await all).toMatchObject({ code: 'ERR_EXECUTION', argument: 'difference' })
    expect((await sum).sum!.data).toEqual(floats(2))
  })

  it('looks at all rows of a request and at large outputs', async () => {
    const model = await load(engine, small.bigRow(50_000), { rejectNonFinite: 'outputs' })
    const data = new Float32Array(150_000)
    const [good, bad] = [data.slice(), data.slice().fill(NaN, 149_999)]
    const answers = [good, bad, good].map((x) => model.infer({ x: new Tensor('float32', x, [3, 50_000]) }))
    expect(await outcomesOf(answers)).toEqual(['answered', 'ERR_EXECUTION', 'answered'])
    expect(await outcomeOf(model.infer({ x: bad.slice(100_000) }))).toBe('ERR_EXECUTION')
  })

  it('rejects in the order of the requests where that is asked for', async () => {
    const model = await load(engine, small.identity('float32'), {
      rejectNonFinite: 'outputs',
      dynamicBatching: { preserveOrdering: true },
    })
    const ends: unknown[] = []
    const calls = [1, NaN, 2, Infinity, 3].map((value) => model.infer({ x: Float32Array.of(value, 0, 0, 0) }))
    await Promise.all(calls.map((call, at) => outcomeOf(call).then((outcome) => ends.push([at, outcome]))))
    expect(ends).toEqual([
      [0, 'answered'],
      [1, 'ERR_EXECUTION'],
      [2, 'answered'],
      [3, 'ERR_EXECUTION'],
      [4, 'answered'],
    ])
    expect(settledCount(model)).toBe(5)
  })

  it('rejects a split request as a whole', async () => {
    const model = await load(ownEngine(), small.identity('float32'), {
      rejectNonFinite: 'outputs',
      splitOversized: true,
      maxBatchSize: 2,
    })
    const data = new Float32Array(40).fill(-Infinity, 20, 21)
    expect(await outcomeOf(model.infer({ x: new Tensor('float32', data, [10, 4]) }))).toBe('ERR_EXECUTION')
    expect(await outcomeOf(model.infer({ x: new Tensor('float32', data.fill(1), [10, 4]) }))).toBe('answered')
  })
})

describe('rejectNonFinite', () => {
  it('minds only floating-point types', async () => {
    for (const type of ['int64', 'uint16', 'bool', 'string'] as const) {
      for (const rejectNonFinite of ['inputs', 'outputs'] as const) {
        const model = await load(engine, small.identity(type), { rejectNonFinite })
        const x = sample(type, [4, 4])
        expectSame(await model.infer(feedsOf({ x })), feedsOf({ y: x }))
      }
    }
  })

  it('is off by default', async () => {
    const model = await load(engine, small.identity('float32'))
    expect((await model.infer({ x: Float32Array.of(NaN, 1, Infinity, -Infinity) })).y!.data).toEqual(
      Float32Array.of(NaN, 1, Infinity, -Infinity),
    )
  })

  it.each(['both', true, null, ['inputs']])('of %j is refused', async (rejectNonFinite) => {
    const error = await rejectionOf(() =>
      load(engine, small.identity('float32'), { rejectNonFinite: rejectNonFinite as Guard }),
    )
    expectRefusal(error, { code: 'ERR_MODEL_CONFIG', argument: 'rejectNonFinite', received: rejectNonFinite })
  })
})
