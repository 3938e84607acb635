import { describe, expect, it } from 'vitest'
import { doAll, type Pieces, Slices } from '../src/base/slices.ts'
import { checkRowBytes } from '../src/engine/load-failure.ts'
import { cutElements, joinElements, packed, unpacked } from '../src/tensor/elements.ts'
import type { ValueMetadata } from '../src/tensor/metadata.ts'
import { fromSmallFloat, isNonFinite, type SmallFloat, toSmallFloat } from '../src/tensor/small-floats.ts'
import type { ElementType } from '../src/tensor/tensor.ts'
import * as small from './models/small.ts'
import { ownEngine } from './support/open.ts'

/** Values of each type whose elements share bytes. */
const ranges = [
  ['int4', -8, 7],
  ['uint4', 0, 15],
] as const
const some = (from: number, to: number, count: number) =>
  Array.from({ length: count }, (_, at) => from + ((at * 5) % (to - from + 1)))

describe('packed elements', () => {
  it('lie in a byte with the first in the low half', () => {
    expect(packed([1, -1, 7])).toEqual(Uint8Array.of(0xf1, 0x07))
    expect(packed([15, 2])).toEqual(Uint8Array.of(0x2f))
  })

  it.each(ranges)('of %s are the same when unpacked', (type, from, to) => {
    const values = some(from, to, 19)
    expect([...unpacked(type, packed(values), 19)]).toEqual(values)
  })

  it.each(ranges)('of %s are cut wherever a row begins, with nothing of the next', (type, from, to) => {
    const values = some(from, to, 23)
    const data = packed(values)
    for (let start = 0; start <= 23; start++) {
      for (let end = start; end <= 23; end++)
        expect(cutElements(type, data, start, end)).toEqual(packed(values.slice(start, end)))
    }
  })

  it.each(ranges)('of %s are joined whatever their numbers', (type, from, to) => {
    const parts = [3, 1, 0, 4, 5, 8, 2].map((count) => some(from, to, count))
    expect(
      joinElements(
        type,
        parts.map((part) => ({ data: packed(part), count: part.length })),
      ),
    ).toEqual(packed(parts.flat()))
  })
})

it.each<[ElementType, ArrayLike<unknown>]>([
  ['float32', Float32Array.of(1, 2, 3)],
  ['int64', BigInt64Array.of(1n, 2n, 3n)],
  ['string', ['a', 'b', 'c']],
])('elements of %s are cut and joined', (type, data) => {
  const elements = data as Float32Array
  const parts = [cutElements(type, elements, 1, 3), cutElements(type, elements, 0, 1)]
  expect(parts).toEqual([elements.slice(1, 3), elements.slice(0, 1)])
  expect(
    joinElements(
      type,
      parts.map((part) => ({ data: part, count: part.length })),
    ),
  ).toEqual(
    joinElements(type, [
      { data: elements.slice(1), count: 2 },
      { data: elements.slice(0, 1), count: 1 },
    ]),
  )
  expect(parts[0]).not.toBe(elements)
})

const values = [0, -0, 1, -1.5, 0.3, 3.49, 1e-3, -7, 100, 240, 448, 57344, 1e6, Infinity, -Infinity, NaN]

// Python's ml_dtypes 0.5: np.array(values, np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), and back to float32.
const known: Partial<Record<SmallFloat, { bits: number[]; numbers: number[] }>> = {
  bfloat16: {
    bits: [
      0, 32768, 16256, 49088, 16026, 16479, 14979, 49376, 17096, 17264, 17376, 18272, 18804, 32640, 65408,
    ],
    numbers: [
      0,
      -0,
      1,
      -1.5,
      0.30078125,
      3.484375,
      0.00099945068359375,
      -7,
      100,
      240,
      448,
      57344,
      999424,
      Infinity,
      -Infinity,
    ],
  },
  float8e4m3fn: {
    bits: [0, 128, 56, 188, 42, 70, 1, 206, 108, 119, 126, 127, 127, 127, 255],
    numbers: [0, -0, 1, -1.5, 0.3125, 3.5, 0.001953125, -7, 96, 240, 448, NaN, NaN, NaN, NaN],
  },
  float8e4m3fnuz: {
    bits: [0, 0, 64, 196, 50, 78, 1, 214, 116, 127, 128, 128, 128, 128, 128],
    numbers: [0, 0, 1, -1.5, 0.3125, 3.5, 0.0009765625, -7, 96, 240, NaN, NaN, NaN, NaN, NaN],
  },
  float8e5m2: {
    bits: [0, 128, 60, 190, 53, 67, 20, 199, 86, 92, 95, 123, 124, 124, 252],
    numbers: [
      0,
      -0,
      1,
      -1.5,
      0.3125,
      3.5,
      0.0009765625,
      -7,
      96,
      256,
      448,
      57344,
      Infinity,
      Infinity,
      -Infinity,
    ],
  },
  float8e5m2fnuz: {
    bits: [0, 0, 64, 194, 57, 71, 24, 203, 90, 96, 99, 127, 128, 128, 128],
    numbers: [0, 0, 1, -1.5, 0.3125, 3.5, 0.0009765625, -7, 96, 256, 448, 57344, NaN, NaN, NaN],
  },
}

