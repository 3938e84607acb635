import { mlp, resnet50, resnet152 } from '../test/models/networks.ts'
import { bigRow, identity } from '../test/models/small.ts'

/** A model to measure with: where it is, and one row of it. */
export interface BenchModel {
  readonly path: string
  readonly input: string
  readonly rowDims: readonly number[]
}

/** Elements of a 224 x 224 RGB image: 588 KB as float32. */
const imageElements = 3 * 224 * 224

/** Makes the model if it is not there yet, and tells where it is. */
export function benchModel(name: 'mlp' | 'identity' | 'image-identity' | 'resnet50' | 'resnet152'): BenchModel {
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
