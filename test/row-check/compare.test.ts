import { describe, expect, it } from 'vitest'
import type { TensorData, TensorMetadata } from '../../src/index.ts'
import { compareValue, toleranceWith, valuesTellApart } from '../../src/models/row-check/compare-rows.ts'
import { checkRequests, checkRows, type RunTrial } from '../../src/models/row-check/row-check.ts'
import { PluginProvider } from '../../src/options/engine-options.ts'
import type { TrialFeeds } from '../../src/models/row-check/trial-feeds.ts'
import { floatTolerance } from '../../src/schedule/joining.ts'
import { toSmallFloat } from '../../src/tensor/small-floats.ts'
import { type ElementType, type MailedTensor, storageOf } from '../../src/tensor/tensor.ts'
import type { MailedMaps, MailedValue } from '../../src/tensor/values.ts'
import type { RowGraph } from '../models/dependent-rows.ts'
import { meetingByScale, meetingByScaleOfAnyLength } from '../models/meeting-by-scale.ts'
import { full } from '../support/full.ts'
import { runPlain } from '../support/plain.ts'
import { noise } from '../support/samples.ts'

const tensor = (type: ElementType, dims: number[], values: readonly (number | bigint)[]): MailedTensor => {
  const data = new (storageOf(type))(values.length) as Float32Array
  data.set(values as number[])
  return { type, dims, data: data.buffer as ArrayBuffer }
}
const floats = (dims: number[], values: number[]) => tensor('float32', dims, values)
const compare = (alone: MailedTensor[], joined: MailedTensor) =>
  compareValue(
    'y',
    alone,
    alone.map(({ dims }) => dims[0]!),
    joined,
  )
const [big, small] = [floats([1, 2], [1000, 1]), floats([1, 2], [0.01, 0.02])]

