import type { InferOptions } from '../../options/infer-options.ts'
import type { Feeds } from '../../options/model-signature.ts'
import { invalidArgument } from '../../errors.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { Pieces } from '../../base/slices.ts'
import { fieldsPieces, parametersIn, textIn } from './json-fields.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'
import { readInputs, type TensorLimits } from './request-inputs.ts'
import { readParameters } from './request-parameters.ts'
import { readOutputs, type RequestedOutput } from './requested-outputs.ts'

/** What a client asks of a model. */
export interface InferCall {
  readonly id: string | undefined
  readonly feeds: Feeds
  readonly options: InferOptions
  readonly outputs: readonly RequestedOutput[]
}

/**
 * Reads a body with JSON at its beginning, in pieces.
 *
 * @param jsonBytes how long the JSON at its beginning is; `undefined` where it is all of it.
 * @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory.
 */
export function* readInferCall(
  body: Uint8Array,
  jsonBytes: number | undefined,
  metadata: ModelMetadata,
  options: ResolvedKserveOptions,
): Pieces<InferCall> {
  const json = body.subarray(0, jsonBytes ?? body.byteLength)
  const { maxJsonBytes, maxNameLength } = options
  if (json.byteLength < (jsonBytes ?? 0))
    throw invalidArgument(
      'Inference-Header-Content-Length',
      `${body.byteLength} at most, as the body has so many bytes`,
      jsonBytes,
    )
  if (json.byteLength > maxJsonBytes)
    throw invalidArgument(
      'The JSON of the request',
      `${maxJsonBytes} bytes at most (maxJsonBytes)`,
      json.byteLength,
      { hint: 'Send tensors as binary data (binary_data_size)' },
    )
  const request = yield* fieldsPieces(json, options)
  const parameters = parametersIn(request, '')
  const id = textIn(request, 'id', '', maxNameLength)
  const limits: TensorLimits = options
  return {
    id,
    feeds: yield* readInputs(request, body.subarray(json.byteLength), metadata, limits),
    options: {
      ...readParameters(parameters, maxNameLength),
      ...(id === undefined || id === '' ? {} : { requestId: id }),
    },
    outputs: readOutputs(request, parameters, metadata, limits),
  }
}
