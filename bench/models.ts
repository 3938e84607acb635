import { graph } from '../test/models/builder.ts'
import { modelPath } from '../test/models/cache.ts'
import { mlp, resnet50, resnet152 } from '../test/models/networks.ts'
import { heWeights, mulberry32 } from '../test/models/random.ts'
import { bigRow, identity, matmulSlow } from '../test/models/small.ts'

/** A model to measure with: where it is, and one row of it. */
export interface BenchModel {
  readonly path: string
  readonly input: string
  readonly rowDims: readonly number[]
}

/** Elements of a 224 x 224 RGB image: 588 KB as float32. */
const imageElements = 3 * 224 * 224

const matmulSize = 512

/** A chain of so many products with a 512 x 512 matrix: 2000 take 50 to 100 ms on two cores. */
export function matmulChain(products: number): BenchModel {
  return { path: matmulSlow(matmulSize, products), input: 'x', rowDims: [matmulSize] }
}

/** A model of rows of any length. */
export interface SequenceModel {
  readonly path: string
  readonly input: string
  readonly output: string
  /** Elements at each position, of the input and of the output. */
  readonly width: number
}

/**
 * The same perceptron `width`-`hidden`-`width` at every position: float32 ['N', 'L', width] to the same. No position
 * depends on another, so what a row is filled up with changes nothing. Another recipe needs another name in the cache.
 */
export function positionMlp(width = 64, hidden = 256): SequenceModel {
  const path = modelPath(`position-mlp-${width}-${hidden}`, () => {
    const random = mulberry32(7)
    return graph('position-mlp')
      .input('input', 'float32', ['N', 'L', width])
      .output('output', 'float32', ['N', 'L', width])
      .initializer('hidden.weight', 'float32', [width, hidden], heWeights(random, width, hidden))
      .initializer('output.weight', 'float32', [hidden, width], heWeights(random, hidden, width))
      .node('MatMul', ['input', 'hidden.weight'], ['hidden'])
      .node('Relu', ['hidden'], ['active'])
      .node('MatMul', ['active', 'output.weight'], ['output'])
      .build()
  })
  return { path, input: 'input', output: 'output', width }
}

/**
 * A perceptron 64-4096-64 whose answer tells whose it is: `y` is that of `mark` 1 times `mark`, and the output `mark` has the
 * number for each row.
 */
export function markedMlp(mark: number, width = 64, hidden = 4096): BenchModel {
  const path = modelPath(`marked-mlp-${mark}-${width}-${hidden}`, () => {
    const random = mulberry32(11)
    const first = heWeights(random, width, hidden)
    const second = heWeights(random, hidden, width).map((weight) => weight * mark)
    return graph('marked-mlp')
      .input('x', 'float32', ['N', width])
      .output('y', 'float32', ['N', width])
      .output('mark', 'float32', ['N', 1])
      .initializer('hidden.weight', 'float32', [width, hidden], first)
      .initializer('output.weight', 'float32', [hidden, width], second)
      .initializer('none', 'float32', [width, 1], new Float32Array(width))
      .initializer('own', 'float32', [1], [mark])
      .node('MatMul', ['x', 'hidden.weight'], ['hidden'])
      .node('Relu', ['hidden'], ['active'])
      .node('MatMul', ['active', 'output.weight'], ['y'])
      .node('MatMul', ['x', 'none'], ['nothing'])
      .node('Add', ['nothing', 'own'], ['mark'])
      .build()
  })
  return { path, input: 'x', rowDims: [width] }
}

/** Makes the model if it is not there yet, and tells where it is. */
export function benchModel(
  name: 'mlp' | 'identity' | 'image-identity' | 'resnet50' | 'resnet152',
): BenchModel {
  switch (name) {
    case 'mlp':
      return { path: mlp(), input: 'input', rowDims: [64] }
    case 'identity':
      return { path: identity('float32'), input: 'x', rowDims: [4] }
    case 'image-identity':
      return { path: bigRow(imageElements), input: 'x', rowDims: [imageElements] }
    case 'resnet50':
      return { path: resnet50(), input: 'input', rowDims: [3, 224, 224] }
    case 'resnet152':
      return { path: resnet152(), input: 'input', rowDims: [3, 224, 224] }
  }
}
