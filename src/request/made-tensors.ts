import { batchAxisOf, type ModelMetadata } from '../tensor/metadata.ts'
import { isElementType, isPacked, type TensorData, type TensorLike } from '../tensor/tensor.ts'
import type { ParsedFeeds } from './infer-request.ts'

/**
 * Takes tensors for a model's inputs that have been read already, or made by another model: of the right types, with as many
 * elements as their dims say. All that is left to look at is whether they are of the model's shapes, and one row each of as many.
 */
export class MadeTensors {
  readonly #shapes: readonly (readonly (number | string)[])[]
  readonly #maxBatchSize: number

  private constructor({ inputs, maxBatchSize }: ModelMetadata) {
    this.#shapes = inputs.map(({ shape }) => shape)
    this.#maxBatchSize = maxBatchSize
  }

  /** `null` for a model of whose inputs more is to be looked at: shapes that are not fixed, say, or float16, which newer Node shows as numbers. */
  static of(metadata: ModelMetadata): MadeTensors | null {
    const batched = metadata.maxBatchSize > 0
    const isPlain = metadata.inputs.every((input) => {
      const { type, shape, ragged } = input
      if (
        !isElementType(type) ||
        type === 'string' ||
        type === 'float16' ||
        isPacked(type) ||
        ragged === true ||
        shape.length === 0
      )
        return false
      return (
        (!batched || batchAxisOf(input) === 0) &&
        shape.every((dim, axis) => typeof dim === 'number' || (batched && axis === 0))
      )
    })
    return isPlain && metadata.inputs.length > 0 ? new MadeTensors(metadata) : null
  }

  /**
   * Makes a request of the tensors for all inputs, in the model's order; takes the array over. Returns `null` when one does not fit as it is:
   * reading the feeds then finds out why.
   */
  take(tensors: TensorLike[]): ParsedFeeds | null {
    const first = this.#maxBatchSize > 0 ? 1 : 0
    const rows = first === 1 ? tensors[0]!.dims[0]! : 1
    if (rows === 0 || (first === 1 && rows > this.#maxBatchSize)) return null
    const data = tensors as unknown[] as TensorData[] // one by one, in place of the tensors
    for (let index = 0; index < tensors.length; index++) {
      const { dims, data: own } = tensors[index]!
      const shape = this.#shapes[index]!
      if (dims.length !== shape.length || (first === 1 && dims[0] !== rows)) return null
      for (let axis = first; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return null
      data[index] = own as TensorData
    }
    return { rows, bucketKey: '', whole: false, data, dims: null }
  }
}
