import type { FeedValue } from '../../options/model-signature.ts'
import { invalidArgument } from '../../errors.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { Pieces } from '../../base/slices.ts'
import { elementCount, putValue, type ElementType } from '../../tensor/tensor.ts'
import { binaryElements, onlyElement } from './binary-elements.ts'
import { datatypes, typeOfDatatype } from './datatypes.ts'
import { HttpFailure } from './http-failure.ts'
import { jsonElements } from './json-elements.ts'
import {
  countIn,
  fieldOf,
  fieldsOf,
  given,
  listIn,
  parametersIn,
  textIn,
  type Fields,
} from './json-fields.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'

/** More dimensions no tensor has. */
const mostDims = 32

/** What may be said of inputs and outputs. */
export type TensorLimits = Pick<
  ResolvedKserveOptions,
  'maxTensors' | 'maxNameLength' | 'maxJsonBytes' | 'maxJsonValues'
>

/**
 * The inputs of a request as feeds, in pieces.
 *
 * @param binary what is behind the JSON: the tensors that are not in it, in their order.
 * @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory.
 */
export function* readInputs(
  request: Fields,
  binary: Uint8Array,
  metadata: ModelMetadata,
  limits: TensorLimits,
): Pieces<Record<string, FeedValue>> {
  const { maxTensors, maxNameLength, maxJsonBytes } = limits
  const inputs = given(listIn(request, 'inputs', '', maxTensors), 'inputs', 'an array of tensors')
  const feeds: Record<string, FeedValue> = {}
  let at = 0
  for (const [index, each] of inputs.entries()) {
    const where = `inputs[${index}]`
    const input = fieldsOf(where, each)
    const name = given(
      textIn(input, 'name', `${where}.`, maxNameLength),
      `${where}.name`,
      'the name of an input',
    )
    if (Object.hasOwn(feeds, name)) throw invalidArgument(`${where}.name`, 'each name once', name)
    const { type, shape } = readType(input, where)
    const what = `input '${name}'`
    const size = binarySize(input, where)
    const data = fieldOf(input, 'data')
    if ((size === undefined) === (data === undefined))
      throw invalidArgument(
        what,
        "either 'data' or 'binary_data_size' in 'parameters'",
        data === undefined ? 'neither' : 'both',
      )
    if (size === undefined) {
      putValue(feeds, name, tensorOf(type, shape, yield* jsonElements(what, type, shape, data)))
      continue
    }
    if (size > binary.byteLength - at)
      throw invalidArgument(
        `${what}.parameters.binary_data_size`,
        `${binary.byteLength - at} at most, as so many bytes are left of the body`,
        size,
      )
    const bytes = binary.subarray(at, (at += size))
    const isImage =
      type === 'string' && metadata.inputs.some((known) => known.name === name && known.type !== 'string')
    if (type === 'string' && !isImage && size > maxJsonBytes)
      throw invalidArgument(
        `${what}.parameters.binary_data_size`,
        `${maxJsonBytes} at most for text (maxJsonBytes)`,
        size,
      )
    putValue(
      feeds,
      name,
      isImage
        ? encodedImage(what, shape, bytes)
        : tensorOf(type, shape, yield* binaryElements(what, type, shape, bytes, limits)),
    )
  }
  if (at < binary.byteLength)
    throw invalidArgument(
      'The body',
      `${at} bytes after its JSON, as the inputs have in all`,
      binary.byteLength,
    )
  return feeds
}

/** Read by the engine as any tensor is, whichever copy of onnxruntime-common made it. */
export function tensorOf(type: ElementType, dims: readonly number[], data: unknown): FeedValue {
  return { type, dims, data } as unknown as FeedValue
}

function readType(
  input: Fields,
  where: string,
): { readonly type: ElementType; readonly shape: readonly number[] } {
  const datatype = given(
    textIn(input, 'datatype', `${where}.`, mostDims),
    `${where}.datatype`,
    `one of ${datatypes.join(', ')}`,
  )
  const type = typeOfDatatype(datatype)
  if (type === undefined)
    throw invalidArgument(`${where}.datatype`, `one of ${datatypes.join(', ')}`, datatype)
  const shape = given(
    listIn(input, 'shape', `${where}.`, mostDims),
    `${where}.shape`,
    'an array of dimensions',
  )
  if (!shape.every((dim) => Number.isSafeInteger(dim) && (dim as number) >= 0))
    throw invalidArgument(`${where}.shape`, 'whole numbers, 0 or more', shape)
  return { type, shape: shape as readonly number[] }
}

/** `undefined` for an input whose data is JSON. */
function binarySize(input: Fields, where: string): number | undefined {
  const parameters = parametersIn(input, `${where}.`)
  refuseSharedMemory(parameters, where)
  return countIn(parameters, 'binary_data_size', `${where}.parameters.`)
}

/** @throws HttpFailure 501 for a tensor that lies in shared memory. */
export function refuseSharedMemory(parameters: Fields, where: string): void {
  if (fieldOf(parameters, 'shared_memory_region') === undefined) return
  throw new HttpFailure(
    501,
    `${where}.parameters.shared_memory_region: shared memory is not served. Send and ask for the tensor as binary data.`,
  )
}

/** One element of BYTES for an input of numbers is an encoded image, which the engine decodes where the model's configuration says how. */
function encodedImage(what: string, shape: readonly number[], bytes: Uint8Array): Uint8Array {
  if (elementCount(shape) !== 1)
    throw invalidArgument(what, 'one encoded image, of shape [1]', `shape [${shape.join(', ')}]`)
  return given(onlyElement(what, bytes), what, 'one encoded image')
}
