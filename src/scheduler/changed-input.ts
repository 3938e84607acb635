import { invalidArgument, type InferenceError } from '../errors.ts'
import type { ModelMetadata } from '../metadata.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { elementCount } from '../tensor.ts'

/** What is wrong with an input whose buffer was detached or resized since it was checked; `null` when all are as they were. */
export function changedInput({ inputs, maxBatchSize, name: model }: ModelMetadata, { data, dims, rows }: InferRequest): InferenceError | null {
  for (let index = 0; index < data.length; index++) {
    const { name, shape } = inputs[index]!
    const values = data[index]!
    if (values === null) continue
    const expected = dims !== null ? elementCount(dims[index]!) : fixedElements(shape, maxBatchSize > 0 ? rows : -1)
    const received = values.length
    if (received === expected) continue
    const hint = 'Its buffer was detached or changed after infer() was called; leave it alone until the call settles'
    return invalidArgument(`input '${name}'`, `${expected} elements`, received, { model, hint })
  }
  return null
}

function fixedElements(shape: readonly (number | string)[], rows: number): number {
  let count = rows === -1 ? 1 : rows
  for (let axis = rows === -1 ? 0 : 1; axis < shape.length; axis++) count *= shape[axis] as number
  return count
}
