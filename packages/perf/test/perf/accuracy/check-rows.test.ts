import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { InferenceError, Tensor, type ModelStatistics, type Outputs } from '../../../../../src/index.ts'
import { answerDifference } from '../../../src/perf/accuracy/answer-difference.ts'
import {
  accuracyText,
  type AnsweringModel,
  checkRows,
  type RowCheckSettings,
} from '../../../src/perf/accuracy/check-rows.ts'
import type { Sample } from '../../../src/perf/input/sample-source.ts'

const floats = (...values: number[]) => new Tensor('float32', Float32Array.from(values), [1, values.length])
const samples: Sample[] = [1, 2, 3, 4].map((value) => ({ feeds: { x: floats(value, -10 * value) }, rows: 1 }))
const settings: RowCheckSettings = { concurrency: 4, rounds: 2, tolerance: 1e-3 }

/** Gives what it is asked, changed by `change` where others are in flight. */
function model(
  change: (value: number, together: number) => number,
): AnsweringModel & { readonly calls: number } {
  let inFlight = 0
  const stats = {
    inferenceStats: { cacheHit: { count: 0, ns: 0 } },
    batchStats: [],
  } as unknown as ModelStatistics
  const fake = {
    calls: 0,
    stats: () => stats,
    async infer({ x }: Sample['feeds']): Promise<Outputs> {
      fake.calls++
      inFlight++
      await nextTurn()
      const together = inFlight
      await nextTurn()
      inFlight--
      return {
        y: floats(...Array.from((x as Tensor).data as Float32Array, (value) => change(value, together))),
      }
    },
  }
  return fake
}

describe('answers beside those alone', () => {
  it('are the same where rows do not touch each other', async () => {
    const own = model((value) => value * 2)
    const result = await checkRows(own, samples, settings)
    expect(result).toMatchObject({
      answers: 8,
      samples: 4,
      concurrency: 4,
      within: true,
      failures: {},
      cacheHits: 0,
    })
    expect(result.outputs).toEqual([
      {
        output: 'y',
        type: 'float32',
        absolute: 0,
        relative: 0,
        spread: expect.closeTo(3, 5),
        above: 0,
        sample: null,
      },
    ])
    // Each alone, and then each twice.
    expect(own.calls).toBe(4 + 8)
  })

  it('are told with their largest difference, of itself and of the answer it is in', async () => {
    const result = await checkRows(
      model((value, together) => value + (together > 1 ? 0.1 : 0)),
      samples,
      settings,
    )
    expect(result.within).toBe(false)
    // 0.1 of an answer whose largest number is -10 weighs the most.
    expect(result.outputs).toEqual([
      {
        output: 'y',
        type: 'float32',
        absolute: expect.closeTo(0.1, 5),
        relative: expect.closeTo(0.01, 5),
        spread: expect.closeTo(3, 5),
        above: 8,
        sample: 0,
      },
    ])
    expect(
      (
        await checkRows(
          model((value, together) => value + (together > 1 ? 0.1 : 0)),
          samples,
          { ...settings, tolerance: 0.011 },
        )
      ).within,
    ).toBe(true)
  })

  it('are not within any tolerance where a request fails, alone or under load', async () => {
    const failing: AnsweringModel = {
      ...model((value) => value),
      infer: () => Promise.reject(new InferenceError('ERR_QUEUE_FULL', 'full')),
    }
    const result = await checkRows(failing, samples, settings)
    expect(result).toMatchObject({ answers: 0, within: false, failures: { ERR_QUEUE_FULL: 4 } })
    expect(accuracyText(result)).toContain('There was no answer to compare')
  })

  it('are told to be of no use where all requests have the same', async () => {
    const text = accuracyText(
      await checkRows(
        model(() => 1),
        samples,
        settings,
      ),
    )
    expect(text).toContain('Answers to different requests are the same: one for another would not show')
    expect(text).toContain('Answers are within the tolerance of 0.001')
  })

  it('are compared until it is ended', async () => {
    const own = model((value) => value)
    expect(await checkRows(own, samples, { ...settings, signal: AbortSignal.abort() })).toMatchObject({
      answers: 0,
      within: false,
    })
    expect(own.calls).toBe(0)
  })
})

describe('the difference of two answers', () => {
  const half = (bits: number) => new Tensor('float16', Uint16Array.of(bits), [1]) as never
  it.each([
    ['numbers that are the same', floats(1, 2), floats(1, 2), 0],
    ['NaN in the same place', floats(NaN, 2), floats(NaN, 2), 0],
    ['NaN in the place of a number', floats(1, 2), floats(NaN, 2), Infinity],
    ['infinity in the place of a number', floats(1, 2), floats(Infinity, 2), Infinity],
    ['another shape', floats(1, 2), floats(1), Infinity],
    [
      'whole numbers, of which none may differ',
      new Tensor('int32', Int32Array.of(1000), [1]),
      new Tensor('int32', Int32Array.of(1001), [1]),
      Infinity,
    ],
    [
      'long whole numbers',
      new Tensor('int64', BigInt64Array.of(7n), [1]),
      new Tensor('int64', BigInt64Array.of(7n), [1]),
      0,
    ],
    ['texts', new Tensor('string', ['a'], [1]), new Tensor('string', ['b'], [1]), Infinity],
    ['floats of 16 bits, by what they mean', half(0x3c00), half(0x3c01), 2 ** -10],
    ['sequences entry by entry', [floats(4), floats(8)], [floats(4), floats(10)], 0.25],
    ['sequences of another length', [floats(4)], [floats(4), floats(4)], Infinity],
    ['maps by their keys', { a: 0.5, b: 0.5 }, { a: 0.25, b: 0.75 }, 0.5],
    ['maps of other keys', new Map([[1n, 0.5]]), new Map([[2n, 0.5]]), Infinity],
    ['an output that is missing', floats(1), undefined, Infinity],
    ['outputs that are absent', null, null, 0],
  ])('is that of %s', (_, alone, other, relative) => {
    expect(answerDifference(alone, other).relative).toBe(relative)
  })
})
