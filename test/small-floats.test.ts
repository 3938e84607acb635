import { describe, expect, it } from 'vitest'
import { fromSmallFloat, isNonFinite, toSmallFloat, type SmallFloat } from '../src/tensor/small-floats.ts'

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
    for (let own = 0; own < (type === 'bfloat16' ? 2 ** 16 : 2 ** 8); own++) {
      const number = fromSmallFloat(type, own)
      expect(isNonFinite(type, own)).toBe(!Number.isFinite(number))
      if (!Number.isNaN(number)) expect(toSmallFloat(type, number)).toBe(own)
    }
  })
})
