import { graph } from './builder.ts'
import type { Dims, ElementType } from './builder.ts'
import { modelPath } from './cache.ts'

/** y = x for rows of the given dims, batched: x and y are ['N', ...rowDims]. */
export function identity(type: ElementType, rowDims: Dims = [4]): string {
  return write(`identity-${type}-${rowDims.join('x')}`, type, ['N', ...rowDims])
}

/** y = x for a single value of rank 0, not batched. */
export const identityScalar = (type: ElementType): string => write(`identity-scalar-${type}`, type, [])

/** y = x with a variable inner dimension: x and y are ['N', 'L']. */
export const identityVariable = (type: ElementType): string =>
  write(`identity-variable-${type}`, type, ['N', 'L'])

/** y = x for any rank: nothing is declared about the shapes of x and y. */
export const unknownRank = (type: ElementType): string => write(`unknown-rank-${type}`, type)

/** y = x with every dimension fixed, the first one included, so that nothing can be batched. */
export function identityUnbatched(type: ElementType, dims: readonly number[]): string {
  return write(`identity-unbatched-${type}-${dims.join('x')}`, type, dims)
}

/** y = x with x and y of ['N', 'L'], where rows of no element ([N, 0]) are legal. */
export const zeroSize = (): string => identityVariable('float32')

/** y = x for float32 rows of many elements: x and y are ['N', elements]. */
export const bigRow = (elements: number): string => write(`big-row-${elements}`, 'float32', ['N', elements])

/** y = x where the first dimension is variable but has no name: x and y are [?, 4]. */
export const unnamedBatch = (): string => write('unnamed-batch', 'float32', [null, 4])

function write(name: string, type: ElementType, dims?: Dims): string {
  const fourBit = type === 'int4' || type === 'uint4'
  return modelPath(name, () =>
    graph(name)
      .input('x', type, dims)
      .output('y', type, dims)
      .node('Identity', ['x'], ['y'])
      .build(fourBit ? { opset: 21, irVersion: 10 } : {}),
  )
}
