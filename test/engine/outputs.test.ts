import { describe, expect, it } from 'vitest'
import { Tensor } from '../../src/index.ts'
import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { elementTypeCode } from '../models/element-type.ts'
import * as small from '../models/small.ts'
import { largestBatch, matchesPlain } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { noise, sample } from '../support/samples.ts'

const engine = sharedEngine()

/** `count` outputs y0, y1 ...: y<i> = x + i, all float32 ['N', 2]. */
const manyOutputs = (count: number): string =>
  modelPath(`many-outputs-${count}`, () => {
    const model = graph('many-outputs').input('x', 'float32', ['N', 2])
    for (let index = 0; index < count; index++) {
      model
        .output(`y${index}`, 'float32', ['N', 2])
        .initializer(`c${index}`, 'float32', [1], [index])
        .node('Add', ['x', `c${index}`], [`y${index}`])
    }
    return model.build()
  })

/** s = x as text, n = the indices of what is not zero, y = x: one output each by message, of unknown size, in place. */
const mixedOutputs = (): string =>
  modelPath('mixed-outputs', () =>
    graph('mixed-outputs')
      .input('x', 'float32', [2, 'L'])
      .output('s', 'string', [2, 'L'])
      .output('n', 'int64', [2, 'nnz'])
      .output('y', 'float32', [2, 'L'])
      .node('Cast', ['x'], ['s'], { to: elementTypeCode.string })
      .node('NonZero', ['x'], ['n'])
      .node('Identity', ['x'], ['y'])
      .build(),
  )

describe('the outputs option', () => {
  it('gives each caller of one batch the outputs it asked for', async () => {
    const model = await load(engine, small.addSub('float32'))
    const samples = { a: noise([1, 16]), b: noise([1, 16]) }
    const wanted = [['sum'], ['difference'], undefined, ['difference', 'sum'], ['sum']]
    const answers = await Promise.all(
      wanted.map((outputs) => model.infer(feedsOf(samples), outputs && { outputs })),
    )
    for (const [index, outputs] of wanted.entries())
      expectSame(answers[index]!, await runPlain(model.metadata.path, samples, outputs))
    expect(largestBatch(model)).toBe(5)
  })

  it.each([['s'], ['n'], ['y'], ['s', 'n'], ['n', 'y'], ['y', 's'], ['s', 'n', 'y']])(
    'serves outputs of every way of travelling: %s %s %s',
    async (...names) => {
      const model = await load(engine, mixedOutputs())
      const outputs = names.filter((name) => typeof name === 'string')
      await matchesPlain(model, [{ x: noise([2, 3]) }, { x: noise([2, 1]) }, { x: noise([2, 0]) }], {
        outputs,
      })
    },
  )

  it.each([31, 32, 33, 70])('picks out of %i outputs', async (count) => {
    const model = await load(engine, manyOutputs(count))
    const requests = [{ x: noise([1, 2]) }, { x: noise([3, 2]) }]
    for (const picked of [[0], [30], [count - 1], [count - 1, 0], [29, 30]]) {
      await matchesPlain(model, requests, { outputs: picked.map((index) => `y${index}`) })
    }
    await matchesPlain(model, requests)
  })

  it('keeps callers of one batch apart who ask for outputs past the 32nd', async () => {
    const model = await load(engine, manyOutputs(40))
    const x = noise([1, 2])
    const wanted = [['y39'], ['y0'], ['y31', 'y32'], ['y35', 'y1']]
    const answers = await Promise.all(wanted.map((outputs) => model.infer(feedsOf({ x }), { outputs })))
    for (const [index, outputs] of wanted.entries())
      expectSame(answers[index]!, await runPlain(model.metadata.path, { x }, outputs))
    expect(largestBatch(model)).toBe(4)
  })
})

describe('bare data', () => {
  it('is one row of a batched model', async () => {
    const model = await load(engine, small.identity('float32'))
    const { y } = await model.infer({ x: Float32Array.of(1, 2, 3, 4) })
    expectSame({ y: y! }, { y: new Tensor('float32', Float32Array.of(1, 2, 3, 4), [1, 4]) })
  })

  it('shares a batch with tensors of several rows', async () => {
    const model = await load(engine, small.identity('int64'))
    const row = BigInt64Array.of(1n, -2n, 3n, -4n)
    const rows = sample('int64', [3, 4])
    const [one, several] = await Promise.all([model.infer({ x: row }), model.infer(feedsOf({ x: rows }))])
    expectSame(one!, { y: new Tensor('int64', row, [1, 4]) })
    expectSame(several!, await runPlain(model.metadata.path, { x: rows }))
    expect(largestBatch(model)).toBe(4)
  })

  it('is the whole input of an unbatched model', async () => {
    const model = await load(engine, small.identityUnbatched('uint8', [2, 3]))
    const { y } = await model.infer({ x: Uint8Array.of(1, 2, 3, 4, 5, 6) })
    expectSame({ y: y! }, { y: new Tensor('uint8', Uint8Array.of(1, 2, 3, 4, 5, 6), [2, 3]) })
  })

  it('is an array of strings', async () => {
    const model = await load(engine, small.stringConcat())
    const { y } = await model.infer({ a: ['a', 'ü'], b: ['b', '😀'] })
    expectSame({ y: y! }, { y: new Tensor('string', ['ab', 'ü😀'], [1, 2]) })
  })

  it('is one string by itself, where the row has no other', async () => {
    const model = await load(engine, small.identity('string', [1]))
    expect((await model.infer({ x: 'ü😀' })).y).toMatchObject({ data: ['ü😀'], dims: [1, 1] })
    const pairs = await load(engine, small.stringConcat())
    await expect(pairs.infer({ a: 'a', b: ['b', 'c'] })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('expected 2 strings for one row'),
    })
    const numbers = await load(engine, small.identity('float32'))
    await expect(numbers.infer({ x: '1' })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining('Float32Array'),
    })
  })

  it('is raw half-precision bits, or a Float16Array where there is one', async () => {
    const model = await load(engine, small.identity('float16'))
    const words = Uint16Array.of(0x3c00, 0x4000, 0x8000, 0xfc00)
    const { Float16Array: Float16 } = globalThis as {
      Float16Array?: new (buffer: ArrayBuffer) => Uint16Array
    }
    for (const x of Float16 === undefined ? [words] : [words, new Float16(words.slice().buffer)]) {
      const { y } = await model.infer({ x })
      const { buffer, byteOffset } = y!.data as Uint16Array
      expect(new Uint16Array(buffer, byteOffset, 4)).toEqual(words)
    }
  })

  it('may be a view into a larger buffer', async () => {
    const model = await load(engine, small.identity('float32'))
    const all = Float32Array.from({ length: 12 }, (_, index) => index)
    const { y } = await model.infer({ x: all.subarray(4, 8) })
    expect([...(y!.data as Float32Array)]).toEqual([4, 5, 6, 7])
  })
})
