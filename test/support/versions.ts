import type { Outputs } from '../../src/index.ts'
import { graph } from '../models/builder.ts'

/** sum = x + mark and product = x * mark, all float32 ['N', 4]: whose answer it is shows in both. */
export function markedModel(mark: number): Uint8Array {
  return graph('marked')
    .input('x', 'float32', ['N', 4])
    .output('sum', 'float32', ['N', 4])
    .output('product', 'float32', ['N', 4])
    .initializer('mark', 'float32', [1], [mark])
    .node('Add', ['x', 'mark'], ['sum'])
    .node('Mul', ['x', 'mark'], ['product'])
    .build()
}

/** The mark of the model that gave the answer to rows that are full of `value`; throws where it is not one model's answer. */
export function markOf({ sum, product }: Outputs, value: number): number {
  const mark = (sum!.data as Float32Array)[0]! - value
  const isWhole = (sum!.data as Float32Array).every((element) => element === value + mark)
  if (isWhole && (product!.data as Float32Array).every((element) => element === value * mark)) return mark
  throw new Error(
    `not the answer of one model to ${value}: ${String(sum!.data)} and ${String(product!.data)}`,
  )
}
