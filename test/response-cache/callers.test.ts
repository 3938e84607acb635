import { describe, expect, it } from 'vitest'
import type { InferenceError, InferOptions } from '../../src/index.ts'
import { ownFeeds } from '../../src/features/response-cache/kept-answers.ts'
import type { Preparation } from '../../src/request/participants.ts'
import { fate, fates, SharedModel, turns } from './sharing.ts'

const coalesce = { coalesce: true }
const errorOf = (call: { answer: Promise<unknown> }) =>
  call.answer.then(
    () => null,
    (error: InferenceError) => error,
  )

/** A model whose only thread runs something else. */
async function busy(config: Parameters<typeof SharedModel.open>[0] = coalesce) {
  const model = await SharedModel.open({ maxBatchSize: 1, ...config })
  const other = model.call([100])
  await turns()
  model.thread.claim()
  return { model, other, clock: model.house.clock }
}

describe('callers of equal requests', () => {
  it('share one row, and each has the answer', async () => {
    const model = await SharedModel.open(coalesce)
    const calls = Array.from({ length: 10 }, () => model.call([3]))
    const other = model.call([4])
    expect(await model.finish()).toBe(1)
    expect(await fates([...calls, other])).toEqual([...Array<number>(10).fill(6), 8])
    const { inferenceCount, executionCount, responseCache, inferenceStats } = model.stats()
    expect([inferenceCount, executionCount]).toEqual([2, 1])
    expect(responseCache).toEqual({ hits: 0, misses: 2, coalesced: 9, evictions: 0, entries: 0, bytes: 0 })
    expect([
      inferenceStats.success.count,
      inferenceStats.queue.count,
      inferenceStats.computeInfer.count,
    ]).toEqual([11, 11, 2])
  })

  it('join while it runs, too, and not when it has ended', async () => {
    const model = await SharedModel.open(coalesce)
    const first = model.call([3])
    await turns()
    model.thread.claim()
    const second = model.call([3])
    expect(await model.finish()).toBe(1)
    const third = model.call([3])
    expect(await fates([first, second, third])).toEqual([6, 6, 'waits'])
    expect(await model.finish()).toBe(1)
    expect(await fate(third)).toBe(6)
    const [{ report: own }, { report: joined }] = [await first.answer, await second.answer]
    expect([own.coalesced, joined.coalesced, joined.batchId]).toEqual([undefined, true, own.batchId])
  })

  it('each have runs of their own without coalesce', async () => {
    const model = await SharedModel.open({ responseCache: { coalesce: false }, maxBatchSize: 1 })
    const calls = [model.call([3]), model.call([3])]
    expect(await model.finish()).toBe(2)
    expect(await fates(calls)).toEqual([6, 6])
    expect(model.stats().responseCache).toMatchObject({ hits: 0, misses: 2, coalesced: 0, entries: 1 })
  })
})

describe('an abort', () => {
  it.each(['the first', 'another'])('of %s is that of its caller alone, while the run waits', async (who) => {
    const { model } = await busy()
    const leaves = new AbortController()
    const calls = [0, 1, 2].map((at) =>
      model.call([3], at === (who === 'the first' ? 0 : 1) ? { signal: leaves.signal } : {}),
    )
    leaves.abort('left')
    expect((await fates(calls)).toSorted()).toEqual(['left', 'waits', 'waits'])
    const joins = model.call([3])
    expect(await model.finish()).toBe(2)
    expect((await fates([...calls, joins])).toSorted()).toEqual([6, 6, 6, 'left'])
    const { inferenceStats, rejections, responseCache } = model.stats()
    expect([inferenceStats.success.count, inferenceStats.fail.count, rejections.cancelled]).toEqual([4, 1, 1])
    expect(responseCache).toMatchObject({ misses: 2, coalesced: 3 })
  })

  it('of the first does not stop a run that another waits for', async () => {
    const model = await SharedModel.open(coalesce)
    const leaves = new AbortController()
    const first = model.call([3], { signal: leaves.signal })
    await turns()
    model.thread.claim()
    const second = model.call([3])
    leaves.abort('left')
    expect(model.thread.asked).not.toContain('cancel')
    await model.finish()
    expect(await fates([first, second])).toEqual(['left', 6])
    expect((await second.answer).report.coalesced).toBe(true)
  })

  it('of all takes the request out of the queue, or stops its run', async () => {
    const { model, other } = await busy()
    const leaves = new AbortController()
    const calls = [model.call([3], { signal: leaves.signal }), model.call([3], { signal: leaves.signal })]
    await turns()
    leaves.abort('left')
    expect(await fates(calls)).toEqual(['left', 'left'])
    expect(model.stats().pendingRequestCount).toBe(0)
    expect(await model.finish()).toBe(1)
    expect(await fate(other)).toBe(200)
    expect(model.stats().rejections.cancelled).toBe(2)

    const again = new AbortController()
    const runs = [model.call([3], { signal: again.signal }), model.call([3], { signal: again.signal })]
    await turns()
    model.thread.claim()
    again.abort('left')
    expect(model.thread.asked).toContain('cancel')
    expect(await fates(runs)).toEqual(['left', 'left'])
    const next = model.call([3]) // not with what was told to stop
    expect(await model.finish()).toBe(2)
    expect(await fate(next)).toBe(6)
    expect(model.stats().rejections.cancelled).toBe(4)
  })

  it('before the call looks nothing up', async () => {
    const model = await SharedModel.open({ responseCache: true })
    expect(await fate(model.call([3], { signal: AbortSignal.abort('left') }))).toBe('left')
    expect(model.stats().responseCache).toMatchObject({ hits: 0, misses: 0 })
    expect(model.stats().inferenceStats.fail.count).toBe(0)
  })
})