describe('rows compared', () => {
  it('may differ by last places of their own largest value', () => {
    expect(compare([big, small], floats([2, 2], [1000.5, 1.4, 0.01, 0.020001]))).toMatchObject({
      reason: null,
      difference: expect.closeTo(5e-4, 5),
    })
  })

  it('may not differ by what is little to another row', () => {
    expect(compare([big, small], floats([2, 2], [1000, 1, 0.011, 0.02])).reason).toContain("output 'y'")
  })

  it('are measured by other rows where they are zero', () => {
    const zero = floats([1, 2], [0, 0])
    expect(compare([big, zero], floats([2, 2], [1000, 1, 1e-6, 0])).reason).toBeNull()
    expect(compare([big, zero], floats([2, 2], [1000, 1, 1, 0])).reason).not.toBeNull()
  })

  it('have NaN and infinity in the same places', () => {
    const odd = floats([1, 3], [NaN, Infinity, 1])
    expect(compare([odd], odd)).toEqual({ difference: 0, reason: null })
    expect(compare([odd], floats([1, 3], [1, Infinity, 1])).difference).toBe(Infinity)
    expect(compare([odd], floats([1, 3], [NaN, -Infinity, 1])).difference).toBe(Infinity)
  })

  it.each([
    ['bfloat16', 0x3f80, 0x3f84, 0x3f90], // 1, 1.03125 and 1.125: places of 2^-7
    ['float8e4m3fn', 56, 57, 60], // 1, 1.125 and 1.5: of 2^-3
    ['float8e5m2', 60, 61, 63], // 1, 1.25 and 1.75: of 2^-2
  ] as const)('of %s may differ by what its places are worth', (type, one, near, far) => {
    const row = (bits: number) => tensor(type, [1, 1], [bits])
    expect(compare([row(one)], row(near)).reason).toBeNull()
    expect(compare([row(one)], row(far)).reason).not.toBeNull()
    expect([
      valuesTellApart([row(one), row(near)]),
      valuesTellApart([row(one), row(one | (type === 'bfloat16' ? 0x8000 : 0x80))]),
    ]).toEqual([false, true])
  })

  it('of 4 bits are equal, element by element', () => {
    const row = (byte: number): MailedTensor => ({
      type: 'int4',
      dims: [1, 2],
      data: Uint8Array.of(byte).buffer,
    })
    expect(
      compare([row(0x1f), row(0xf1)], { type: 'int4', dims: [2, 2], data: Uint8Array.of(0x1f, 0xf1).buffer }),
    ).toEqual({ difference: 0, reason: null })
    expect(
      compare([row(0x1f), row(0xf1)], { type: 'int4', dims: [2, 2], data: Uint8Array.of(0x1f, 0xf2).buffer })
        .reason,
    ).not.toBeNull()
    const odd = (values: number[], rows: number): MailedTensor => ({
      type: 'uint4',
      dims: [rows, 3],
      data: Uint8Array.from(values).buffer,
    })
    expect(compare([odd([0x21, 0x03], 1), odd([0x54, 0x06], 1)], odd([0x21, 0x43, 0x65], 2))).toEqual({
      difference: 0,
      reason: null,
    })
  })

  it('of integers, bools and strings are equal', () => {
    expect(
      compare([tensor('int64', [1], [2n ** 60n])], tensor('int64', [1], [2n ** 60n + 1n])).reason,
    ).not.toBeNull()
    expect(compare([tensor('bool', [1], [1])], tensor('bool', [1], [0])).reason).not.toBeNull()
    expect(
      compare([{ type: 'string', dims: [1], data: ['a'] }], { type: 'string', dims: [1], data: ['b'] }),
    ).toMatchObject({ difference: Infinity })
    expect(compare([tensor('uint8', [1], [7])], tensor('uint8', [1], [7]))).toEqual({
      difference: 0,
      reason: null,
    })
  })

  it('of half precision may differ by more', () => {
    const half = (value: number) => tensor('float16', [1], [toSmallFloat('float16', value)])
    expect(compare([half(1)], half(1.005)).reason).toBeNull()
    expect(compare([half(1)], half(1.02)).reason).not.toBeNull()
  })

  it('have one shape, and as many are there as were sent', () => {
    expect(compare([big, small], floats([1, 2], [1, 2])).reason).toContain('shape [1, 2]')
    expect(compare([big], floats([1, 1], [1])).reason).toContain('rows of shape [1]')
    expect(compareValue('y', [floats([3], [1, 2, 3])], [1], floats([1], [1])).reason).toContain(
      'not divided by rows',
    )
    expect(compare([floats([], [1])], floats([], [1])).reason).toContain('not divided by rows')
  })
})

describe('rows tell something of each other', () => {
  it('when they differ by far more than what is allowed', () => {
    expect(valuesTellApart([big, small])).toBe(true)
    expect(valuesTellApart([big, big])).toBe(false)
    expect(valuesTellApart([big, floats([1, 2], [1001, 1])])).toBe(false)
    expect(valuesTellApart([tensor('int32', [1], [5]), tensor('int32', [1], [6])])).toBe(true)
  })

  it('when there is something to compare', () => {
    expect(valuesTellApart([floats([1], [NaN]), floats([1], [NaN])])).toBe(false)
    expect(valuesTellApart([floats([1, 0], []), floats([1, 0], [])])).toBe(false)
    expect(valuesTellApart([floats([1], [NaN]), floats([1], [1]), floats([1], [2])])).toBe(true)
  })
})

