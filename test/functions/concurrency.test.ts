import { describe, expect, it } from 'vitest'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { loadFunction } from './load-function.ts'

const waiting = {
  inputs: [{ name: 'ms', type: 'int32' }],
  outputs: [{ name: 'running', type: 'int32' }],
  maxBatchSize: 1,
} as const

describe('an asynchronous function', () => {
  it('is called with one batch at a time', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', waiting)
    const answers = await Promise.all(Array.from({ length: 6 }, () => model.infer({ ms: Int32Array.of(5) })))
    expect(answers.map(({ running }) => running.data[0])).toEqual([1, 1, 1, 1, 1, 1])
  })

  it('is called with as many at the same time as concurrency says, and no more', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 8 })
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => model.infer({ ms: Int32Array.of(50) })),
    )
    const running = answers.map((answer) => answer.running.data[0]!)
    expect(Math.max(...running)).toBe(8)
    const { inferenceCount, executionCount } = model.stats()
    expect([inferenceCount, executionCount]).toEqual([40, 40])
    expect(model.capacity()).toMatchObject({ instances: 1, waiting: 0, running: 0 })
  })

  it('has a short call overtake a long one', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 2 })
    const order: string[] = []
    const long = model.infer({ ms: Int32Array.of(400) }).then(() => order.push('long'))
    await until(() => model.capacity().running === 1)
    await model.infer({ ms: Int32Array.of(1) }).then(() => order.push('short'))
    await long
    expect(order).toEqual(['short', 'long'])
  })

  it('loses no other batch when one loops for ever and its thread is ended: they are run again', async () => {
    const model = await loadFunction(ownEngine(), 'waiting.mjs', { ...waiting, concurrency: 4 })
    const others = [30, 31, 32].map((ms) => model.infer({ ms: Int32Array.of(ms) }))
    const looping = model.infer({ ms: Int32Array.of(-1) }, { maxRunMs: 200 })
    await expect(looping).rejects.toMatchObject({ code: 'ERR_TIMEOUT' })
    expect((await Promise.all(others)).map(({ running }) => running.dims)).toEqual([[1], [1], [1]])
    expect(model.stats()).toMatchObject({
      inferenceStats: { success: { count: 3 }, fail: { count: 1 } },
      rejections: { crashed: 0 },
    })
  })
})

describe('context.signal', () => {
  it('fires when the last caller of a batch has gone', async () => {
    const model = await loadFunction(ownEngine(), 'until-unwanted.mjs', {
      inputs: [{ name: 'ask', type: 'int32' }],
      outputs: [{ name: 'unwanted', type: 'int32' }],
    })
    const controllers = [new AbortController(), new AbortController()]
    const answers = controllers.map(({ signal }) => model.infer({ ask: Int32Array.of(0) }, { signal }))
    const rejections = Promise.allSettled(answers)
    await until(() => model.capacity().running === 1)
    for (const controller of controllers) controller.abort(new Error('gone'))
    expect(await rejections).toMatchObject([{ reason: { message: 'gone' } }, { reason: { message: 'gone' } }])
    expect((await model.infer({ ask: Int32Array.of(1) })).unwanted.data).toEqual(Int32Array.of(1))
  })
})
