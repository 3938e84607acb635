import { graph } from './builder.ts'
import { modelPath } from './cache.ts'
import { mulberry32, uniform } from './random.ts'

/** x (float32 ['N', 'L', 64]) times `count` matrices, position by position: how long a run takes is the caller's choice of L. */
export function perPosition(count: number): string {
  return modelPath(`per-position-${count}`, () => {
    const random = mulberry32(11)
    const network = graph('per-position')
      .input('x', 'float32', ['N', 'L', 64])
      .output('y', 'float32', ['N', 'L', 64])
    for (let layer = 0; layer < count; layer++) {
      network
        .initializer(`w${layer}`, 'float32', [64, 64], uniform(random, 64 * 64, 0.2))
        .node(
          'MatMul',
          [layer === 0 ? 'x' : `h${layer - 1}`, `w${layer}`],
          [layer === count - 1 ? 'y' : `h${layer}`],
        )
    }
    return network.build()
  })
}
