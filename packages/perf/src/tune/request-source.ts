import type { ModelMetadata, ModelOptions } from 'zerohop'
import { inputDefaults, sampleSource, type SampleSource } from '../perf/input/sample-source.ts'
import type { RequestSettings } from './measuring-messages.ts'

/** Different requests, of which each comes again when all have been sent. */
const differentRequests = 16

/**
 * What a model is asked while it is measured.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for data or shapes that do not fit the model, or are missing.
 */
export function requestSource(
  metadata: ModelMetadata,
  { optionalInputs }: ModelOptions,
  { rows, shapes, inputData }: RequestSettings,
): Promise<SampleSource> {
  return sampleSource(metadata, {
    ...inputDefaults,
    inputData,
    batchSize: rows,
    shapes: new Map(shapes),
    uniqueInputs: differentRequests,
    optionalInputs,
  })
}
