import { describe, expect, it } from 'vitest'
import {
  type Feeds,
  type FeedValue,
  type Model,
  type OutputValue,
  type RawTensor,
  type RawType,
  Tensor,
} from '../../src/index.ts'
import { unpacked } from '../../src/tensor/elements.ts'
import { expectRefusal, rejectionOf } from '../abuse/refusal.ts'
import { sequence, tensor } from '../models/builder.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { describeNative } from '../support/native.ts'
import { load, sharedEngine } from '../support/open.ts'

const raw = (type: RawType, dims: readonly number[], bits: readonly number[]) =>
  ({ type, dims, data: (type === 'bfloat16' ? Uint16Array : Uint8Array).from(bits) }) as RawTensor
const floats = (values: readonly number[], dims: readonly number[] = [1, values.length]) =>
  new Tensor('float32', Float32Array.from(values), dims)
const bitsOf = (value: unknown): { type: string; dims: readonly number[]; bits: number[] } => {
  const { type, dims, data } = value as RawTensor
  return { type, dims, bits: [...data] }
}
const numbers = (value: unknown) => [...((value as Tensor).data as Float32Array)]

/**
 * A row of four numbers that each type has, and its bits: of floats by Python's ml_dtypes
 * (`np.array([1, -1.5, 3.5, -7], np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)` and so on), of integers by hand.
 */
const rows: Record<RawType, { numbers: number[]; bits: number[] }> = {
  bfloat16: { numbers: [1, -1.5, 3.5, -7], bits: [0x3f80, 0xbfc0, 0x4060, 0xc0e0] },
  float8e4m3fn: { numbers: [1, -1.5, 3.5, -7], bits: [56, 188, 70, 206] },
  float8e4m3fnuz: { numbers: [1, -1.5, 3.5, -7], bits: [64, 196, 78, 214] },
  float8e5m2: { numbers: [1, -1.5, 3.5, -7], bits: [60, 190, 67, 199] },
  float8e5m2fnuz: { numbers: [1, -1.5, 3.5, -7], bits: [64, 194, 71, 203] },
  int4: { numbers: [1, -1, 7, -8], bits: [0xf1, 0x87] },
  uint4: { numbers: [1, 15, 7, 8], bits: [0xf1, 0x87] },
}
const types = Object.keys(rows) as RawType[]

/** The row, and with it turned round, several rows. */
const turned = (type: RawType, count: number) =>
  Array.from({ length: count }, (_, row) => rows[type].numbers.map((_, at, all) => all[(at + row) % 4]!))

