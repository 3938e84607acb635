import type { ModelMetadata } from '../index.ts'
import { generatedFeed, type GeneratedData } from '../perf/input/generated-data.ts'
import { inputShapes } from '../perf/input/input-shapes.ts'
import { SampleCycle } from '../perf/input/sample-cycle.ts'
import { randomNumbers } from '../perf/load/random-numbers.ts'
import type { SampleSource } from '../perf/input/sample.ts'
import type { RequestSettings } from './measuring-messages.ts'

/** Different requests, of which each comes again when all have been sent. */
const differentRequests = 16
const seed = 1

/**
 * What a model is asked while it is measured.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for shapes that do not fit, or are missing.
 */
export async function requestSource(metadata: ModelMetadata, { rows, shapes, inputData }: RequestSettings): Promise<SampleSource> {
  const inputs = inputShapes(metadata, new Map(Object.entries(shapes)))
  const data: GeneratedData = { kind: inputData === 'zero' ? 'zero' : 'random', stringLength: 128, stringData: null }
  const random = randomNumbers(seed)
  const samples = Array.from({ length: differentRequests }, () => ({ rows, feeds: Object.fromEntries(inputs.map((input) => [input.name, generatedFeed(input, rows, data, random)])) }))
  return new SampleCycle(samples)
}
