import { describe, expect, it } from 'vitest'
import {
  checkBatchDimension,
  notStackable,
  type ModelMetadata,
  type TensorMetadata,
} from '../../src/tensor/metadata.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { Padding } from '../../src/request/padding.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const metadata = (...inputs: TensorMetadata[]): ModelMetadata => ({
  name: 'm',
  path: '',
  inputs,
  outputs: inputs,
  properties: null,
  unservableOutputs: [],
  executionProviders: [],
  maxBatchSize: 4,
  joining: { rows: 'declared', how: 'declared', largestDifference: null, reason: '' },
})
const nameless: TensorMetadata = { name: 'x', type: 'float32', shape: ['', 16] }
const square: TensorMetadata = { name: 'x', type: 'float32', shape: ['', ''] }
const fixed: TensorMetadata = { name: 'x', type: 'float32', shape: [2, ''] }
const tensor = (...dims: number[]) =>
  new Tensor('float32', new Float32Array(dims.reduce((a, b) => a * b)), dims)

describe('a dimension without a name is shown as a question mark', () => {
  it.each<[string, () => unknown, string]>([
    [
      'of another rank',
      () => new FeedParser(metadata(nameless)).parse({ x: tensor(16) }),
      'shape [?, 16], received [16]',
    ],
    [
      'of another shape',
      () => new FeedParser(metadata(nameless)).parse({ x: tensor(1, 3) }),
      'shape [?, 16], received [1, 3]',
    ],
    [
      'of another length',
      () => new FeedParser(metadata(nameless)).parse({ x: new Float32Array(3) }),
      'one row of shape [?, 16], received 3',
    ],
    [
      'without dims',
      () => new FeedParser(metadata(square)).parse({ x: new Float32Array(3) }),
      'its shape [?, ?] is not fixed',
    ],
    ['that cannot be stacked', () => checkBatchDimension('m', 4, metadata(fixed)), 'the fixed shape [2, ?]'],
    [
      'that cannot be padded there',
      () => Padding.of(metadata(nameless), [{ input: 'x', dim: 1, sizes: 'longest', value: 0, outputs: [] }]),
      'shape is [?, 16]',
    ],
  ])('for an input %s', (_, call, text) => {
    expect(call).toThrow(text)
  })

  it('in the reason why requests are not joined', () => {
    expect(notStackable(metadata(fixed))).toBe("input 'x' of shape [2, ?] has no variable first dimension")
  })
})