describe.each(Object.entries(known))('%s', (name, { bits, numbers }) => {
  const type = name as SmallFloat
  it('rounds to the nearest number, ties to even', () => {
    expect(values.slice(0, -1).map((value) => toSmallFloat(type, value))).toEqual(bits)
    expect(fromSmallFloat(type, toSmallFloat(type, NaN))).toBeNaN()
  })

  it('stands for these numbers', () => {
    expect(bits.map((own) => fromSmallFloat(type, own))).toEqual(numbers)
  })

  it('is read back as what it was written from, whatever the bits', () => {
    const all = Array.from({ length: type === 'bfloat16' ? 2 ** 16 : 2 ** 8 }, (_, own) => own)
    const wrong = all.filter((own) => {
      const number = fromSmallFloat(type, own)
      const isBack = Number.isNaN(number) || toSmallFloat(type, number) === own
      return !isBack || isNonFinite(type, own) === Number.isFinite(number)
    })
    expect(wrong).toEqual([])
  })
})

/** Slices with a clock that only work moves, and turns that are taken by hand. */
function manual() {
  let nowMs = 0
  const turns: (() => void)[] = []
  const done: string[] = []
  const slices = new Slices(
    () => nowMs,
    (turn) => turns.push(turn),
  )
  function* work(name: string, pieces: number): Pieces<string> {
    for (let piece = 1; piece < pieces; piece++) {
      nowMs += 0.125
      done.push(name)
      yield
    }
    nowMs += 0.125
    done.push(name)
    return name
  }
  const turn = () => turns.shift()?.()
  return { slices, work, turn, done: () => done.splice(0).join(''), left: () => turns.length }
}

describe('work in slices', () => {
  it('that is short is done at once', async () => {
    const { slices, work, done } = manual()
    const result = slices.run(work('a', 3), 10)
    expect(done()).toBe('aaa')
    expect(await result).toBe('a')
  })

  it('keeps its result where its signal fires after its end, and not where it fires it itself', async () => {
    const { slices, work, turn } = manual()
    const [stop, own] = [new AbortController(), new AbortController()]
    function* aborts(which: AbortController): Pieces<string> {
      which.abort(new Error('it was stopped'))
      yield* work('b', 1)
      return 'b'
    }
    void slices.run(work('x', 10), 1)
    const done = slices.run(work('a', 1), 10, stop.signal)
    const after = slices.run(aborts(stop), 20)
    const itself = slices.run(aborts(own), 30, own.signal)
    for (let at = 0; at < 20; at++) turn()
    expect(await done).toBe('a')
    expect(await after).toBe('b')
    await expect(itself).rejects.toThrow('it was stopped')
  })

  it('goes on for half a millisecond in each turn of the event loop, whoever asks', async () => {
    const { slices, work, turn, done, left } = manual()
    const results = [slices.run(work('a', 10), 10), slices.run(work('b', 3), 20)]
    expect(done()).toBe('aaaa')
    turn()
    expect(done()).toBe('aaaa')
    turn()
    expect(done()).toBe('aabb')
    turn()
    expect(done()).toBe('b')
    expect(await Promise.all(results)).toEqual(['a', 'b'])
    turn()
    expect(left()).toBe(0)
  })

  it('that is small goes before what is large and was there first', () => {
    const { slices, work, turn, done } = manual()
    for (const name of ['A', 'B', 'C']) void slices.run(work(name, 6), 10_000_000)
    expect(done()).toBe('AAAA')
    void slices.run(work('s', 2), 100)
    turn()
    expect(done()).toBe('ssAA')
  })

  it('that is small is done before what is large, also if that is older', () => {
    const { slices, work, turn, done } = manual()
    for (const name of ['A', 'B']) void slices.run(work(name, 40), 10_000_000)
    turn()
    void slices.run(work('s', 8), 100)
    for (let turns = 0; turns < 4; turns++) turn()
    expect(done()).toBe('AAAA' + 'AAAA' + 'AAAA' + 'ssss' + 'AAAA' + 'ssss')
  })

  it.each([
    ['small', 100],
    ['large', 1e6],
  ])('ends in twice the turns that it and older work need, whatever comes that is %s', (_, size) => {
    const { slices, work, turn, done } = manual()
    const later = () => {
      for (const name of ['x', 'y']) void slices.run(work(name, 4), size)
    }
    later()
    void slices.run(work('A', 40), 10_000_000)
    void slices.run(work('B', 40), 9_000_000)
    done()
    for (let turns = 0; turns < 2 * (1 + 10 + 10); turns++) {
      later()
      turn()
    }
    const order = done()
    expect(order.match(/A/g)).toHaveLength(40)
    expect(order.match(/B/g)).toHaveLength(40)
  })

  it('that is large is not begun while as much as may be is under way, what is small always is', () => {
    const { slices, work, turn, done } = manual()
    for (const [name, size] of [
      ['A', 9e6],
      ['B', 8e6],
      ['C', 7e6],
    ] as const)
      void slices.run(work(name, 8), size)
    turn()
    expect(done()).toBe('AAAACCCC') // C is the second that is begun
    void slices.run(work('D', 8), 1e6)
    void slices.run(work('s', 2), 100)
    for (let turns = 0; turns < 6; turns++) turn()
    expect(done()).toBe('AAAA' + 'ssCC' + 'BBBB' + 'CCDD' + 'BBBB' + 'DDDD')
  })

  it('ends with its signal, before it is begun and within, and others go on', async () => {
    const { slices, work, turn, done } = manual()
    const [first, second] = [new AbortController(), new AbortController()]
    const results = [
      slices.run(work('a', 8), 10, first.signal),
      slices.run(work('b', 8), 20, second.signal),
      slices.run(work('c', 1), 30),
    ]
    first.abort(new Error('the first'))
    second.abort(new Error('the second'))
    await expect(results[0]).rejects.toThrow('the first')
    await expect(results[1]).rejects.toThrow('the second')
    await expect(slices.run(work('d', 1), 1, first.signal)).rejects.toThrow('the first')
    turn()
    expect(done()).toBe('aaaac')
    expect(await results[2]).toBe('c')
  })

  it('rejects with what it throws', async () => {
    const { slices } = manual()
    const throwing = function* (): Pieces<void> {
      yield
      throw new Error('thrown')
    }
    await expect(slices.run(throwing(), 1)).rejects.toThrow('thrown')
    expect(() => doAll(throwing())).toThrow('thrown')
  })
})

