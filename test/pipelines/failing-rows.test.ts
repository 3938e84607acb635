import { describe, expect, it } from 'vitest'
import type { FunctionOptions, InferenceEngine } from '../../src/index.ts'
import { ownEngine } from '../support/open.ts'
import { loadSum, one, step } from './arithmetic.ts'

/** A pipeline whose steps both go to one function, which fails rows of 13 beside the others of their batch. */
async function loadFailing(engine: InferenceEngine, options: Pick<FunctionOptions, 'dynamicBatching'> = {}) {
  await engine.loadFunction('odd', {
    inputs: [{ name: 'x', type: 'float32', dims: [1] }],
    outputs: [{ name: 'y', type: 'float32', dims: [1] }],
    run: ({ x }, { fail }) => {
      for (const [row, value] of x.data.entries()) if (value === 13) fail(row, new RangeError('thirteen'))
      return { y: Float32Array.from(x.data) }
    },
    ...options,
  })
  await loadSum(engine, 'sum')
  return engine.loadPipeline('pair', {
    inputs: ['first', 'second'],
    steps: [
      { ...step('odd', 'first', 'a'), name: 'a' },
      { ...step('odd', 'second', 'b'), name: 'b' },
      { model: 'sum', inputs: { a: 'a', b: 'b' }, outputs: { sum: 'y' } },
    ],
    outputs: ['y'],
  })
}

const feeds = (first: number, second: number) => ({ first: one(first), second: one(second) })

describe('a step that fails beside another one of its request, in one batch', () => {
  it('leaves those that come after it their answers, where they are given in order', async () => {
    const model = await loadFailing(ownEngine(), { dynamicBatching: { preserveOrdering: true } })
    for (const [first, second] of [
      [13, 1],
      [1, 13],
      [13, 13],
    ] as const)
      await expect(model.infer(feeds(first, second))).rejects.toMatchObject({ code: 'ERR_EXECUTION' })
    const answers = await Promise.allSettled(
      [feeds(1, 2), feeds(13, 5), feeds(3, 4), feeds(5, 13), feeds(6, 7)].map((each) => model.infer(each)),
    )
    expect(
      answers.map((answer) =>
        answer.status === 'fulfilled' ? answer.value['y']!.data[0] : answer.reason.step,
      ),
    ).toEqual([3, 'a', 7, 'b', 13])
  })

  it('is counted once, and so is the other one', async () => {
    const engine = ownEngine()
    const model = await loadFailing(engine)
    await expect(model.infer(feeds(13, 1))).rejects.toMatchObject({ code: 'ERR_EXECUTION', step: 'a' })
    const { success, fail } = engine.model('odd').stats().inferenceStats
    expect([success.count, fail.count]).toEqual([1, 1])
    expect(
      model
        .stats()
        .steps!.map(({ success, fail, cancelledCount }) => [success.count, fail.count, cancelledCount]),
    ).toEqual([
      [0, 1, 0],
      [0, 0, 1],
      [0, 0, 0],
    ])
  })
})
