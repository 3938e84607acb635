import type { ModelMetadata } from '../tensor/metadata.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { elementCount, type TensorData } from '../tensor/tensor.ts'
import { checkElements } from './gather-rows.ts'

/** Least room for the rows of an input, in elements. */
const leastRoom = 256

/** Whether a model has inputs whose rows may have different lengths in one batch. */
export function hasRaggedInputs({ inputs }: Pick<ModelMetadata, 'inputs'>): boolean {
  return inputs.some(({ ragged }) => ragged === true)
}

/**
 * Room for the rows of a batch, in elements by input; `undefined` for an input whose rows are all alike. More than is needed, by
 * a quarter at most, so that few layouts do for batches of all sizes.
 */
export function roomForRows(
  { inputs }: ModelMetadata,
  batch: readonly InferRequest[],
): (number | undefined)[] {
  return inputs.map(({ ragged, type }, index) => {
    if (ragged !== true || type === 'string') return undefined
    let elements = 0
    for (const { dims, data } of batch) if (data[index] !== null) elements += elementCount(dims![index]!)
    const step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(leastRoom, elements))) - 3)
    return Math.max(leastRoom, Math.ceil(elements / step) * step)
  })
}

/** Copies the rows of a batch one behind the other, and notes the dims of each. */
export function gatherRagged(
  batch: readonly InferRequest[],
  index: number,
  view: TensorData,
  rowDims: Int32Array,
): void {
  let at = 0
  let noted = 0
  for (const { data, dims, rows } of batch) {
    const own = dims![index]!
    const elements = elementCount(own)
    checkElements(data[index] as TensorData, elements)
    ;(view as Float32Array).set(data[index] as Float32Array, at)
    at += elements
    for (let row = 0; row < rows; row++)
      for (let axis = 1; axis < own.length; axis++) rowDims[noted++] = own[axis]!
  }
}
