import { invalidArgument, type InferenceError } from '../errors.ts'
import { shownShape, type ValueMetadata } from '../tensor/metadata.ts'
import { byteLengthOf, elementCount, isElementType } from '../tensor/tensor.ts'

/** What one tensor of one row may have. Two rows of such are as many bytes as a `Buffer` may have in every version of Node that is supported. */
const mostTensorBytes = 2 ** 31

/**
 * Refuses a model of which no row has room anywhere: by what its inputs and outputs declare of themselves, open dimensions counted as 1.
 *
 * @param usableBytes of memory.
 * @throws InferenceError `ERR_MODEL_LOAD`, which names the size.
 */
export function checkRowBytes(
  model: string,
  {
    inputs,
    outputs,
  }: { readonly inputs: readonly ValueMetadata[]; readonly outputs: readonly ValueMetadata[] },
  usableBytes: number,
): void {
  const mostBytes = Math.min(mostTensorBytes, usableBytes)
  const values = [
    ...inputs.map((value) => ({ kind: 'input', ...value })),
    ...outputs.map((value) => ({ kind: 'output', ...value })),
  ]
  let allBytes = 0
  for (const { kind, name, type, shape } of values) {
    if (!isElementType(type)) continue
    const bytes = byteLengthOf(type, elementCount(shape.map((dim) => (typeof dim === 'number' ? dim : 1))))
    allBytes += bytes
    if (bytes > mostBytes)
      throw tooLarge(
        `${kind} '${name}'`,
        mostBytes,
        `${bytes} bytes in ${shownShape(shape)} of ${type}`,
        model,
      )
  }
  if (allBytes > usableBytes)
    throw tooLarge('inputs and outputs', usableBytes, `${allBytes} bytes in all`, model)
}

function tooLarge(what: string, mostBytes: number, received: string, model: string): InferenceError {
  const hint = 'Export the model with open dimensions, or with smaller ones'
  return invalidArgument(what, `at most ${mostBytes} bytes in one row`, received, {
    code: 'ERR_MODEL_LOAD',
    model,
    hint,
  })
}