describeNative('with the native executor', () => {
  const engine = sharedEngine({ executor: 'native', cpuWorkers: 1 })

  describe.each(types)('%s', (type) => {
    const { numbers: values, bits } = rows[type]

    it('is answered as raw bits', async () => {
      const model = await load(engine, small.castTo(type))
      expect(model.metadata.outputs).toEqual([{ name: 'y', type, shape: ['N', 4] }])
      expect(model.metadata.unservableOutputs).toEqual([])
      expect(bitsOf((await model.infer({ x: floats(values) })).y)).toEqual({ type, dims: [1, 4], bits })
    })

    it('is taken as raw bits', async () => {
      const model = await load(engine, small.castFrom(type))
      expect(numbers((await model.infer({ x: raw(type, [1, 4], bits) })).y)).toEqual(values)
      expect(numbers((await model.infer({ x: raw(type, [1, 4], bits).data })).y)).toEqual(values)
    })

    it('is batched, each request with its own rows', async () => {
      const [to, from] = [await load(engine, small.castTo(type)), await load(engine, small.castFrom(type))]
      const counts = [1, 3, 2, 0, 1, 5]
      const requests = counts.map((count) => turned(type, count))
      const sent = await Promise.all(
        requests.map((own) => to.infer({ x: floats(own.flat(), [own.length, 4]) })),
      )
      expect(sent.map(({ y }) => y!.dims)).toEqual(counts.map((count) => [count, 4]))
      const back = await Promise.all(sent.map(({ y }) => from.infer({ x: y! })))
      expect(back.map(({ y }) => numbers(y))).toEqual(requests.map((own) => own.flat()))
      // ONNX Runtime has nothing by which rows of so few values could be told apart in every case.
      for (const model of [to, from])
        if (model.metadata.joining.rows === 'independent') expect(largestBatch(model)).toBeGreaterThan(1)
    })
  })

  it.each(['bfloat16', 'int4', 'uint4', 'float8e4m3fn', 'float8e5m2'] as const)(
    'rows of %s are found to be independent, or not',
    async (type) => {
      const joining = async (path: string) => (await load(engine, path)).metadata.joining.rows
      expect([
        await joining(small.castTo(type)),
        await joining(small.castFrom(type)),
        await joining(small.runningSumsAs(type)),
      ]).toEqual(['independent', 'independent', 'dependent'])
    },
  )

  describe('rows of an odd number of 4-bit elements', () => {
    const row = (own: number, length: number) =>
      Array.from({ length }, (_, at) => ((own * 3 + at * 5) % 16) - 8)
    const packedRows = (rows: number[][]) =>
      Uint8Array.from({ length: Math.ceil(rows.flat().length / 2) }, (_, byte) => {
        const [low, high = 0] = rows.flat().slice(2 * byte, 2 * byte + 2)
        return (low! & 15) | ((high & 15) << 4)
      })
    const int4 = (rows: number[][], length: number) =>
      raw('int4', [rows.length, length], [...packedRows(rows)])
    const read = (value: unknown) => {
      const { dims, data } = value as RawTensor<'int4'>
      return [...unpacked('int4', data, dims[0]! * dims[1]!)]
    }

    it.each([1, 3, 5])('are batched by elements, not by bytes: %i in a row', async (length) => {
      const [from, to] = [
        await load(engine, small.castFrom('int4', ['N', length]), { maxBatchSize: 32 }),
        await load(engine, small.castTo('int4', ['N', length]), { maxBatchSize: 32 }),
      ]
      const requests = [1, 2, 1, 3, 1, 1, 4].map((count, at) =>
        Array.from({ length: count }, (_, own) => row(at * 5 + own, length)),
      )
      const floated = await Promise.all(requests.map((own) => from.infer({ x: int4(own, length) })))
      expect(floated.map(({ y }) => numbers(y))).toEqual(requests.map((own) => own.flat()))
      const back = await Promise.all(
        requests.map((own) => to.infer({ x: floats(own.flat(), [own.length, length]) })),
      )
      expect(back.map(({ y }) => read(y))).toEqual(requests.map((own) => own.flat()))
      // Half a byte that belongs to no element tells nothing.
      expect(back.map(({ y }) => (y as unknown as RawTensor).data)).toEqual(requests.map(packedRows))
      expect([largestBatch(from), largestBatch(to)]).toEqual([13, 13])
    })

    it('are the same where only the run knows how many there are', async () => {
      const model = await load(engine, small.castTo('int4', ['N', 'L']), { maxBatchSize: 8 })
      const answers = await Promise.all(
        [3, 3, 3, 5].map((length, at) => model.infer({ x: floats(row(at, length)) })),
      )
      expect(answers.map(({ y }) => read(y))).toEqual([3, 3, 3, 5].map((length, at) => row(at, length)))
    })

    it('are split into parts and joined again', async () => {
      const [from, to] = [small.castFrom('int4', ['N', 3]), small.castTo('int4', ['N', 3])]
      const config = { maxBatchSize: 2, splitOversized: true }
      const rows = Array.from({ length: 7 }, (_, own) => row(own, 3))
      const y = (await (await load(engine, from, config)).infer({ x: int4(rows, 3) })).y
      expect(numbers(y)).toEqual(rows.flat())
      expect(
        ((await (await load(engine, to, config)).infer({ x: y! })).y as unknown as RawTensor).data,
      ).toEqual(packedRows(rows))
    })
  })

  it('a tensor of raw bits is checked as any other', async () => {
    const model = await load(engine, small.castFrom('int4', ['N', 3]))
    const refused = async (x: unknown, expected: RegExp, received: unknown) =>
      expectRefusal(await rejectionOf(() => model.infer({ x: x as FeedValue })), {
        argument: "input 'x'",
        expected,
        received,
      })
    await refused(
      { type: 'int4', dims: [1, 3], data: new Uint8Array(3) },
      /^2 bytes \(3 elements, two a byte\) for dims \[1, 3\]$/,
      3,
    )
    await refused(
      { type: 'int4', dims: [1, 3], data: new Int8Array(2) },
      /^a Uint8Array of raw int4 bits$/,
      expect.anything(),
    )
    await refused({ type: 'uint4', dims: [1, 3], data: new Uint8Array(2) }, /^type int4$/, 'uint4')
    await refused(
      { type: 'int4', dims: [1, 4], data: new Uint8Array(2) },
      /^shape \[N, 3\]$/,
      expect.anything(),
    )
    await refused([1, 2, 3], /^a Tensor or a Uint8Array of raw int4 bits$/, expect.anything())
  })

  it('a Tensor of 4-bit integers is taken, too', async () => {
    const model = await load(engine, small.castFrom('int4'))
    const x = new Tensor('int4', Uint8Array.from(rows.int4.bits) as never, [1, 4])
    expect(numbers((await model.infer({ x })).y)).toEqual(rows.int4.numbers)
  })

  it.each([
    ['bfloat16', 0x7f80],
    ['float8e5m2', 0x7c],
    ['float8e4m3fn', 0x7f],
    ['float8e4m3fnuz', 0x80],
  ] as const)('rejectNonFinite counts %s among the floats', async (type, strange) => {
    const { bits, numbers: values } = rows[type]
    const inputs = await load(engine, small.castFrom(type), { rejectNonFinite: 'inputs' })
    const error = await rejectionOf(() =>
      inputs.infer({ x: raw(type, [1, 4], [...bits.slice(0, 3), strange]) }),
    )
    expectRefusal(error, { argument: "input 'x'[3]", expected: /finite/, received: strange })
    expect(numbers((await inputs.infer({ x: raw(type, [1, 4], bits) })).y)).toEqual(values)
    const outputs = await load(engine, small.castTo(type), { rejectNonFinite: 'outputs' })
    await expect(outputs.infer({ x: floats([1, NaN, 1, 1]) })).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
      argument: 'y',
    })
    expect(bitsOf((await outputs.infer({ x: floats(values) })).y).bits).toEqual(bits)
  })

  it('a bfloat16 input is padded like other floats', async () => {
    const config = {
      maxBatchSize: 4,
      dynamicBatching: { holdUntilQueued: 2 },
      padding: { input: 'x', dim: 1, value: 1.5, outputs: [{ name: 'y', dim: 1 }] },
    }
    const model: Model = await load(engine, small.castFrom('bfloat16', ['N', 'L']), config)
    const answers = await Promise.all([
      model.infer({ x: raw('bfloat16', [1, 3], [0x3f80, 0x4000, 0x4040]) }),
      model.infer({ x: raw('bfloat16', [1, 1], [0xc0e0]) }),
    ])
    expect(answers.map(({ y }) => numbers(y))).toEqual([[1, 2, 3], [-7]])
    expect(model.stats().padding).toMatchObject({ paddedElements: 6 })
    const refused = load(engine, small.castFrom('int4', ['N', 'L']), {
      maxBatchSize: 4,
      padding: { input: 'x', dim: 1 },
    })
    await expect(refused).rejects.toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      message: expect.stringContaining('whole bytes'),
    })
  })
})

it('the binding names what the native executor carries', async () => {
  const engine = sharedEngine({ executor: 'binding' })
  await expect(engine.load('m', { path: small.castFrom('int4') })).rejects.toMatchObject({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringContaining("Use executor: 'native'"),
  })
})

describe('structured values', () => {
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
        expect(((await model.infer({ x: floats([], [0, 3]) })) as Record<string, OutputValue>)['m']).toEqual(
          [],
        )
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
        expect(
          await run(small.joinedSequence(), { s: [integers(1n, 2n), integers(), integers(3n)] }),
        ).toEqual({
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
})