const value = (name: string, shape: (number | string)[], type = 'float32') =>
  ({ name, type, shape }) as unknown as ValueMetadata
const gibibyte = 2 ** 30

describe('a row', () => {
  it.each<[string, ValueMetadata[], ValueMetadata[], string, RegExp]>([
    [
      'an input of terabytes',
      [value('x', ['N', 2 ** 40])],
      [value('y', ['N', 4])],
      "input 'x'",
      /at most 2147483648 bytes in one row, received '4398046511104 bytes in \[N, 1099511627776\] of float32'/,
    ],
    [
      'an output of gigabytes',
      [value('x', ['N', 4])],
      [value('y', [3, 2 ** 31], 'int64')],
      "output 'y'",
      /51539607552 bytes/,
    ],
    [
      'dimensions whose product is beyond any',
      [value('x', [2 ** 62, 2 ** 62, 2 ** 62])],
      [],
      "input 'x'",
      /bytes/,
    ],
    [
      'many that are too much together',
      [value('a', [gibibyte / 2]), value('b', [gibibyte / 2])],
      [value('c', [gibibyte / 2])],
      'inputs and outputs',
      /6442450944 bytes in all/,
    ],
  ])('of %s is refused by its size', (_, inputs, outputs, name, told) => {
    expect(() => checkRowBytes('m', { inputs, outputs }, 5 * gibibyte)).toThrow(
      expect.objectContaining({
        code: 'ERR_MODEL_LOAD',
        argument: name,
        model: 'm',
        message: expect.stringMatching(told) as string,
      }),
    )
  })

  it('that the memory of the machine cannot hold is refused', () => {
    expect(() =>
      checkRowBytes('m', { inputs: [value('x', [gibibyte / 4])], outputs: [] }, gibibyte - 1),
    ).toThrow(/at most 1073741823 bytes/)
  })

  it('of hundreds of megabytes, of text or of open dimensions is not', () => {
    expect(() =>
      checkRowBytes(
        'm',
        {
          inputs: [value('x', ['N', 50_000_000]), value('w', ['a', 'b', 'c'])],
          outputs: [value('y', ['N', 0, 2 ** 50])],
        },
        4 * gibibyte,
      ),
    ).not.toThrow()
  })
})

it('a model that declares rows of gigabytes is refused at once, in a sentence that names the size', async () => {
  await expect(ownEngine().load('m', { path: small.bigRow(2 ** 31) })).rejects.toMatchObject({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringContaining("input 'x' of model 'm': expected at most") as string,
  })
})
