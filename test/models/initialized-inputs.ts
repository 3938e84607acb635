import { graph } from './builder.ts'
import { modelPath } from './cache.ts'

/** y = x + w for x float32 ['N', 4] (or [4]), where w is an input and an initializer of 1, 2, 3 and 4. */
export function initializedInput({ batched = true, irVersion = 8 } = {}): string {
  return modelPath(`initialized-input-${batched}-${irVersion}`, () => {
    const dims = batched ? ['N', 4] : [4]
    return graph('initialized')
      .input('x', 'float32', dims)
      .input('w', 'float32', [4])
      .initializer('w', 'float32', [4], [1, 2, 3, 4])
      .node('Add', ['x', 'w'], ['y'])
      .output('y', 'float32', dims)
      .build({ irVersion })
  })
}
