import * as v from 'valibot'
import { resolve } from 'node:path'
import { threadEntries, type WorkerOptions } from './engine-options.ts'
import type { FunctionDeclaration, FunctionInput, FunctionOutput, ModelFunction } from './function-module.ts'
import { scalingEntries, type InstanceGroup } from './instance-groups.ts'
import { resolveConfig, type ModelOptions, type ResolvedConfig } from './model-config.ts'
import { type WarmupSample } from './warmup-options.ts'
import { invalidConfig } from '../errors.ts'
import { filePath } from '../base/files.ts'
import { defaultMaxBatchSize, type RawValueMetadata } from '../tensor/metadata.ts'
import { declares, parseOptions, properties, texts, wholeNumber } from './options-schema.ts'
import { carriedType, checkNamesAndDims } from './tensor-config.ts'

/** Options that functions share with models, with the same meaning. The schema of models checks them. */
const sharedOptions = [
  'version', 'dynamicBatching', 'latencyTargetMs', 'maxRunMs', 'rejectNonFinite', 'splitOversized', 'responseCache', 'coalesce',
] as const // prettier-ignore
type SharedOptions = Pick<ModelOptions, (typeof sharedOptions)[number]>

/** A group of identical instances of a function; see {@link InstanceGroup}. */
export type FunctionInstanceGroup = Pick<
  InstanceGroup,
  'count' | 'minInstances' | 'maxInstances' | 'scaleUpAfterMs' | 'scaleDownAfterMs'
>

/** Options of a function's threads. Default of each: the engine's. */
export type FunctionWorkerOptions = Omit<WorkerOptions, 'niceIncrement'>

/** A function in a module, which runs on threads of its own. */
export interface FunctionOfModule {
  /**
   * The module file, as a path or a `file:` URL: `new URL('./tokenizer.js', import.meta.url)`,
   * `import.meta.resolve('...')`. Its default export is the {@link ModelFunction}. It may export `setup(context)`,
   * whose result is the `state` of its {@link FunctionContext}, and `teardown(context)`. TypeScript works where Node.js
   * strips types (22.18 and newer, or `workers: { execArgv: ['--experimental-strip-types'] }`).
   */
  readonly module: string | URL
  readonly run?: never
  readonly graph?: never
}

/**
 * A function that runs on the application's thread: for functions that take less than a dispatch to another thread,
 * some ten microseconds.
 */
export interface FunctionHere<I extends readonly FunctionInput[], O extends readonly FunctionOutput[]> {
  readonly module?: never
  readonly graph?: never
  /** The function. Nothing else runs while it runs. `maxRunMs` stops it only while it awaits something. */
  readonly run: ModelFunction<FunctionDeclaration<I, O>, undefined>
}

/** A function that ONNX Runtime runs: the built-in ones. */
export interface FunctionOfGraph {
  readonly module?: never
  readonly run?: never
  /** The bytes of an ONNX model with these inputs and outputs, whose first dimension counts rows. */
  readonly graph: Uint8Array
}

/** Configuration of a user's function that is served as a model. */
export type FunctionConfig<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
> = FunctionOptions<I, O> & (FunctionOfModule | FunctionHere<I, O> | FunctionOfGraph)

/** Options of a function, wherever it runs. */
export interface FunctionOptions<
  I extends readonly FunctionInput[] = readonly FunctionInput[],
  O extends readonly FunctionOutput[] = readonly FunctionOutput[],
>
  extends SharedOptions, FunctionDeclaration<I, O> {
  /**
   * Most rows per call. 0: each request is a call of its own, and `dims` describe the whole tensor. The engine assumes
   * that rows are independent. Default 32.
   */
  maxBatchSize?: number
  /** One instance group. Each instance is a thread with its own state. Default: one instance. */
  instanceGroup?: readonly [FunctionInstanceGroup]
  /** Most concurrent batches per instance; for functions that wait for something. Default 1. */
  concurrency?: number
  /**
   * The value of `context.parameters`, as Triton's `parameters`: anything that can be posted to a thread. Default `{}`.
   */
  parameters?: Readonly<Record<string, unknown>>
  /**
   * Whether requests are retried when the thread ended during their batch: once, each in a run of its own. Only a
   * request whose own run ends the thread again rejects (`ERR_INSTANCE_CRASHED`). Set `false` for a function with side
   * effects. Default `true`.
   */
  rerunAfterCrash?: boolean
  /** Samples that each instance runs before it takes batches. If one fails, the load fails. Default: none. */
  warmup?: readonly WarmupSample[]
  /** Settings of its threads. Default of each: the engine's `workers`. */
  workers?: FunctionWorkerOptions
}

/** A higher number would only queue calls inside the function. */
const maxConcurrency = 1024

const dim = v.union([
  v.pipe(v.number(), v.integer('a whole number')),
  v.pipe(v.string(), v.minLength(1, 'a name')),
])
const entries = {
  name: v.pipe(v.string(), v.minLength(1, 'a name')),
  type: carriedType,
  dims: v.optional(v.array(dim), []),
}
/** A URL that is not a file. A Windows drive has one letter. */
const otherScheme = /^(?!file:)[a-z][a-z\d+.-]+:/i
const sharedEntries = Object.fromEntries(
  sharedOptions.map((name) => [name, v.optional(v.unknown())]),
) as Record<keyof SharedOptions, v.OptionalSchema<v.UnknownSchema, undefined>>

