import { stat } from 'node:fs/promises'
import type { Feeds, FeedValue, InferOptions, ModelMetadata, Outputs, TensorData } from 'zerohop'
import { invalidArgument, mulberry32 } from 'zerohop/internals'
import {
  generatedBytes,
  type GeneratedData,
  generatedFeed,
  type GivenShapes,
  hasRows,
  type InputShape,
  inputShapes,
  isMadeUp,
  madeUpKinds,
  mostGeneratedBytes,
  outputShapes,
} from './generated-data.ts'
import { joinRows, type ModelShapes, readFolderInput, readJsonInput, type RowTensor } from './input-files.ts'
import { type SequenceSettings, SequenceSource } from './sequence-source.ts'

/** The requests to send, under the names of the command line. */
export interface InputSettings {
  /** `random`, `zero`, either for one input as `NAME:zero`, or folders and JSON files. */
  readonly inputData: readonly string[]
  /** Rows per request. */
  readonly batchSize: number
  readonly shapes: GivenShapes
  readonly stringLength: number
  /** `null`: strings are generated. */
  readonly stringData: string | null
  /** Number of different generated requests; then they repeat. */
  readonly uniqueInputs: number
  /** Seed of random data. */
  readonly seed: number
  /** Options of each request. */
  readonly options?: InferOptions | undefined
  /** `null` for a model without sequences. */
  readonly sequences: SequenceSettings | null
  /** Inputs that an entry of a file may omit. Default: none. */
  readonly optionalInputs?: readonly string[] | undefined
  /** Inputs that sequences fill, so that no request gives them. Default: none. */
  readonly filledInputs?: readonly string[] | undefined
}

/** The defaults of perf_analyzer. */
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
 * Generates or reads the requests for a model.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for data that does not fit the model, and errors of reading.
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

/** One request, ready to be sent. */
export interface Sample {
  readonly feeds: Feeds
  /** Its rows; 1 if requests have none. */
  readonly rows: number
  /** Options of `infer()`, including sequence ids. Default: none. */
  readonly options?: InferOptions
  /** The expected answer (`validation_data`): the bytes or strings of each output. Default: any answer. */
  readonly expected?: ReadonlyMap<string, Uint8Array | readonly string[]>
}

/** A source of requests. */
export interface SampleSource {
  /** Number of different requests before they repeat; `null` if they never do. */
  readonly size: number | null
  /**
   * The next request.
   *
   * @param caller index of the sender, from 0. With sequences, each caller has its own.
   */
  next(caller: number): Sample
  /** A request of a caller was not answered. With sequences, its next request begins another one. */
  failed?(caller: number): void
  /** Requests that end the open sequences. Each caller begins another one afterwards. */
  endings?(): Sample[]
  /** Number of sequences begun so far; left out without sequences. */
  readonly sequenceCount?: number
}

/** Repeats the same requests in order, for all senders together. */
export class SampleCycle implements SampleSource {
  readonly #samples: readonly Sample[]
  #next = 0

  /** @param samples at least one. */
  constructor(samples: readonly Sample[]) {
    this.#samples = samples
  }

  get size(): number {
    return this.#samples.length
  }

  next(): Sample {
    const sample = this.#samples[this.#next]!
    this.#next = this.#next + 1 === this.#samples.length ? 0 : this.#next + 1
    return sample
  }
}

/** One row of given data: an entry of a file, or a folder. */
export interface Step {
  readonly inputs: ReadonlyMap<string, RowTensor>
  /** The expected answer; empty for any. */
  readonly outputs: ReadonlyMap<string, RowTensor>
}

/** Rows that belong together: a sequence, if the model has them. */
export type Stream = readonly Step[]

/** A request with one row per step. */
function sampleOf(steps: readonly Step[], { inputs, outputs }: ModelShapes, options?: InferOptions): Sample {
  const joined = (
    values: readonly InputShape[],
    of: (step: Step) => ReadonlyMap<string, RowTensor>,
  ): [string, FeedValue][] =>
    values.flatMap((value) => {
      const rows = steps.flatMap((step) => of(step).get(value.name) ?? [])
      if (rows.length === 0) return []
      if (rows.length < steps.length)
        throw invalidArgument(
          `'${value.name}'`,
          `each of the ${steps.length} entries of a request to have it, or none`,
          `${rows.length} that have it`,
        )
      return [[value.name, joinRows(value, rows)]]
    })
  const feeds: Feeds = Object.fromEntries(joined(inputs, (step) => step.inputs))
  const expected = joined(outputs, (step) => step.outputs).map(
    ([name, value]) => [name, bytesOf((value as { data: TensorData | string[] }).data)] as const,
  )
  return {
    feeds,
    rows: steps.length,
    ...(options === undefined ? {} : { options }),
    ...(expected.length === 0 ? {} : { expected: new Map(expected) }),
  }
}

/** Requests of so many rows each, from all streams in order, until they would repeat. */
function samplesOf(
  streams: readonly Stream[],
  batchSize: number,
  shapes: ModelShapes,
  options?: InferOptions,
): Sample[] {
  const steps = streams.flat()
  const count = steps.length / commonDivisor(steps.length, batchSize)
  return Array.from({ length: count }, (_, index) => {
    const rows = Array.from(
      { length: batchSize },
      (__, row) => steps[(index * batchSize + row) % steps.length]!,
    )
    return sampleOf(rows, shapes, options)
  })
}

function bytesOf(data: TensorData | readonly string[]): Uint8Array | readonly string[] {
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b)
}

/** An answer other than expected. */
class UnexpectedAnswer extends Error {
  readonly code = 'UNEXPECTED_ANSWER'
}

/** @throws UnexpectedAnswer if an output differs from the expected one in any byte. */
export function checkAnswer(
  outputs: Partial<Outputs>,
  expected: ReadonlyMap<string, Uint8Array | readonly string[]>,
): void {
  for (const [name, wanted] of expected) {
    const output = outputs[name] as { readonly data?: unknown } | undefined
    if (output === undefined) throw new UnexpectedAnswer(`output '${name}': expected one, received none`)
    if (!isSame(output.data, wanted))
      throw new UnexpectedAnswer(`output '${name}': its data differs from the validation data`)
  }
}

function isSame(data: unknown, wanted: Uint8Array | readonly string[]): boolean {
  if (ArrayBuffer.isView(wanted)) {
    if (!ArrayBuffer.isView(data)) return false
    return Buffer.from(data.buffer, data.byteOffset, data.byteLength).equals(wanted as Uint8Array)
  }
  const texts = data as readonly string[]
  return (
    Array.isArray(texts) &&
    texts.length === wanted.length &&
    texts.every((text, index) => text === (wanted as readonly string[])[index])
  )
}
