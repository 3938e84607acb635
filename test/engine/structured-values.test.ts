import { describe, expect, it } from 'vitest'
import { Tensor, type Feeds, type OutputValue } from '../../src/index.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { sequence, tensor } from '../models/builder.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { describeNative } from '../support/native.ts'
import { load, sharedEngine } from '../support/open.ts'

const floats = (values: readonly number[], dims: readonly number[] = [values.length]) =>
  new Tensor('float32', Float32Array.from(values), dims)
const integers = (...values: bigint[]) => new Tensor('int64', BigInt64Array.from(values), [values.length])
const words = (...values: string[]) => new Tensor('string', values, [values.length])

/** A value with tensors as their dims and elements. */
function shown(value: OutputValue): unknown {
  if (Array.isArray(value)) return value.map(shown)
  if (value === null || value instanceof Map || !('dims' in value)) return value
  const { dims, data } = value as Tensor
  return { dims: [...dims], data: [...(data as Float32Array)] }
}

// All values here are by hand.
describeNative('with the native executor', () => {
  const engine = sharedEngine({ executor: 'native', cpuWorkers: 1 })
  const run = async (path: string, feeds: Feeds) => {
    const outputs: Record<string, OutputValue> = await (await load(engine, path)).infer(feeds)
    return Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, shown(value)]))
  }

  describe('outputs', () => {
    it('that are a sequence are an array', async () => {
      const x = { dims: [1, 4], data: [1, 2, 3, 4] }
      expect(await run(small.sequenceOnly(), { x: floats([1, 2, 3, 4], [1, 4]) })).toEqual({ s: [x, x] })
      expect(await run(small.sequenceAndTensor(), { x: floats([1, 2, 3, 4], [1, 4]) })).toEqual({
        s: [x, x],
        y: x,
      })
      expect(await run(small.stringsAsSequence(), { x: words('ä', '') })).toEqual({
        s: [
          { dims: [2], data: ['ä', ''] },
          { dims: [1], data: ['b'] },
        ],
      })
    })

    it('that are maps have integers for keys, or strings', async () => {
      const model = await load(engine, small.mapOutput())
      expect(model.metadata.outputs).toEqual([{ name: 'm', type: 'seq(map(int64, float32))', shape: [] }])
      const { m } = (await model.infer({ x: floats([1, 2, 3, 4, 5, 6], [2, 3]) })) as Record<
        string,
        OutputValue
      >
      expect(m).toEqual([
        new Map([
          [0n, 1],
          [1n, 2],
          [2n, 3],
        ]),
        new Map([
          [0n, 4],
          [1n, 5],
          [2n, 6],
        ]),
      ])
      expect(((await model.infer({ x: floats([], [0, 3]) })) as Record<string, OutputValue>)['m']).toEqual([])
    })

    it('that are optional are the value', async () => {
      expect(await run(small.optionalOutput(), { x: floats([1, 2, 3, 4], [1, 4]) })).toEqual({
        o: { dims: [1, 4], data: [1, 2, 3, 4] },
      })
    })
  })

  describe('a sequence with one entry for each row', () => {
    it('is divided among the requests of a batch', async () => {
      const model = await load(engine, small.rowsAsSequence())
      expect([model.metadata.joining.rows, model.metadata.maxBatchSize]).toEqual(['independent', 32])
      const requests = [1, 3, 2, 1].map((count, at) =>
        Array.from({ length: count }, (_, row) => [at, row, 7, 8]),
      )
      const answers = await Promise.all(
        requests.map((rows) => model.infer({ x: floats(rows.flat(), [rows.length, 4]) })),
      )
      expect(answers.map(({ s }) => shown(s as OutputValue))).toEqual(
        requests.map((rows) => rows.map((data) => ({ dims: [4], data }))),
      )
      expect(largestBatch(model)).toBe(7)
    })

    it('is joined again when its request was split', async () => {
      const model = await load(engine, small.rowsAsSequence(), { maxBatchSize: 2, splitOversized: true })
      const rows = Array.from({ length: 5 }, (_, row) => [row, 1, 2, 3])
      const { s } = await model.infer({ x: floats(rows.flat(), [5, 4]) })
      expect(shown(s as OutputValue)).toEqual(rows.map((data) => ({ dims: [4], data })))
    })
  })

  it('a sequence that has other entries is the reason why requests are not joined', async () => {
    const model = await load(engine, small.sequenceAndTensor())
    expect(model.metadata.joining).toMatchObject({
      rows: 'dependent',
      how: 'proved',
      reason: "output 's' is a sequence without an entry for each row",
    })
    await Promise.all(
      [1, 2, 3].map((rows) => model.infer({ x: floats(Array<number>(rows * 4).fill(rows), [rows, 4]) })),
    )
    expect(largestBatch(model)).toBe(1)
    const declared = await load(engine, small.sequenceAndTensor(), {
      maxBatchSize: 8,
      checkRows: false,
      splitOversized: true,
    })
    await expect(declared.infer({ x: floats(Array<number>(36).fill(1), [9, 4]) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      message: expect.stringContaining("output 's' has 2 entries for a part of 8 rows"),
    })
  })

  it('maxBatchSize is refused for what has no rows', async () => {
    const refused = async (path: string, expected: string) =>
      expectRefusal(await rejectionOf(() => load(engine, path, { maxBatchSize: 4 })), {
        code: 'ERR_MODEL_CONFIG',
        argument: 'maxBatchSize',
        expected: RegExp(expected),
      })
    await refused(small.optionalOutput(), "'o' is optional")
    await refused(small.sequenceInput(), "'s' is seq")
    await refused(small.mapInput(), "'m' is map")
  })

  describe('inputs', () => {
    it('that are a sequence are an array', async () => {
      expect(
        await run(small.sequenceInput(), { s: [floats([1, 2, 3, 4], [1, 4]), floats([], [0, 4])] }),
      ).toEqual({ y: { dims: [1, 4], data: [1, 2, 3, 4] } })
      expect(await run(small.joinedSequence(), { s: [integers(1n, 2n), integers(), integers(3n)] })).toEqual({
        y: { dims: [3], data: [1n, 2n, 3n] },
        n: { dims: [], data: [3n] },
      })
    })

    it('that are maps are an object, or a Map', async () => {
      expect(await run(small.mapInput(), { m: { c: 3, a: 1, other: 9 } })).toEqual({
        y: { dims: [1, 3], data: [1, 0, 3] },
      })
      expect(await run(small.mapInput(), { m: {} })).toEqual({ y: { dims: [1, 3], data: [0, 0, 0] } })
      expect(
        await run(small.integerMapInput(), {
          m: new Map([
            [2n, 1.5],
            [0n, 5],
          ]),
        }),
      ).toEqual({ y: { dims: [1, 4], data: [5, 0, 1.5, 0] } })
      expect(await run(small.integerMapInput(), { m: new Map([[3, -1]]) })).toEqual({
        y: { dims: [1, 4], data: [0, 0, 0, -1] },
      })
    })

    it('that are optional are the value, null or left out', async () => {
      const path = small.optionalAsIs('tensor', tensor('float32', ['N']))
      expect(await run(path, { i: floats([1, 2]) })).toEqual({
        o: { dims: [2], data: [1, 2] },
        has: { dims: [], data: [1] },
      })
      for (const feeds of [{ i: null }, {}] as Feeds[])
        expect(await run(path, feeds)).toEqual({ o: null, has: { dims: [], data: [0] } })
      const list = small.optionalAsIs('sequence', sequence(tensor('float32', ['N'])))
      expect(await run(list, { i: [floats([1, 2]), floats([3])] })).toEqual({
        o: [
          { dims: [2], data: [1, 2] },
          { dims: [1], data: [3] },
        ],
        has: { dims: [], data: [1] },
      })
      expect(await run(list, { i: null })).toEqual({ o: null, has: { dims: [], data: [0] } })
    })

    it('are taken as they are when infer() is called, and each request by itself', async () => {
      const model = await load(engine, small.joinedSequence())
      const data = BigInt64Array.of(1n, 2n)
      const given = [new Tensor('int64', data, [2])]
      const [first, second] = [model.infer({ s: given }), model.infer({ s: [integers(7n)] })]
      data.fill(9n)
      given.length = 0
      expect([shown((await first)['y']!), shown((await second)['y']!)]).toEqual([
        { dims: [2], data: [1n, 2n] },
        { dims: [1], data: [7n] },
      ])
      expect(largestBatch(model)).toBe(1)
    })

    it.each<[string, () => string, Feeds, string, RegExp]>([
      ['no array', small.joinedSequence, { s: integers(1n) }, "input 's'", /^an array$/],
      ['an empty one', small.joinedSequence, { s: [] }, "input 's'", /one value or more/],
      [
        'of another type',
        small.joinedSequence,
        { s: [integers(1n), floats([1])] },
        "input 's[1]'",
        /^type int64$/,
      ],
      [
        'with holes',
        small.joinedSequence,
        { s: Array(2) as never },
        "input 's[0]'",
        /^a Tensor or a BigInt64Array$/,
      ],
      ['no map', small.mapInput, { m: null }, "input 'm'", /^an object$/],
      ['of other values', small.mapInput, { m: { a: 'x' } }, "input 'm[a]'", /^a number of type float32$/],
      [
        'of other keys',
        small.integerMapInput,
        { m: new Map([[0.5, 1]]) },
        "input 'm'",
        /^integers for keys$/,
      ],
      [
        'with strings for keys',
        small.integerMapInput,
        { m: { a: 1 } },
        "input 'm'",
        /^a Map with integers for keys$/,
      ],
      ['nothing where it is not optional', small.joinedSequence, {}, "input 's'", /^to be given$/],
    ])('are refused when they are %s', async (_, path, feeds, argument, expected) => {
      const model = await load(engine, path())
      expectRefusal(await rejectionOf(() => model.infer(feeds)), { argument, expected })
    })

    it('of floats are looked at by rejectNonFinite', async () => {
      const model = await load(engine, small.sequenceInput(), { rejectNonFinite: 'inputs' })
      const error = await rejectionOf(() => model.infer({ s: [floats([1, 2, Infinity, 4], [1, 4])] }))
      expectRefusal(error, { argument: "input 's[0]'[2]", expected: /finite/, received: Infinity })
    })

    it('are run as warm-up samples', async () => {
      const model = await load(engine, small.joinedSequence(), {
        warmup: [{ feeds: { s: [integers(1n)] }, count: 2 }],
        latencyTargetMs: 1000,
      })
      expect(shown((await model.infer({ s: [integers(4n)] }))['y']!)).toEqual({ dims: [1], data: [4n] })
    })
  })
})
