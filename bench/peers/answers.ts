import type { Workload } from './workload.ts'

export interface Sample {
  /** Of the request's body among the workload's. */
  readonly index: number
  readonly values: Float32Array
}

/** Largest difference of samples from plain ONNX Runtime's answers, as a part of the largest number. @throws when it is too large. */
export function checked(
  { references, tolerance, lowPrecisionTolerance }: Workload,
  samples: readonly Sample[],
  lowPrecision = false,
): { checked: number; difference: number } {
  let difference = 0
  for (const { index, values } of samples) {
    const expected = references[index]!
    if (values.length !== expected.length)
      throw new Error(`an answer of ${values.length} numbers came, ${expected.length} are expected`)
    const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const most =
      values.reduce((most, value, at) => Math.max(most, Math.abs(value - expected[at]!)), 0) / largest
    difference = Number.isNaN(most) ? NaN : Math.max(difference, most)
  }
  const limit = lowPrecision ? lowPrecisionTolerance : tolerance
  if (!(difference <= limit))
    throw new Error(
      `an answer differs from plain ONNX Runtime's by ${difference} of the largest number, ${limit} is allowed`,
    )
  return { checked: samples.length, difference }
}

export function floatsOf(body: Buffer): Float32Array {
  return new Float32Array(Uint8Array.from(body).buffer)
}
