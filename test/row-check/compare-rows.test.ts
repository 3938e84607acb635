import { describe, expect, it } from 'vitest'
import { PluginProvider } from '../../src/options/engine-options.ts'
import { compareOutput, tellsApart, toleranceWith } from '../../src/models/row-check/compare-rows.ts'
import { toFloat16Bits } from '../../src/tensor/small-floats.ts'
import { storageOf, type MailedTensor, type ElementType } from '../../src/tensor/tensor.ts'

const tensor = (type: ElementType, dims: number[], values: readonly (number | bigint)[]): MailedTensor => {
  const data = new (storageOf(type))(values.length) as Float32Array
  data.set(values as number[])
  return { type, dims, data: data.buffer as ArrayBuffer }
}
const floats = (dims: number[], values: number[]) => tensor('float32', dims, values)
const compare = (alone: MailedTensor[], joined: MailedTensor) =>
  compareOutput(
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
      tellsApart([row(one), row(near)]),
      tellsApart([row(one), row(one | (type === 'bfloat16' ? 0x8000 : 0x80))]),
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
    const half = (value: number) => tensor('float16', [1], [toFloat16Bits(value)])
    expect(compare([half(1)], half(1.005)).reason).toBeNull()
    expect(compare([half(1)], half(1.02)).reason).not.toBeNull()
  })

  it('have one shape, and as many are there as were sent', () => {
    expect(compare([big, small], floats([1, 2], [1, 2])).reason).toContain('shape [1, 2]')
    expect(compare([big], floats([1, 1], [1])).reason).toContain('rows of shape [1]')
    expect(compareOutput('y', [floats([3], [1, 2, 3])], [1], floats([1], [1])).reason).toContain(
      'not divided by rows',
    )
    expect(compare([floats([], [1])], floats([], [1])).reason).toContain('not divided by rows')
  })
})

describe('rows tell something of each other', () => {
  it('when they differ by far more than what is allowed', () => {
    expect(tellsApart([big, small])).toBe(true)
    expect(tellsApart([big, big])).toBe(false)
    expect(tellsApart([big, floats([1, 2], [1001, 1])])).toBe(false)
    expect(tellsApart([tensor('int32', [1], [5]), tensor('int32', [1], [6])])).toBe(true)
  })

  it('when there is something to compare', () => {
    expect(tellsApart([floats([1], [NaN]), floats([1], [NaN])])).toBe(false)
    expect(tellsApart([floats([1, 0], []), floats([1, 0], [])])).toBe(false)
    expect(tellsApart([floats([1], [NaN]), floats([1], [1]), floats([1], [2])])).toBe(true)
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
    expect(compareOutput('y', [alone], [1], joined).reason).not.toBeNull()
    expect(compareOutput('y', [alone], [1], joined, 4e-2).reason).toBeNull()
    expect(tellsApart([alone, far])).toBe(true)
    expect(tellsApart([alone, far], 4e-2)).toBe(false)
  })
})
