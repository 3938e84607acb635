import type { TensorData, TensorType } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import type { Sample } from './plain.ts'

/** Every element type that a request may carry, with values at the ends of its range. */
const edges = {
  float32: Float32Array.of(0, -0, 1.5, -3.4028234663852886e38, 1e-45, Infinity, -Infinity, NaN),
  float64: Float64Array.of(0, -0, 1.5, -Number.MAX_VALUE, Number.MIN_VALUE, Infinity, -Infinity, NaN),
  float16: Uint16Array.of(0, 0x8000, 0x3e00, 0xfbff, 1, 0x7c00, 0xfc00, 0x7e00),
  int8: Int8Array.of(0, 1, -1, 127, -128),
  uint8: Uint8Array.of(0, 1, 127, 128, 255),
  int16: Int16Array.of(0, 1, -1, 32767, -32768),
  uint16: Uint16Array.of(0, 1, 32767, 32768, 65535),
  int32: Int32Array.of(0, 1, -1, 2 ** 31 - 1, -(2 ** 31)),
  uint32: Uint32Array.of(0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1),
  int64: BigInt64Array.of(0n, 1n, -1n, 2n ** 63n - 1n, -(2n ** 63n)),
  uint64: BigUint64Array.of(0n, 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n),
  bool: Uint8Array.of(0, 1),
  string: ['', 'a', 'ü', '😀', 'a longer string with spaces', '\n', '\u200b'],
} satisfies Record<TensorType, TensorData | string[]>

export const tensorTypes = Object.keys(edges) as TensorType[]

let random = mulberry32(2026)

/** What follows is drawn as in a new process: files that share one draw the same, whichever ran before. */
export function drawAnew(): void {
  random = mulberry32(2026)
}

/** A tensor of `dims` whose elements are drawn from the interesting values of its type. */
export function sample(type: TensorType, dims: readonly number[]): Sample {
  const values: readonly unknown[] = Array.from(edges[type] as ArrayLike<unknown>)
  const elements = Array.from({ length: size(dims) }, () => values[Math.floor(random() * values.length)])
  if (type === 'string') return { type, dims, data: elements as string[] }
  const Storage = edges[type].constructor as unknown as { from(values: readonly unknown[]): TensorData }
  return { type, dims, data: Storage.from(elements) }
}

/** A tensor of the given numbers. */
export function floats(dims: readonly number[], values: readonly number[]): Sample {
  return { type: 'float32', dims, data: Float32Array.from(values) }
}

/** A float32 tensor of numbers evenly spread in [-1, 1), for models that compute. */
export function noise(dims: readonly number[]): Sample {
  return floats(
    dims,
    Array.from({ length: size(dims) }, () => random() * 2 - 1),
  )
}

function size(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1)
}
