import { stat } from 'node:fs/promises'
import { invalidArgument, mulberry32 } from 'zerohop/internals'
import type { InferOptions, ModelMetadata } from 'zerohop'
import { readFolderInput } from './folder-input.ts'
import {
  generatedBytes,
  generatedFeed,
  isMadeUp,
  madeUpKinds,
  mostGeneratedBytes,
  type GeneratedData,
} from './generated-data.ts'
import { hasRows, inputShapes, outputShapes, type GivenShapes, type InputShape } from './input-shapes.ts'
import { readJsonInput, type ModelShapes } from './json-input.ts'
import { SampleCycle } from './sample-cycle.ts'
import type { Sample, SampleSource } from './sample.ts'
import { SequenceSource, type SequenceSettings } from './sequence-source.ts'
import { sampleOf, samplesOf } from './step-samples.ts'
import type { Stream } from './step.ts'

/** What a model is asked, under the names of the command line. */
export interface InputSettings {
  /** `random`, `zero`, either for one input as `NAME:zero`, or folders and files of JSON. */
  readonly inputData: readonly string[]
  /** Rows of each request. */
  readonly batchSize: number
  readonly shapes: GivenShapes
  readonly stringLength: number
  /** `null`: strings are made up. */
  readonly stringData: string | null
  /** Different requests that are made up, before they come again. */
  readonly uniqueInputs: number
  /** Of what is random. */
  readonly seed: number
  /** Options of each request. */
  readonly options?: InferOptions | undefined
  /** `null` for a model without sequences. */
  readonly sequences: SequenceSettings | null
  /** Inputs that an entry of a file may leave out. Default: none. */
  readonly optionalInputs?: readonly string[] | undefined
  /** Inputs that no request gives: those that sequences fill. Default: none. */
  readonly filledInputs?: readonly string[] | undefined
}

/** As perf_analyzer has them. */
export const inputDefaults: InputSettings = {
  inputData: ['random'],
  batchSize: 1,
  shapes: new Map(),
  stringLength: 128,
  stringData: null,
  uniqueInputs: 1,
  seed: 1,
  sequences: null,
}

/**
 * Makes, or reads, what a model is asked.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for what does not fit the model, and what reading throws.
 */
export async function sampleSource(
  { inputs: all, ...others }: ModelMetadata,
  settings: InputSettings,
): Promise<SampleSource> {
  const { inputData, batchSize, shapes: given, seed, sequences, options, filledInputs = [] } = settings
  const metadata = { ...others, inputs: all.filter(({ name }) => !filledInputs.includes(name)) }
  if (batchSize > 1 && !hasRows(metadata))
    throw invalidArgument('batch size', `1, as requests to '${metadata.name}' have no rows`, batchSize)
  const inputs = inputShapes(metadata, given)
  const random = mulberry32(seed)
  const kinds = madeUpKinds(inputData, inputs)
  if (kinds === null && inputData.some(isMadeUp))
    throw invalidArgument('input data', 'random and zero alone, or folders and files', [...inputData])
  if (kinds !== null) {
    const samples = generatedSamples(inputs, { ...settings, ...kinds }, random)
    return sequences === null
      ? new SampleCycle(samples)
      : new SequenceSource([samples], false, sequences, random)
  }
  const shapes: ModelShapes = {
    inputs,
    outputs: outputShapes(metadata),
    optionalInputs: new Set(settings.optionalInputs),
  }
  const streams: Stream[] = []
  let hasLengths = false
  for (const path of inputData) {
    if ((await stat(path)).isDirectory()) streams.push(await readFolderInput(path, inputs))
    else {
      streams.push(...(await readJsonInput(path, shapes)))
      hasLengths = true
    }
  }
  if (sequences === null) return new SampleCycle(samplesOf(streams, batchSize, shapes, options))
  const requests = streams.map((stream) =>
    stream.map((step) =>
      sampleOf(
        Array.from({ length: batchSize }, () => step),
        shapes,
        options,
      ),
    ),
  )
  return new SequenceSource(requests, hasLengths, sequences, random)
}

function generatedSamples(
  inputs: readonly InputShape[],
  { batchSize, uniqueInputs, options, ...data }: InputSettings & GeneratedData,
  random: () => number,
): Sample[] {
  const bytes = uniqueInputs * inputs.reduce((sum, input) => sum + generatedBytes(input, batchSize, data), 0)
  if (bytes > mostGeneratedBytes)
    throw invalidArgument(
      'made-up requests',
      `no more than ${mostGeneratedBytes} bytes, which are held in memory`,
      `${bytes} bytes`,
      { hint: 'Make them fewer or smaller: -b, --shape, --string-length, --unique-inputs' },
    )
  return Array.from({ length: uniqueInputs }, () => {
    const feeds = Object.fromEntries(
      inputs.map((input) => [input.name, generatedFeed(input, batchSize, data, random)]),
    )
    return options === undefined ? { feeds, rows: batchSize } : { feeds, rows: batchSize, options }
  })
}
