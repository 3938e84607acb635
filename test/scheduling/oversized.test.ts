import { describe, expect, it } from 'vitest'
import { Tensor, type ModelConfig } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { batchSizes, matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Samples } from '../support/plain.ts'
import { expectClose, expectSame } from '../support/same.ts'
import { noise, sample, tensorTypes } from '../support/samples.ts'
import { outcomeOf, reported, settledCount } from './outcome.ts'

const engine = sharedEngine()
const open = (path: string, config: Omit<ModelConfig, 'path'> = {}) =>
  load(engine, path, { maxBatchSize: 8, splitOversized: true, ...config })
const rowsOf = (count: number) => feedsOf({ x: noise([count, 4]) })

describe('a request of more rows than fit', () => {
  it.each([
    [7, [7]],
    [8, [8]],
    [9, [1, 8]],
    [16, [8]],
    [17, [1, 8]],
    [100, [4, 8]],
  ])('is run in parts and joined again: %i rows', async (rows, sizes) => {
    const model = await open(small.identity('float32'))
    await matchesPlain(model, [{ x: sample('float32', [rows, 4]) }])
    expect(batchSizes(model)).toEqual(sizes)
    expect(model.stats().inferenceCount).toBe(rows)
  })

  it.each(tensorTypes)('may be of type %s', async (type) => {
    await matchesPlain(await open(small.identity(type, [3, 2])), [{ x: sample(type, [21, 3, 2]) }])
  })

  it('may have several inputs and outputs, and wish for one', async () => {
    const model = await open(small.addSub('int32'))
    const request = { a: sample('int32', [20, 16]), b: sample('int32', [20, 16]) }
    await matchesPlain(model, [request])
    await matchesPlain(model, [request], { outputs: ['difference'] })
    await matchesPlain(await open(small.stringConcat()), [
      { a: sample('string', [19, 2]), b: sample('string', [19, 2]) },
    ])
  })

  it('may have rows of variable shape', async () => {
    const model = await open(small.identityVariable('uint8'))
    await matchesPlain(
      model,
      [
        [9, 5],
        [30, 2],
        [12, 0],
        [8, 5],
      ].map((dims) => ({ x: sample('uint8', dims) })),
    )
  })

  it('may be padded', async () => {
    const model = await open(small.identityVariable('float32'), {
      padding: { input: 'x', dim: 1, sizes: [4], outputs: [{ name: 'y', dim: 1 }] },
    })
    await matchesPlain(
      model,
      [
        [9, 3],
        [5, 1],
        [20, 4],
        [11, 6],
      ].map((dims) => ({ x: sample('float32', dims) })),
    )
  })

  it('fails when its parts have answers that cannot be joined', async () => {
    const model = await open(small.identityVariable('float32'), {
      padding: { input: 'x', dim: 1 },
      dynamicBatching: { holdUntilQueued: 3 },
    })
    // Its second part shares a run with a longer one, and the length is not cut back: that output was not named.
    const large = model.infer(feedsOf({ x: noise([11, 5]) }), { requestId: 'large' })
    const other = model.infer(feedsOf({ x: noise([1, 7]) }))
    await expect(large).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      argument: 'y',
      requestId: 'large',
      message: expect.stringContaining('[8, 5] and [3, 7]'),
    })
    expect((await other).y!.dims).toEqual([1, 7])
  })

  describe('fails when an output of its parts is not by rows, as nobody can join that, and says what to do', () => {
    /** Every third row is kept; they all are the same. */
    const samples = (rows: number): Samples => ({
      x: { type: 'float32', dims: [rows, 4], data: new Float32Array(4 * rows) },
      keep: {
        type: 'bool',
        dims: [rows],
        data: Uint8Array.from({ length: rows }, (_, at) => Number(at % 3 === 0)),
      },
    })
    const cases: [what: string, path: string, inputs: string[], shown: RegExp][] = [
      [
        'some rows of each',
        small.compress('N'),
        ['x', 'keep'],
        /: output 'y' has dims \[[23], 4\] for a part of [84] rows, where one entry per row/,
      ],
      [
        'one row for all equal ones',
        small.uniqueRows(),
        ['x'],
        /: output 'y' has dims \[1, 4\] for a part of [84] rows/,
      ],
    ]
    it.each(cases)('%s', async (_, path, inputs, shown) => {
      const request = (rows: number): Samples =>
        Object.fromEntries(inputs.map((name) => [name, samples(rows)[name]!]))
      const model = await open(path, { checkRows: false })
      const error = await rejectionOf(() => model.infer(feedsOf(request(20)), { requestId: 'large' }))
      expect(error).toMatchObject({
        code: 'ERR_EXECUTION',
        model: model.name,
        requestId: 'large',
        message: expect.stringMatching(shown),
      })
      expect((error as Error).message).toMatch(/; omit splitOversized\.$/)
      expect([model.stats().pendingRequestCount, settledCount(model)]).toEqual([0, 1])
      expectSame(await model.infer(feedsOf(request(5))), await runPlain(path, request(5))) // which is not split
    })
  })

  it('shares runs with other requests', async () => {
    const model = await open(small.matmulSlow(32, 5), { dynamicBatching: { holdUntilQueued: 4 } })
    const sizes = [3, 11, 5] // parts of 3, 8 and 3, 5
    const requests = sizes.map((rows) => ({ x: noise([rows, 32]) }))
    const answers = await Promise.all(requests.map((request) => reported(model, feedsOf(request))))
    for (const [at, { outputs }] of answers.entries())
      expectClose(outputs, await runPlain(model.metadata.path, requests[at]!))
    expect(answers.map(({ report }) => report.parts?.length)).toEqual([undefined, 2, undefined])
    expect(model.stats().inferenceCount).toBe(19)
    expect(model.stats().executionCount).toBeLessThan(4)
  })

  it('tells of each of its parts in the report', async () => {
    const model = await open(small.identity('float32'))
    const { report } = await reported(model, rowsOf(20))
    const { parts, ...first } = report
    expect(parts).toHaveLength(3)
    expect(first).toEqual(parts![0])
    expect(parts).toMatchObject(
      [8, 8, 4].map((batchSize, at) => ({ batchSize, position: 0, batchId: at + 1, attempts: 1 })),
    )
    expect((await reported(model, rowsOf(8))).report.parts).toBeUndefined()
  })

  it('is withdrawn as a whole, with the reason of its signal', async () => {
    const model = await open(small.identity('float32'), { dynamicBatching: { holdUntilQueued: 100 } })
    const controller = new AbortController()
    const outcome = outcomeOf(model.infer(rowsOf(50), { signal: controller.signal }))
    expect(model.stats().pendingRequestCount).toBe(7)
    controller.abort('withdrawn')
    expect(model.stats().pendingRequestCount).toBe(0)
    expect(await outcome).toBe('withdrawn')
    expect(await outcomeOf(model.infer(rowsOf(50), { signal: AbortSignal.abort('before') }))).toBe('before')
  })

  it('fails as a whole when one part fails, and what waits of it is withdrawn', async () => {
    const model = await open(small.gatherRow(), { maxBatchSize: 2, sessionOptions: { logSeverityLevel: 4 } })
    const indices = BigInt64Array.from({ length: 2000 }, (_, at) => BigInt(at === 0 ? 99 : at % 8))
    const failing = model.infer({ index: new Tensor('int64', indices, [2000, 1]) }, { requestId: 'large' })
    await expect(failing).rejects.toMatchObject({ code: 'ERR_EXECUTION', requestId: 'large' })
    expect(model.stats().pendingRequestCount).toBe(0)
    expect(model.stats().rejections).toMatchObject({ execution: 1, cancelled: 0 })
    await matchesPlain(model, [{ index: { type: 'int64', dims: [2, 1], data: BigInt64Array.of(1n, 2n) } }])
    expect(settledCount(model)).toBe(2) // its parts are none of the caller's requests
  })

  it('needs one place in the queue, however many parts it has', async () => {
    const model = await open(small.identity('float32'), {
      dynamicBatching: { holdUntilQueued: 9, defaultQueuePolicy: { maxQueueSize: 3 } },
    })
    const outcomes = [10, 30].map((rows) => outcomeOf(model.infer(rowsOf(rows))))
    expect(model.stats().pendingRequestCount).toBe(6)
    expect(await outcomeOf(model.infer(rowsOf(30)))).toBe('ERR_QUEUE_FULL')
    expect([model.stats().pendingRequestCount, model.stats().rejections.queueFull]).toEqual([6, 1]) // none of its parts was tried
    expect(model.capacity().free).toBe(0)
    await engine.unload(model.name) // which sends what waits
    expect(await Promise.all(outcomes)).toEqual(['answered', 'answered'])
  })
})