describe('the tolerance of a session', () => {
  const withPlugin = (precision: ConstructorParameters<typeof PluginProvider>[4]) =>
    toleranceWith({ executionProviders: [new PluginProvider('p', 0, {}, true, precision), 'cpu'] })

  it('follows the numbers that its plugins compute in', () => {
    expect(toleranceWith({})).toBe(1e-3)
    expect(toleranceWith({ executionProviders: ['cuda', 'cpu'] })).toBe(1e-3)
    expect(withPlugin('float32')).toBe(1e-3)
    expect(withPlugin('float16')).toBe(1e-2)
    expect(withPlugin('bfloat16')).toBe(4e-2)
    expect(withPlugin(null)).toBe(4e-2)
  })

  it('is what rows may differ by, and others differ by more before they tell anything', () => {
    const [alone, joined, far] = [floats([1, 2], [1, 100]), floats([1, 2], [1, 103]), floats([1, 2], [1, 60])]
    expect(compareValue('y', [alone], [1], joined).reason).not.toBeNull()
    expect(compareValue('y', [alone], [1], joined, 4e-2).reason).toBeNull()
    expect(valuesTellApart([alone, far])).toBe(true)
    expect(valuesTellApart([alone, far], 4e-2)).toBe(false)
  })
})

describe('compare values', () => {
  const floats = (values: number[], dims = [values.length]): MailedTensor => ({
    type: 'float32',
    dims,
    data: Float32Array.from(values).buffer,
  })
  const sequence = (...items: number[][]): MailedValue => ({ items: items.map((values) => floats(values)) })
  const maps = (...all: Record<string, number>[]): MailedMaps => {
    const keys = all.flatMap((map) => Object.keys(map))
    return {
      keys: { type: 'string', dims: [keys.length], data: keys },
      values: floats(all.flatMap((map) => Object.values(map))),
      entries: all.map((map) => Object.keys(map).length),
    }
  }
  const compare = (alone: MailedValue[], joined: MailedValue) =>
    compareValue(
      'y',
      alone,
      alone.map(() => 1),
      joined,
    )

  describe('sequences compared', () => {
    it('are equal entry by entry, whatever the shapes of these', () => {
      expect(compare([sequence([1, 2]), sequence([3])], sequence([1, 2], [3]))).toEqual({
        difference: 0,
        reason: null,
      })
      expect(compare([sequence([1, 2]), sequence([3])], sequence([3], [1, 2])).reason).toContain(
        "output 'y' has rows of shape [1] in one run and [2] in another",
      )
    })

    it('of maps have equal keys, and values within the tolerance of floats', () => {
      const alone = [maps({ a: 1, b: 0.5 }), maps({ a: 2 })]
      expect(compare(alone, maps({ a: 1.0001, b: 0.5 }, { a: 2 }))).toMatchObject({
        difference: expect.closeTo(1e-4, 6),
        reason: null,
      })
      expect(compare(alone, maps({ a: 1.1, b: 0.5 }, { a: 2 })).reason).not.toBeNull()
      expect(compare(alone, maps({ a: 1, c: 0.5 }, { a: 2 }))).toMatchObject({
        difference: Infinity,
        reason: expect.stringContaining("output 'y'"),
      })
      expect(compare(alone, maps({ a: 1 }, { b: 0.5, a: 2 })).reason).not.toBeNull()
    })

    it('need an entry for each row, alone and joined', () => {
      expect(compare([sequence([1], [2])], sequence([1], [2])).reason).toBe(
        "output 'y' of 2 entries is not divided by rows (1)",
      )
      expect(compare([sequence([1]), sequence([2])], sequence([1])).reason).toBe(
        "output 'y' of 1 entries is not divided by rows (2)",
      )
      expect(compare([{ absent: true }], { absent: true }).reason).toBe("output 'y' is not divided by rows")
    })
  })

  describe('values that ran alone', () => {
    it.each([
      ['other values', [maps({ a: 1 }), maps({ a: 3 })], true],
      ['other keys', [maps({ a: 1 }), maps({ b: 1 })], true],
      ['the same', [maps({ a: 1 }), maps({ a: 1 })], false],
      ['nearly the same', [sequence([1]), sequence([1.001])], false],
      ['other entries', [sequence([1]), sequence([1], [1])], true],
      ['nothing', [sequence(), sequence()], false],
    ])('tell each other apart by %s: %j', (_, alone, telling) => {
      expect(valuesTellApart(alone)).toBe(telling)
    })
  })
})

const setup = {
  maxBatchSize: 32,
  samples: [],
  padding: null,
  optionalInputs: [],
  tolerance: floatTolerance,
}

