import { Buffer, isUtf8 } from 'node:buffer'
import { invalidArgument } from '../../errors.ts'
import { batchAxisOf, shownShape, type ModelMetadata, type ValueMetadata } from '../../tensor/metadata.ts'
import type { Pieces } from '../../base/slices.ts'
import { byteLengthOf, elementCount, isElementType, type ElementType } from '../../tensor/tensor.ts'
import { binaryElements } from './binary-elements.ts'
import type { InferCall } from './infer-call.ts'
import { tensorOf, type TensorLimits } from './request-inputs.ts'
import { allOutputs } from './requested-outputs.ts'

/**
 * Reads a body without JSON: one row of a model's only input, which is answered with all outputs as binary data.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function* readRawCall(
  body: Uint8Array,
  metadata: ModelMetadata,
  limits: TensorLimits,
): Pieces<InferCall> {
  const { inputs, maxBatchSize, name: model } = metadata
  const [input] = inputs
  const wrong = (expected: string, received: unknown) =>
    invalidArgument('A body without JSON (Inference-Header-Content-Length: 0)', expected, received, { model })
  if (input === undefined || inputs.length > 1 || !isElementType(input.type))
    throw wrong('a model whose only input is a tensor', `one with ${inputs.length} inputs`)
  const { name, type, shape } = input
  const row = shape.map((dim, axis) =>
    typeof dim === 'number' ? dim : maxBatchSize > 0 && axis === batchAxisOf(input) ? 1 : null,
  )
  if (row.filter((dim) => dim === null).length > 1)
    throw wrong('a model with one open dimension at most', shownShape(shape))
  const dims = row.map((dim) => dim ?? openDim(type, row, body.byteLength))
  if (type !== 'string')
    return callOf(metadata, input, dims, yield* binaryElements(`input '${name}'`, type, dims, body, limits))
  // The text is all of it: there is no length before.
  if (elementCount(dims) !== 1 || !isUtf8(body))
    throw wrong(
      'one text in UTF-8, for an input of one',
      `${body.byteLength} bytes for shape ${shownShape(shape)}`,
    )
  return callOf(metadata, input, dims, [
    Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(),
  ])
}

/** As long as there are bytes for; what is over is found by who counts them. */
function openDim(type: ElementType, row: readonly (number | null)[], bytes: number): number {
  return type === 'string'
    ? 1
    : Math.floor(bytes / Math.max(1, byteLengthOf(type, elementCount(row.map((dim) => dim ?? 1)))))
}

function callOf(
  metadata: ModelMetadata,
  { name, type }: ValueMetadata,
  dims: readonly number[],
  data: unknown,
): InferCall {
  const names = metadata.outputs.filter((output) => isElementType(output.type)).map((output) => output.name)
  const feeds = Object.fromEntries([[name, tensorOf(type as ElementType, dims, data)]])
  return { id: undefined, feeds, options: {}, outputs: allOutputs(metadata, names, true) }
}