describe('the parts of a request are so many at most', () => {
  const rowsOfNothing = (rows: number) => ({ x: new Tensor('float32', new Float32Array(0), [rows, 0]) })
  const refusedParts = async (rows: number, most: number, what: string) => {
    const model = await open(small.identityVariable('float32'))
    const feeds =
      what === 'rows'
        ? { x: { type: 'float32', dims: [rows, 1], data: new Float32Array(rows) } as unknown as Tensor }
        : rowsOfNothing(rows)
    const refusal = {
      argument: "input 'x'",
      expected: new RegExp(`^at most ${most * 8} ${what} \\(${most} parts of maxBatchSize 8\\)$`),
      received: rows,
    }
    expectRefusal(await rejectionOf(() => model.infer(feeds)), refusal)
    expect(model.stats()).toMatchObject({ pendingRequestCount: 0, executionCount: 0 })
  }

  it('10 000, and one row more is refused', () => refusedParts(80_001, 10_000, 'rows'))
  it('100 of rows without any element, and one more is refused', () =>
    refusedParts(801, 100, 'rows without any element'))

  it.each([1e9, 2 ** 53 - 1])('so that %d rows of no byte are refused at once', async (rows) => {
    const model = await open(small.identityVariable('float32'))
    const error = await rejectionOf(() => model.infer(rowsOfNothing(rows)))
    expectRefusal(error, { argument: "input 'x'", expected: /^at most 80000 rows/, received: rows })
    expect((error as Error).message).toMatch(/Send it as several requests, or raise maxBatchSize$/)
  })

  it('and so many are answered', async () => {
    const model = await open(small.identityVariable('float32'), { maxBatchSize: 2 })
    await matchesPlain(model, [{ x: noise([20_000, 1]) }, { x: noise([200, 0]) }])
    expect(settledCount(model)).toBe(2)
    expect(model.stats().executionCount).toBe(10_100)
  })

  it('and strings are not copied for more', async () => {
    const model = await open(small.identity('string', [1]))
    const data = new Proxy([], {
      get: (_, name) => (name === 'length' ? 1e9 : name === Symbol.iterator ? undefined : 'a'),
    })
    const x = { type: 'string', dims: [1e9, 1], data } as unknown as Tensor
    expectRefusal(await rejectionOf(() => model.infer({ x })), {
      argument: "input 'x'",
      expected: /^at most 80000 rows/,
    })
  })
})