const schema = declares<
  FunctionOptions & { readonly module?: unknown; readonly run?: ModelFunction; readonly graph?: unknown }
>()({
  module: v.optional(v.unknown()),
  run: v.optional({
    ...v.custom<ModelFunction>((given) => typeof given === 'function'),
    expects: 'a function',
  }),
  inputs: v.pipe(
    v.array(declares<FunctionInput>()({ ...entries, optional: v.optional(v.boolean(), false) })),
    v.minLength(1, 'at least one input'),
  ),
  outputs: v.pipe(
    v.array(declares<FunctionOutput>()({ ...entries, labels: v.optional(texts) })),
    v.minLength(1, 'at least one output'),
  ),
  graph: v.optional(v.unknown()),
  maxBatchSize: v.optional(wholeNumber(0), defaultMaxBatchSize),
  instanceGroup: v.optional(
    v.pipe(v.array(declares<FunctionInstanceGroup>()(scalingEntries)), v.length(1, 'one group')),
    [{}],
  ),
  concurrency: v.optional(wholeNumber(1, maxConcurrency), 1),
  parameters: v.optional(properties, {}),
  workers: v.optional(declares<FunctionWorkerOptions>()(threadEntries), {}),
  rerunAfterCrash: v.optional(v.boolean(), true),
  warmup: v.optional(v.array(v.custom<WarmupSample>(() => true)), []),
  ...sharedEntries,
})

/**
 * Turns a caller's function configuration into a model configuration: checked, complete and frozen.
 *
 * @param workers options of the engine, as defaults of the function's own.
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function resolveFunctionConfig(
  model: string,
  config: unknown,
  workers: WorkerOptions,
): ResolvedConfig {
  const {
    module,
    run,
    graph,
    inputs,
    outputs,
    maxBatchSize,
    instanceGroup,
    concurrency,
    parameters,
    workers: ownWorkers,
    warmup,
    ...shared
  } = parseOptions(schema, config, 'config', model)
  const given = {
    ...shared,
    maxBatchSize,
    checkRows: false,
    instanceGroup: instanceGroup.map((group) => ({ kind: 'cpu', ...group })),
  }
  if (graph !== undefined) {
    const resolved = resolveConfig(model, {
      ...given,
      bytes: graph,
      ...(warmup.length > 0 && { warmup }), // without samples it is warmed up like any model
      sessionOptions: { intraOpNumThreads: 1 }, // a run of a few microseconds is not split over threads
    })
    return Object.freeze({ ...resolved, isSmallGraph: true })
  }
  const path = moduleFile(model, module, run)
  const dimsInWords = 'dims of at least 1, names, or -1 for one that each row has its own'
  checkNamesAndDims(model, 'inputs', inputs, dimsInWords)
  checkNamesAndDims(model, 'outputs', outputs, dimsInWords)
  checkPosted(model, parameters)
  const labelled = outputs.some(({ labels }) => labels !== undefined)
  const resolved = resolveConfig(model, {
    ...given,
    path: path === '' ? import.meta.url : path, // without a module any path will do
    warmup,
    optionalInputs: inputs.filter(({ optional }) => optional).map(({ name }) => name),
    ...(labelled && { outputs: outputs.map(({ name, labels }) => ({ name, ...(labels && { labels }) })) }),
  })
  const batched = maxBatchSize > 0
  return Object.freeze({
    ...resolved,
    path: path === '' ? '' : resolve(path),
    function: {
      inputs: inputs.map((input) => metadataOf(input, batched)),
      outputs: outputs.map((output) => metadataOf(output, batched)),
      batched, model, parameters, concurrency, run: run ?? null,
      workers: { ...workers, ...ownWorkers } as FunctionWorkerOptions,
    },
  }) // prettier-ignore
}

/** The path of the module; '' for none. */
function moduleFile(model: string, module: unknown, run: ModelFunction | undefined): string {
  if (run !== undefined) {
    if (module === undefined) return ''
    throw invalidConfig(model, 'run', 'to be omitted beside module: a function comes from one of them', run)
  }
  const path = typeof module === 'string' && otherScheme.test(module) ? null : filePath(module)
  if (path === null)
    throw invalidConfig(
      model,
      'module',
      `the path or file: URL of a module${module === undefined ? ', or run: a function' : ''}`,
      module instanceof URL ? module.href : module,
    )
  return path
}

function metadataOf(
  { name, type, dims }: Pick<FunctionInput, 'name' | 'type'> & Required<Pick<FunctionInput, 'dims'>>,
  batched: boolean,
): RawValueMetadata {
  const shape = dims.map((each) => (each === -1 ? '' : each))
  if (!batched) return { name, type, shape }
  return { name, type, shape: ['rows', ...shape], ...(dims.includes(-1) && { ragged: true }) }
}

function checkPosted(model: string, parameters: unknown): void {
  try {
    structuredClone(parameters)
  } catch (error) {
    throw invalidConfig(
      model,
      'parameters',
      'values that can be posted to a thread',
      (error as Error).message,
    )
  }
}
