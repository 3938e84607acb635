import type { ModelMetadata } from '../metadata.ts'
import { elementCount, Tensor, toStorage, type ElementType, type TensorData } from '../tensor.ts'
import { lengthOf } from '../typed-array.ts'
import { hasPlainInputs } from './made-tensors.ts'
import type { ParsedFeeds } from './infer-request.ts'

/** An input as its tensors are to be. */
interface PlainInput {
  readonly name: string
  readonly type: ElementType
  readonly shape: readonly (number | string)[]
  /** Of a row, or of the whole where there are no rows. */
  readonly elements: number
}

/**
 * Reads what most requests are: a `Tensor` for each input, right in every respect. In a third of the time that it takes to read
 * whatever may be given; what is wrong, or of another form, is left to who can say why.
 */
export class PlainFeeds {
  readonly #inputs: readonly PlainInput[]
  readonly #maxBatchSize: number
  /** To be copied: one for each input. */
  readonly #places: (TensorData | null)[]

  private constructor({ inputs, maxBatchSize }: ModelMetadata) {
    const rowsFirst = maxBatchSize > 0 ? 1 : 0
    this.#maxBatchSize = maxBatchSize
    this.#inputs = inputs.map(({ name, type, shape }) => ({ name, type: type as ElementType, shape, elements: elementCount(shape.slice(rowsFirst) as number[]) }))
    this.#places = inputs.map(() => null)
  }

  /** `null` for a model with an input that is not {@link hasPlainInputs plain}. */
  static of(metadata: ModelMetadata): PlainFeeds | null {
    return hasPlainInputs(metadata) ? new PlainFeeds(metadata) : null
  }

  /** The request that these feeds are; `null` where they take a closer look. */
  read(feeds: unknown): ParsedFeeds | null {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds)) return null
    const inputs = this.#inputs
    let names = 0
    for (const _ in feeds) names++
    if (names !== inputs.length) return null
    const first = this.#maxBatchSize > 0 ? 1 : 0
    const data = this.#places.slice() // of that length at once: what is pushed to gets room for many
    let rows = 1
    for (let index = 0; index < inputs.length; index++) {
      const { name, type, shape, elements } = inputs[index]!
      const tensor = Object.hasOwn(feeds, name) ? (feeds as Record<string, unknown>)[name] : null
      if (!(tensor instanceof Tensor) || tensor.type !== type || tensor.location !== 'cpu') return null
      const { dims, data: own } = tensor
      if (!Array.isArray(dims) || dims.length !== shape.length) return null
      if (first === 1) {
        const given: unknown = dims[0]
        if (index === 0 && Number.isSafeInteger(given)) rows = given as number
        if (given !== rows || rows < 1 || rows > this.#maxBatchSize || (typeof shape[0] === 'number' && shape[0] !== rows)) return null
      }
      for (let axis = first; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return null
      const stored = toStorage(type, own)
      if (stored === null || lengthOf(stored) !== rows * elements) return null
      data[index] = stored
    }
    return { rows, bucketKey: '', whole: false, data, dims: null }
  }
}