describe('answers from the cache', () => {
  it.each([false, true])(
    'that give way to the event loop can be withdrawn, and are counted once (preserveOrdering: %s)',
    async (preserveOrdering) => {
      const model = await SharedModel.open({ responseCache: true, dynamicBatching: { preserveOrdering } })
      const first = model.call([3])
      await model.finish()
      const leaves = new AbortController()
      const calls = [model.call([3])]
      model.house.clock.stall(1)
      const settled: string[] = []
      const late = model.call([3], { signal: leaves.signal })
      calls.push(late, model.call([3]))
      for (const [at, { answer }] of calls.entries())
        void answer.then(
          () => settled.push(`answered ${at}`),
          () => settled.push(`left ${at}`),
        )
      await new Promise(process.nextTick)
      expect(settled).toEqual(['answered 0'])
      leaves.abort('left')
      expect(await fates([first, ...calls])).toEqual([6, 6, 'left', 6])
      expect(settled).toEqual(['answered 0', 'left 1', 'answered 2'])
      expect(await fate(model.call([3]))).toBe(6)
      const { success, fail } = model.stats().inferenceStats
      expect([success.count, fail.count]).toEqual([4, 1])
    },
  )
})

describe('a timeout', () => {
  it.each([
    [5, undefined],
    [undefined, 5],
    [5, 9],
    [9, 5],
  ])("is its own caller's (%s and %s ms)", async (firstMs, secondMs) => {
    const { model, clock } = await busy()
    const limits = [firstMs, secondMs].map((timeoutMs) => (timeoutMs === undefined ? {} : { timeoutMs }))
    const calls = limits.map((options) => model.call([3], options))
    clock.advanceBy(5)
    expect((await fates(calls)).toSorted()).toEqual(['ERR_TIMEOUT', 'waits'])
    clock.advanceBy(3)
    await model.finish()
    expect((await fates(calls)).toSorted()).toEqual([6, 'ERR_TIMEOUT'])
    expect(model.stats().rejections.timeout).toBe(1)
    expect(clock.timers).toBe(0)
  })

  it('of all withdraws the run', async () => {
    const { model, clock } = await busy()
    const calls = [
      model.call([3], { timeoutMs: 5, requestId: 'a' }),
      model.call([3], { timeoutMs: 7, requestId: 'b' }),
    ]
    clock.advanceBy(7)
    const errors = await Promise.all(calls.map(errorOf))
    expect(errors.map((error) => [error!.code, error!.requestId])).toEqual([
      ['ERR_TIMEOUT', 'a'],
      ['ERR_TIMEOUT', 'b'],
    ])
    expect(errors.map((error) => error!.message)).toEqual([
      expect.stringMatching(/^Request 'a' waited .* than its 5 ms/),
      expect.stringMatching(/^Request 'b' waited .* than its 7 ms/),
    ])
    expect(await model.finish()).toBe(1)
    const { rejections, inferenceStats } = model.stats()
    expect([rejections.timeout, inferenceStats.fail.count, inferenceStats.success.count]).toEqual([2, 2, 1])
    expect(clock.timers).toBe(0)
  })

  it('that passes while it runs is none', async () => {
    const model = await SharedModel.open(coalesce)
    const calls = [model.call([3], { timeoutMs: 5 }), model.call([3], { timeoutMs: 6 })]
    await turns()
    model.thread.claim()
    const late = model.call([3], { timeoutMs: 5 })
    model.house.clock.advanceBy(10)
    await model.finish()
    expect(await fates([...calls, late])).toEqual([6, 6, 6])
  })

  it('with DELAY rejects nobody', async () => {
    const { model, clock } = await busy({
      ...coalesce,
      dynamicBatching: { defaultQueuePolicy: { timeoutAction: 'DELAY' } },
    })
    const calls = [model.call([3], { timeoutMs: 5 }), model.call([3])]
    const delayed = model.call([4], { timeoutMs: 5 })
    clock.advanceBy(6)
    const behind = model.call([5])
    const own = model.call([4]) // not with one that was put behind the others
    expect(await model.finish()).toBe(5)
    expect(await fates([...calls, delayed, behind, own])).toEqual([6, 6, 8, 10, 8])
    expect(model.stats().responseCache).toMatchObject({ misses: 5, coalesced: 1 })
  })
})

