import { type Command, InvalidArgumentError, Option } from 'commander'
import type { InferOptions } from 'zerohop'
import { invalidArgument } from 'zerohop/internals'
import { isMadeUp } from '../perf/input/generated-data.ts'
import { inputDefaults, type InputSettings, type Sample, sampleSource } from '../perf/input/sample-source.ts'
import type { OpenedModel } from '../perf/open-target.ts'
import type { LoadSettings, PerfSettings } from '../perf/perf-settings.ts'
import type { PerfContext } from './perf-extension.ts'
import { above, mostCallers, several, whole } from './perf-measure-options.ts'

/** Longest string in V8, about. */
const mostCharacters = 500_000_000

/** Options of the requests, in commander's form. */
export interface InputOptions {
  readonly batchSize: number
  readonly shape: readonly [name: string, dims: number[]][]
  readonly inputData: readonly string[]
  readonly stringLength: number
  readonly stringData?: string
  readonly uniqueInputs: number
  readonly requestParameter: readonly InferOptions[]
  readonly numOfSequences: number
  readonly sequenceLength: number
  readonly sequenceLengthVariation: number
  readonly sequenceIdRange: { readonly start: number; readonly end: number }
  readonly serialSequences: boolean
}

/** Adds the options to a command. */
export function addInputOptions(command: Command): Command {
  return command
    .optionsGroup('Requests:')
    .option('-b, --batch-size <rows>', 'rows per request', whole(1), inputDefaults.batchSize)
    .addOption(several('--shape <name:dims>', 'dims of a row, as IDS:1,128', shape))
    .addOption(several('--input-data <random|zero|path>', 'data, also NAME:zero', String, 'random'))
    .option(
      '--string-length <characters>',
      'length of generated strings',
      whole(1, mostCharacters),
      inputDefaults.stringLength,
    )
    .option('--string-data <text>', 'text of each generated string')
    .option(
      '--unique-inputs <count>',
      'number of different generated requests',
      whole(1),
      inputDefaults.uniqueInputs,
    )
    .addOption(
      several(
        '--request-parameter <name:value:type>',
        `option of each request: ${Object.keys(parameters).join(', ')}`,
        parameter,
      ),
    )
    .optionsGroup('Sequences, for stateful models:')
    .option(
      '--num-of-sequences <count>',
      'concurrent sequences if requests are sent at a rate or at intervals',
      whole(1, mostCallers),
      4,
    )
    .option(
      '--sequence-length <count>',
      'requests per sequence, unless a JSON file defines sequences',
      whole(1),
      20,
    )
    .option('--sequence-length-variation <percent>', 'how much --sequence-length varies', above(0, true), 20)
    .addOption(
      new Option('--sequence-id-range <start:end>', 'ids of sequences, reused after the end')
        .argParser(sequenceIds)
        .default({ start: 1, end: 2 ** 32 }, 'from 1 on'),
    )
    .option(
      '--serial-sequences',
      'send a request of a sequence only after the previous one is answered',
      false,
    )
}

/**
 * Converts the options about sequences; `null` for a model without sequences.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for fewer ids than concurrent sequences.
 */
export function sequencesOf(
  { numOfSequences, serialSequences, sequenceIdRange: { start, end } }: InputOptions,
  { hasSequences }: OpenedModel,
  load: LoadSettings,
): PerfSettings['sequences'] {
  if (!hasSequences) return null
  const callers =
    load.mode === 'concurrency'
      ? Math.max(load.range.start, load.range.end)
      : load.mode === 'periodic-concurrency'
        ? load.steps.end
        : numOfSequences
  if (end - start + 1 < callers)
    throw invalidArgument(
      '--sequence-id-range',
      `at least ${callers} ids, one for each concurrent sequence`,
      `${start}:${end}`,
    )
  return { count: numOfSequences, serial: serialSequences }
}

