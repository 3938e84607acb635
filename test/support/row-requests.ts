import type { TensorData, TensorType } from '../../src/index.ts'
import { toSmallFloat } from '../../src/tensor/small-floats.ts'
import { storageOf } from '../../src/tensor/tensor.ts'
import type { RowGraph } from '../models/dependent-rows.ts'
import { mulberry32 } from '../models/random.ts'
import type { Sample, Samples } from './plain.ts'

/** Requests of so many rows each, with other values than a check makes up. */
export function requestsOf(
  { inputs }: Pick<RowGraph, 'inputs'>,
  rows: readonly number[],
  seed = 99,
): Samples[] {
  const random = mulberry32(seed)
  return rows.map((count) =>
    Object.fromEntries(
      Object.entries(inputs).map(([name, { type, row, values }]): [string, Sample] => {
        const dims = [count, ...row]
        const elements = Array.from({ length: dims.reduce((product, dim) => product * dim, 1) }, () =>
          draw(type, values, random),
        )
        return [name, { type, dims, data: type === 'string' ? elements.map(String) : stored(type, elements) }]
      }),
    ),
  )
}

function draw(type: TensorType, values: 'ids' | 'mask' | undefined, random: () => number): number | bigint {
  const whole =
    values === 'mask' || type === 'bool' ? Math.floor(2 * random()) : 1 + Math.floor(random() * 15)
  if (type === 'float16') return toSmallFloat(type, 4 * random() - 2)
  if (type.startsWith('float')) return 4 * random() - 2
  return type === 'int64' || type === 'uint64' ? BigInt(whole) : whole
}

function stored(type: TensorType, elements: readonly (number | bigint)[]): TensorData {
  const data = new (storageOf(type))(elements.length) as Float32Array
  data.set(elements as number[])
  return data
}