describe('a deadline', () => {
  it("is its own caller's", async () => {
    const { model, clock } = await busy()
    const calls = [
      model.call([3], { deadlineMs: 5, requestId: 'a' }),
      model.call([3], { deadlineMs: 50 }),
      model.call([3]),
    ]
    clock.advanceBy(6)
    expect(await fates(calls)).toEqual(['ERR_DEADLINE', 'waits', 'waits'])
    expect((await errorOf(calls[0]!))!.message).toMatch(
      /^Request 'a' would be answered .* its deadline is 5 ms/,
    )
    await model.finish()
    expect(await fates(calls)).toEqual(['ERR_DEADLINE', 6, 6])
    expect(model.stats().rejections.deadline).toBe(1)
  })

  it("that is the model's holds for each caller from its call on", async () => {
    const { model, clock } = await busy({ ...coalesce, latencyTargetMs: 20, warmup: false })
    const early = model.call([3])
    clock.advanceBy(10)
    const late = model.call([3])
    clock.advanceBy(11)
    expect(await fates([early, late])).toEqual(['ERR_DEADLINE', 'waits'])
    clock.advanceBy(10)
    expect(await fate(late)).toBe('ERR_DEADLINE')
    expect(model.stats().rejections.deadline).toBe(2)
  })
})

describe('a run with limits or a level of its own', () => {
  it('is not that of a more urgent request, which is served first', async () => {
    const { model } = await busy({ ...coalesce, dynamicBatching: { priorityLevels: 2 } })
    const order: string[] = []
    const call = (name: string, value: number, priority: number) =>
      void model.call([value], { priority }).answer.then(() => order.push(name))
    call('low', 3, 2)
    call('other', 4, 2)
    call('high', 3, 1)
    call('lower than high', 3, 2) // with the urgent one
    expect(await model.finish()).toBe(4)
    expect(order).toEqual(['high', 'lower than high', 'low', 'other'])
    expect(model.stats().responseCache).toMatchObject({ misses: 4, coalesced: 1 })
  })

  it('is joined by a more urgent one once it runs', async () => {
    const model = await SharedModel.open({ ...coalesce, dynamicBatching: { priorityLevels: 2 } })
    const low = model.call([3], { priority: 2 })
    await turns()
    model.thread.claim()
    const high = model.call([3], { priority: 1 })
    expect(await model.finish()).toBe(1)
    expect(await fates([low, high])).toEqual([6, 6])
  })

  it('is shared only where a run may take as long', async () => {
    const { model } = await busy()
    const options: InferOptions[] = [{}, { maxRunMs: 5 }, { maxRunMs: 5 }, { maxRunMs: 6 }]
    const calls = options.map((each) => model.call([3], each))
    expect(await model.finish()).toBe(4)
    expect(await fates(calls)).toEqual([6, 6, 6, 6])
    expect(model.stats().responseCache).toMatchObject({ misses: 4, coalesced: 1 })
  })

  it('that takes too long is so for all of its callers', async () => {
    const model = await SharedModel.open({ ...coalesce, maxRunMs: 5 })
    const calls = [model.call([3], { requestId: 'a' }), model.call([3], { requestId: 'b' })]
    await turns()
    model.thread.claim()
    model.house.clock.advanceBy(6)
    const errors = await Promise.all(calls.map(errorOf))
    expect(errors.map((error) => [error!.code, error!.requestId])).toEqual([
      ['ERR_TIMEOUT', 'a'],
      ['ERR_TIMEOUT', 'b'],
    ])
    expect(model.stats().rejections.timeout).toBe(2)
  })

  it('needs one place in a full queue', async () => {
    const { model } = await busy({
      ...coalesce,
      dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    })
    const calls = [model.call([3]), model.call([3]), model.call([4]), model.call([3])]
    expect(await fates(calls)).toEqual(['waits', 'waits', 'ERR_QUEUE_FULL', 'waits'])
    await model.finish()
    expect(await fates(calls)).toEqual([6, 6, 'ERR_QUEUE_FULL', 6])
    const retried = model.call([4])
    await model.finish()
    expect(await fate(retried)).toBe(8)
  })
})

