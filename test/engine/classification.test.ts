import fc from 'fast-check'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { classifyPieces } from '../../src/engine/classification.ts'
import { addSub, identity, identityUnbatched } from '../models/small.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'

const engine = sharedEngine()
const y = (data: number[], dims: number[]) => ({ y: new Tensor('float32', Float32Array.from(data), dims) })

describe('the classification of an output', () => {
  it('has the best classes of each row, the best first, with their labels', async () => {
    const model = await load(engine, identity('float32', [4]), {
      outputs: [{ name: 'y', labels: ['a', 'b', 'c'] }],
    })
    const outputs = await model.infer({
      x: new Tensor('float32', Float32Array.of(1, 3, 2, 5, 0, -1, 0, -2), [2, 4]),
    })
    expect(model.classification(outputs, 2)).toEqual([
      [
        { index: 3, value: 5, label: undefined },
        { index: 1, value: 3, label: 'b' },
      ],
      [
        { index: 0, value: 0, label: 'a' },
        { index: 2, value: 0, label: 'c' },
      ],
    ])
    expect(model.classification(outputs)[0]).toEqual([{ index: 3, value: 5, label: undefined }])
    expect(model.classification(outputs, 99)[0]!.map(({ index }) => index)).toEqual([3, 1, 2, 0])
  })
  it('has NaN last, and of equal scores the lower index first', async () => {
    const model = await load(engine, identity('float32', ['N']))
    const best = (scores: number[], count: number) =>
      model.classification(y(scores, [1, scores.length]), count)[0]!.map(({ index }) => index)
    expect(best([NaN, 1, NaN, 3, 2], 3)).toEqual([3, 4, 1])
    expect(best([NaN, 1, NaN, 3, 2], 5)).toEqual([3, 4, 1, 0, 2])
    expect(best([NaN, -Infinity, NaN], 1)).toEqual([1])
    expect(best([2, 0, -0, 2, 1, 2], 4)).toEqual([0, 3, 5, 4])
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom(NaN, 0, 1, Infinity, -Infinity), fc.integer({ min: -9, max: 9 })), {
          minLength: 1,
        }),
        fc.integer({ min: 1, max: 12 }),
        (scores, count) => {
          const valueOf = (index: number) =>
            Number.isNaN(scores[index]) ? -1e9 : Math.max(scores[index]!, -1e6)
          const order = [...scores.keys()].sort((a, b) =>
            valueOf(a) === valueOf(b) ? a - b : valueOf(b) > valueOf(a) ? 1 : -1,
          )
          expect(best(scores, count)).toEqual(order.slice(0, count))
        },
      ),
    )
  })
  it.each([
    ['ascending', (at: number) => at],
    ['descending', (at: number) => -at],
    ['equal', () => 1],
  ])('of scores that are %s takes n log n steps, in pieces', async (_, scoreOf) => {
    const count = 2 ** 16
    const { metadata, labels } = await load(engine, identity('float32', ['N']))
    const outputs = y(
      Array.from({ length: count }, (_unused, at) => scoreOf(at)),
      [1, count],
    )
    const pieces = classifyPieces(metadata, labels, { outputs, count, output: undefined })
    let steps = 0
    let result = pieces.next()
    for (; !result.done; result = pieces.next()) steps += 2 ** 13
    expect(steps).toBeGreaterThan(count)
    expect(steps).toBeLessThan(4 * count * Math.log2(count))
    expect(result.value[0]![0]!.index).toBe(scoreOf(1) > scoreOf(0) ? count - 1 : 0)
  })
  it('is of one row for a model without a batch dimension', async () => {
    const model = await load(engine, identityUnbatched('float32', [2, 2]))
    expect(model.classification(y([1, 9, 3, 4], [2, 2]))).toEqual([
      [{ index: 1, value: 9, label: undefined }],
    ])
  })
  it('is of each token, or each pixel, where an axis counts the classes', async () => {
    const labels = ['a', 'b', 'c']
    const tokens = await load(engine, identity('float32', ['T', 3]), { outputs: [{ name: 'y', labels }] })
    const scores = [1, 9, 0, 5, 4, 3, 0, 0, 7, 2, 8, 2]
    const outputs = await tokens.infer({ x: new Tensor('float32', Float32Array.from(scores), [2, 2, 3]) })
    const names = (rows: { label: string | undefined }[][][]) =>
      rows.map((row) => row.map((position) => position.map(({ label }) => label).join('')))
    expect(names(tokens.classification(outputs, 1, 'y', -1))).toEqual([
      ['b', 'a'],
      ['c', 'b'],
    ])
    expect(names(tokens.classification(outputs, 3, undefined, 2))).toEqual([
      ['bac', 'abc'],
      ['cab', 'bac'],
    ])
    expect(tokens.classification(outputs, 1, 'y', -1)[1]![0]).toEqual([{ index: 2, value: 7, label: 'c' }])
    // The same along the other dimension: [rows, classes, width], and [rows, classes, height, width].
    expect(tokens.classification(y([1, 2, 3, 6, 5, 4], [1, 2, 3]), 1, 'y', 1)).toEqual([
      [6, 5, 4].map((value) => [{ index: 1, value, label: 'b' }]),
    ])
    const pixels = await load(engine, identity('float32', [2, 2, 2]))
    expect(
      pixels
        .classification(y([1, 2, 3, 4, 4, 3, 2, 5], [1, 2, 2, 2]), 1, 'y', 1)[0]!
        .map(([best]) => [best!.index, best!.value]),
    ).toEqual([
      [1, 4],
      [1, 3],
      [0, 3],
      [1, 5],
    ])
    const single = await load(engine, identityUnbatched('float32', [2, 3]))
    expect(single.classification(y([1, 9, 0, 5, 4, 6], [2, 3]), undefined, undefined, -1)).toEqual([
      [[{ index: 1, value: 9, label: undefined }], [{ index: 2, value: 6, label: undefined }]],
    ])
    expect(tokens.classification(y([], [0, 2, 3]), 1, 'y', -1)).toEqual([])
    expect(tokens.classification(y([], [1, 0, 3]), 1, 'y', -1)).toEqual([[]])
  })
  it('has no axis that the output has not, or that counts its rows', async () => {
    const model = await load(engine, identity('float32', ['T', 3]))
    const outputs = y([1, 2, 3], [1, 1, 3])
    for (const axis of [0, -3, 3, -4, 1.5, NaN])
      expect(() => model.classification(outputs, 1, 'y', axis)).toThrow(
        expect.objectContaining({
          code: 'ERR_INVALID_ARG',
          argument: 'axis',
          expected: expect.stringContaining('[1, 1, 3] but the first'),
        }),
      )
  })
  it.each([
    ['what is no list', 'abc', 'outputs[0].labels', 'Array'],
    ['a number among texts', ['a', 'b', 1, 'c'], 'outputs[0].labels[2]', 'string'],
    ['a hole among texts', Object.assign(['a'], { 2: 'c' }), 'outputs[0].labels[1]', 'string'],
  ])('has no labels of %s', async (_, labels, argument, expected) => {
    await expect(
      load(engine, identity('float32', [3]), { outputs: [{ name: 'y', labels: labels as string[] }] }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', argument, expected })
  })
  it('takes integers and half floats', async () => {
    const half = await load(engine, identity('float16', [3]))
    const outputs = await half.infer({ x: Uint16Array.of(0x3c00, 0x4000, 0x3800) })
    expect(half.classification(outputs)).toEqual([[{ index: 1, value: 2, label: undefined }]])
    const long = await load(engine, identity('int64', [2]))
    expect(long.classification(await long.infer({ x: BigInt64Array.of(4n, 7n) }))[0]).toEqual([
      { index: 1, value: 7, label: undefined },
    ])
  })
  it.each([
    [
      'fewer labels than classes',
      ['a', 'b', 'c'],
      [
        "Output 'y' of model 'labelled' has 4 classes, and 3 labels: those after them are classified without a label. Give one label for each class, in their order.",
      ],
    ],
    [
      'more',
      ['a', 'b', 'c', 'd', 'e'],
      [
        "Output 'y' of model 'labelled' has 4 classes, and 5 labels: the last ones are never given. Give one label for each class, in their order.",
      ],
    ],
    ['as many', ['a', 'b', 'c', 'd'], []],
  ])('warns at the load, once, of %s', async (_, labels, expected) => {
    const warn = vi.spyOn(process, 'emitWarning')
    onTestFinished(() => warn.mockRestore())
    const own = ownEngine()
    const outputs = [{ name: 'y', labels }]
    const model = await own.load('labelled', {
      path: identity('float32', [4]),
      outputs,
      instanceGroup: [{ count: 2 }],
    })
    model.classification(await model.infer({ x: new Float32Array(4) }), 4)
    await own.loadPipeline('steps', {
      inputs: ['x'],
      steps: [{ model: 'labelled', inputs: { x: 'x' }, outputs: { y: 'y' } }],
      outputs,
    })
    const told = warn.mock.calls
      .filter(([, about]) => (about as unknown as { code: string }).code === 'ZEROHOP_LABELS')
      .map(([text]) => text)
    expect(told).toEqual(expected.flatMap((text) => [text, text.replace('labelled', 'steps')]))
  })
  it('does not guess how many classes there are where a row has several dimensions, or a variable one', async () => {
    const warn = vi.spyOn(process, 'emitWarning')
    onTestFinished(() => warn.mockRestore())
    const labels = ['a', 'b', 'c']
    await load(engine, identity('float32', [2, 4]), { outputs: [{ name: 'y', labels }] })
    await load(engine, identity('float32', ['M']), { outputs: [{ name: 'y', labels }] })
    await load(engine, identity('float32', [3, 1, 1]), { outputs: [{ name: 'y', labels }] })
    expect(warn.mock.calls.filter(([text]) => String(text).includes('labels'))).toEqual([])
  })
  it('refuses what it cannot classify', async () => {
    const model = await load(engine, identity('float32', [4]))
    const two = await load(engine, addSub('int32'))
    const words = await load(engine, identity('string', [2]))
    expect(() => model.classification({}, 1)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'outputs.y' }),
    )
    expect(() => model.classification(y([1], [1]), 0)).toThrow(expect.objectContaining({ argument: 'count' }))
    expect(() => model.classification(y([1], [1]), 1, 'z')).toThrow(
      expect.objectContaining({ argument: 'output', expected: "the name of an output ('y')" }),
    )
    expect(() => two.classification({})).toThrow(expect.objectContaining({ argument: 'output' }))
    expect(() => words.classification({ y: new Tensor('string', ['a', 'b'], [1, 2]) })).toThrow(
      expect.objectContaining({ received: 'one of type string' }),
    )
  })
})