/** Converts the options about requests. */
export function inputSettings(
  options: InputOptions,
  { hasSequences, config }: OpenedModel,
  seed: number,
): InputSettings {
  const { inputData, requestParameter, sequenceIdRange } = options
  const { controls = [], state = [] } = ('sequence' in config ? config.sequence : undefined) ?? {}
  return {
    batchSize: options.batchSize,
    stringLength: options.stringLength,
    stringData: options.stringData ?? null,
    uniqueInputs: options.uniqueInputs,
    seed,
    shapes: new Map(options.shape),
    inputData: inputData.length === 0 ? inputDefaults.inputData : inputData,
    options:
      requestParameter.length === 0 ? undefined : (Object.assign({}, ...requestParameter) as InferOptions),
    sequences: hasSequences
      ? {
          length: options.sequenceLength,
          variation: options.sequenceLengthVariation / 100,
          firstId: sequenceIdRange.start,
          lastId: sequenceIdRange.end,
        }
      : null,
    filledInputs: [...controls, ...state].map(({ input }) => input),
    optionalInputs: 'optionalInputs' in config ? config.optionalInputs : [],
  }
}

/** The first and the last id. */
function sequenceIds(text: string): { start: number; end: number } {
  const [start = NaN, end = start + 2 ** 32, ...more] = text.split(':').map(whole(1))
  if (more.length > 0 || end < start)
    throw new InvalidArgumentError('Expected start:end, with an optional end that is at least the start.')
  return { start, end }
}

/** The name of an input and its dims. */
export function shape(text: string): [string, number[]] {
  const at = text.lastIndexOf(':')
  if (at <= 0)
    throw new InvalidArgumentError('Expected the name of an input and its dims, such as IDS:1,128.')
  const dims = text.slice(at + 1)
  return [text.slice(0, at), dims === '' ? [] : dims.split(',').map(whole(1))]
}

/** Supported parameters: Triton's two, in its unit, and options of `infer()`. */
const parameters: Readonly<Record<string, (value: number) => InferOptions>> = {
  priority: (priority) => ({ priority }),
  timeout: (us) => ({ timeoutMs: us / 1000 }),
  timeoutMs: (timeoutMs) => ({ timeoutMs }),
  deadlineMs: (deadlineMs) => ({ deadlineMs }),
  maxRunMs: (maxRunMs) => ({ maxRunMs }),
}

function parameter(text: string): InferOptions {
  const [name = '', value = '', ...type] = text.split(':')
  if (value === '' || type.length > 1)
    throw new InvalidArgumentError('Expected name:value:type with an optional type, such as priority:1:int.')
  const read = Object.hasOwn(parameters, name) ? parameters[name] : undefined
  if (read === undefined)
    throw new InvalidArgumentError(
      `Expected one of ${Object.keys(parameters).join(', ')}: models take no other parameters.`,
    )
  return read(above(0, true)(value))
}

/** How many samples to generate by default. */
interface SampleBudget {
  readonly fewest: number
  readonly most: number
  /** Bytes of all samples together. */
  readonly bytes: number
}

/**
 * All samples in memory: those of the given files, or different samples of random data.
 *
 * @param option the option that asks for them; it excludes models with sequences.
 * @param given how many to generate. Default: `--unique-inputs`, if given, or as many as the budget allows.
 * @throws InferenceError `ERR_INVALID_ARG` for a model with sequences.
 */
export async function samplesInMemory(
  { opened, settings, target, options }: PerfContext,
  option: string,
  budget: SampleBudget,
  given?: number,
): Promise<{ readonly samples: Sample[]; readonly areRandom: boolean }> {
  if (opened.hasSequences) throw invalidArgument(option, 'a model without sequences', opened.model.name)
  const own = inputSettings(options, opened, settings.seed)
  const areRandom = own.inputData.every((data) => isMadeUp(data)) && !own.inputData.includes('zero')
  const uniqueInputs =
    given ?? (own.uniqueInputs > 1 ? own.uniqueInputs : countWithin(budget, target.source.next(0)))
  const source = areRandom
    ? await sampleSource(opened.model.metadata, { ...own, uniqueInputs })
    : target.source
  return { samples: Array.from({ length: source.size! }, () => source.next(0)), areRandom }
}

/** Approximate memory of a string. */
const bytesOfString = 64

function countWithin({ fewest, most, bytes }: SampleBudget, { feeds }: Sample): number {
  const each = Object.values(feeds).reduce((sum, feed) => sum + bytesOf(Object(feed).data), 0)
  return Math.min(most, Math.max(fewest, Math.floor(bytes / Math.max(1, each))))
}

function bytesOf(data: unknown): number {
  return ArrayBuffer.isView(data) ? data.byteLength : Array.isArray(data) ? bytesOfString * data.length : 0
}