describe('splitOversized', () => {
  it('may be asked for by a request, and declined by one', async () => {
    const usual = await load(engine, small.identity('float32'), { maxBatchSize: 8 })
    const refusal = { argument: "input 'x'", expected: /at most 8 rows/, received: 9 }
    expectRefusal(await rejectionOf(() => usual.infer(rowsOf(9))), refusal)
    expect((await usual.infer(rowsOf(9), { splitOversized: true })).y!.dims).toEqual([9, 4])
    const splitting = await open(small.identity('float32'))
    expectRefusal(await rejectionOf(() => splitting.infer(rowsOf(9), { splitOversized: false })), refusal)
    expect((await splitting.infer(rowsOf(8), { splitOversized: false })).y!.dims).toEqual([8, 4])
  })

  it('is off by default, and the refusal tells of it', async () => {
    const error = await rejectionOf(async () =>
      (await load(engine, small.identity('float32'), { maxBatchSize: 8 })).infer(rowsOf(9)),
    )
    expect(error).toMatchObject({ message: expect.stringContaining('splitOversized: true') })
  })

  it('changes nothing for a model without a batch dimension', async () => {
    const model = await open(small.identity('float32'), { maxBatchSize: 0 })
    await matchesPlain(model, [{ x: noise([50, 4]) }])
    expect(model.stats().executionCount).toBe(1)
  })

  it('splits though requests are not joined', async () => {
    const model = await open(small.identity('float32'), { dynamicBatching: false })
    await matchesPlain(model, [{ x: noise([20, 4]) }, { x: noise([3, 4]) }])
    expect(batchSizes(model)).toEqual([3, 4, 8])
  })
})