/** A graph of floats, run by ONNX Runtime itself. */
function plain(
  { path, inputs }: RowGraph,
  length: (name: string) => readonly (number | string)[],
): { metadata: { inputs: TensorMetadata[]; outputs: TensorMetadata[] }; run: RunTrial } {
  const names = Object.keys(inputs)
  const tensor = (name: string, row: readonly (number | string)[]): TensorMetadata => ({
    name,
    type: 'float32',
    shape: ['N', ...row],
  })
  const run = async (feeds: TrialFeeds) => {
    const samples = Object.fromEntries(
      names.map((name, at) => [
        name,
        {
          type: 'float32' as const,
          dims: feeds[at]!.dims,
          data: new Float32Array(feeds[at]!.data as ArrayBuffer),
        },
      ]),
    )
    const { y } = await runPlain(path, samples)
    return {
      error: null,
      runMs: 0,
      outputs: [
        {
          type: 'float32' as const,
          dims: y!.dims,
          data: (y!.data as TensorData).slice().buffer as ArrayBuffer,
        },
      ],
    }
  }
  return {
    metadata: { inputs: names.map((name) => tensor(name, length(name))), outputs: [tensor('y', [])] },
    run,
  }
}

describe('rows that meet only where their scales are far apart', () => {
  // Those behind 80 products have the most runs: here one of them, all in `npm run test:full`.
  const graphs = meetingByScale().filter(
    ({ name }) => full || !name.endsWith('80 products') || name.startsWith('softmax'),
  )
  it.each(graphs.map((graph) => [graph.name, graph] as const))(
    'are found among made-up rows: %s',
    async (_, graph) => {
      const { metadata, run } = plain(graph, (name) => graph.inputs[name]!.row)
      expect(await checkRows(metadata, setup, run)).toMatchObject({
        rows: 'dependent',
        reason: expect.stringContaining("output 'y'"),
      })
    },
  )

  it.each(meetingByScaleOfAnyLength().map((graph) => [graph.name, graph] as const))(
    'are found with requests of like scales: %s',
    async (_, graph) => {
      const { metadata, run } = plain(graph, () => ['T'])
      for (const scale of [1000, 0.3]) {
        const requests = [1, 0.9, 1.1].map((each): TrialFeeds => {
          const { data } = noise([1, 50])
          return [
            {
              type: 'float32',
              dims: [1, 50],
              data: (data as Float32Array).map((value) => value * each * scale).buffer as ArrayBuffer,
            },
          ]
        })
        expect(await checkRequests(metadata, requests, 32, floatTolerance, run)).toMatchObject({
          rows: 'dependent',
        })
      }
    },
  )

  it('are none where an answer moves with the size of the batch alone, as where sums lose digits', async () => {
    const metadata = {
      inputs: [{ name: 'x', type: 'float32', shape: ['N', 4] }],
      outputs: [{ name: 'y', type: 'float32', shape: ['N', 4] }],
    } as const
    const chaotic =
      (reach: number): RunTrial =>
      async (feeds) => {
        const { dims, data, type } = feeds[0]!
        const values = new Float32Array(data as ArrayBuffer).slice()
        const isLarge = (row: number) =>
          values
            .subarray(4 * row, 4 * row + 4)
            .some((value) => Math.abs(value) > 10_000 && Math.abs(value) < 100_000)
        for (let row = 0; row < dims[0]!; row++)
          if (isLarge(row))
            values[4 * row]! *=
              1 +
              0.01 * dims[0]! +
              reach * new Float32Array(data as ArrayBuffer)[(4 * row + 4) % values.length]!
        return { error: null, runMs: 0, outputs: [{ type, dims, data: values.buffer }] }
      }
    expect(await checkRows(metadata, setup, chaotic(0))).toMatchObject({ rows: 'independent' })
    expect(await checkRows(metadata, setup, chaotic(1e-6))).toMatchObject({ rows: 'dependent' })
  })
})
