import type { Tensor } from 'onnxruntime-common'
import { expect } from 'vitest'

type Outputs = Readonly<Record<string, Tensor>>

/** Asserts that two sets of outputs have the same names, types, dims and bits. */
export function expectSame(received: Outputs, expected: Outputs): void {
  expect(Object.keys(received).sort()).toEqual(Object.keys(expected).sort())
  for (const [name, tensor] of Object.entries(expected)) {
    expect(described(received[name]!), `output '${name}'`).toEqual(described(tensor))
  }
}

/** As {@link expectSame}, with float32 values within `tolerance` of the largest: a batched product sums in another order. */
export function expectClose(received: Outputs, expected: Outputs, tolerance = 1e-5): void {
  expect(Object.keys(received).sort()).toEqual(Object.keys(expected).sort())
  for (const [name, { type, dims, data }] of Object.entries(expected)) {
    const own = received[name]!
    expect([own.type, [...own.dims]]).toEqual([type, [...dims]])
    const values = data as Float32Array
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1)
    expect(largestDifference(own.data as Float32Array, values) / largest, `output '${name}'`).toBeLessThan(
      tolerance,
    )
  }
}

/** The largest absolute difference of two arrays of one length; NaN as soon as one value is. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return NaN
  let most = 0
  for (let index = 0; index < a.length; index++) most = Math.max(most, Math.abs(a[index]! - b[index]!))
  return most
}

function described({ type, dims, data }: Tensor) {
  return { type, dims: [...dims], data: Array.isArray(data) ? data : bits(data as Float32Array) }
}

// Float16Array on one side and Uint16Array on the other hold the same words; NaN and -0 are compared by their bits.
function bits({ buffer, byteOffset, byteLength }: Float32Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex')
}
