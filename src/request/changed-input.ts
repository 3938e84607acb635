import { invalidArgument, type InferenceError } from '../errors.ts'
import { elementCount, storageLength, type ElementType } from '../tensor/tensor.ts'
import { lengthOf } from '../tensor/typed-array.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { InferRequest } from './infer-request.ts'

/**
 * Whether the data of a request have still as many elements as were checked: a buffer can be detached or resized while
 * the request waits, and fewer would leave in the slot what another caller sent. To be asked right before the data are
 * read. Strings were copied and cannot change.
 *
 * @returns what to reject the request with, or `null`.
 */
export function changedInput(
  { inputs, name: model }: ModelMetadata,
  { data, dims, rows }: InferRequest,
): InferenceError | null {
  for (let index = 0; index < data.length; index++) {
    const values = data[index]!
    if (!ArrayBuffer.isView(values)) continue
    const { name, shape, type } = inputs[index]!
    const expected = storageLength(
      type as ElementType,
      dims !== null ? elementCount(dims[index]!) : fixedElements(shape, rows),
    )
    const received = lengthOf(values)
    if (received === expected) continue
    const hint =
      'Its buffer was detached or changed after infer() was called; leave it alone until the call settles'
    return invalidArgument(`input '${name}'`, `${expected} elements`, received, { model, hint })
  }
  return null
}

/** Of a shape in which nothing but the rows is variable. */
function fixedElements(shape: readonly (number | string)[], rows: number): number {
  let count = 1
  for (let axis = 0; axis < shape.length; axis++)
    count *= typeof shape[axis] === 'number' ? (shape[axis] as number) : rows
  return count
}
