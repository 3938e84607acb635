import type { InferenceSession, Tensor } from 'onnxruntime-common'
import { invalidArgument } from '../../errors.ts'
import { isElementType, isPacked, isRawType } from '../../tensor/tensor.ts'
import type { ValueMetadata } from '../../tensor/metadata.ts'

/**
 * Inputs or outputs of a model as a session describes them.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` for elements that no tensor of onnxruntime-common has.
 */
export function sessionMetadata(
  model: string,
  values: readonly ValueMetadata[],
): InferenceSession.ValueMetadata[] {
  return values.map(({ name, type, shape }) => {
    if (!isElementType(type)) return { name, isTensor: false }
    if (isRawType(type) && !isPacked(type)) {
      const hint = 'Load the model by InferenceEngine.load(), whose tensors have it'
      throw invalidArgument(`'${name}'`, 'elements of a type that a Tensor can have', type, {
        code: 'ERR_MODEL_LOAD',
        model,
        hint,
      })
    }
    return { name, isTensor: true, type: type as Tensor.Type, shape: [...shape] }
  })
}