describe('a run that fails', () => {
  it('does so for all of its callers, each with an error of its own, and is made again for the next', async () => {
    const model = await SharedModel.open({ responseCache: true })
    const calls = [model.call([3], { requestId: 'a' }), model.call([3]), model.call([3], { requestId: 'c' })]
    await model.finish('it failed')
    const errors = await Promise.all(calls.map(errorOf))
    expect(errors.map((error) => [error!.code, error!.requestId, error!.model])).toEqual([
      ['ERR_EXECUTION', 'a', 'm'],
      ['ERR_EXECUTION', undefined, 'm'],
      ['ERR_EXECUTION', 'c', 'm'],
    ])
    expect(errors.map((error) => error!.message)).toEqual(
      ["Request 'a'", 'The request', "Request 'c'"].map((who) => `${who} failed in model 'm': it failed.`),
    )
    expect(errors.every((error) => (error!.cause as Error).message === 'it failed')).toBe(true)
    expect(new Set(errors).size).toBe(3)
    expect(model.stats().rejections.execution).toBe(3)
    const next = model.call([3])
    expect(await model.finish()).toBe(1)
    expect(await fate(next)).toBe(6)
    expect(model.stats().responseCache).toEqual({
      hits: 0,
      misses: 2,
      coalesced: 2,
      evictions: 0,
      entries: 1,
      bytes: expect.any(Number),
    })
  })

  it('because its worker died does so for all, and is run again for all where that is allowed', async () => {
    for (const rerunAfterCrash of [false, true]) {
      const model = await SharedModel.open({ ...coalesce, rerunAfterCrash })
      const calls = [model.call([3]), model.call([3])]
      await turns()
      model.thread.claim()
      model.thread.die()
      await turns()
      model.house.clock.advanceBy(10_000)
      await model.finish()
      expect(await fates(calls)).toEqual(
        rerunAfterCrash ? [6, 6] : ['ERR_INSTANCE_CRASHED', 'ERR_INSTANCE_CRASHED'],
      )
      expect(model.stats().rejections.crashed).toBe(rerunAfterCrash ? 0 : 2)
    }
  })

  it('because the model is closed rejects all with ERR_CLOSED', async () => {
    const { model, other } = await busy()
    const calls = [model.call([3]), model.call([3])]
    model.served.scheduler.rejectWaiting()
    expect(await fates(calls)).toEqual(['ERR_CLOSED', 'ERR_CLOSED'])
    expect(model.stats().rejections.closed).toBe(2)
    await model.finish()
    expect(await fate(other)).toBe(200)
  })
})

describe('a caller that changes its input after the call', () => {
  it('changes neither what is run nor what others get', async () => {
    const { model } = await busy({ responseCache: true })
    const first = model.call([3])
    first.data.fill(50)
    const second = model.call([3])
    structuredClone(first.data.buffer, { transfer: [first.data.buffer as ArrayBuffer] })
    await model.finish()
    expect(await fates([first, second, model.call([3])])).toEqual([6, 6, 6])
    expect(model.stats().responseCache).toMatchObject({ hits: 1, misses: 2, coalesced: 1 })
  })
})

describe('answers from the cache that wait for earlier ones', () => {
  it('count against maxQueueSize until they are given', async () => {
    const model = await SharedModel.open({
      responseCache: true,
      maxBatchSize: 1,
      dynamicBatching: { preserveOrdering: true, defaultQueuePolicy: { maxQueueSize: 2 } },
    })
    const { scheduler } = model.served
    const kept = model.call([3])
    await model.finish()
    const slow = model.call([5])
    await turns()
    model.thread.claim()
    const held = [model.call([3]), model.call([3])]
    expect(await fates([kept, slow, ...held])).toEqual([6, 'waits', 'waits', 'waits'])
    expect([scheduler.pending, scheduler.levels.of(undefined).room]).toEqual([2, 0])
    expect(await fates([model.call([3]), model.call([7])])).toEqual(['ERR_QUEUE_FULL', 'ERR_QUEUE_FULL'])
    await model.finish()
    expect(await fates([slow, ...held, model.call([3])])).toEqual([10, 6, 6, 6])
    expect([scheduler.pending, model.stats().rejections.queueFull]).toEqual([0, 2])
  })
})

it('what stands for an image that is not decoded yet is not copied with the other inputs', () => {
  const [x, standIn, bytes] = [Float32Array.of(1), new Float32Array(12), Uint8Array.of(0xff)]
  const preparation = { sources: new Map([[1, bytes]]), owned: () => preparation } as unknown as Preparation
  const { data } = ownFeeds({
    rows: 1,
    bucketKey: '',
    whole: false,
    dims: null,
    data: [x, standIn],
    preparation,
  })
  expect([data[0] === x, data[1] === standIn]).toEqual([false, true])
  expect(data[0]).toEqual(x)
})
