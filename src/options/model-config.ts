import * as v from 'valibot'
import type { InferenceSession } from 'onnxruntime-common'
import { resolve } from 'node:path'
import { isAnyArrayBuffer, isUint8Array } from 'node:util/types'
import {
  autoTuneSchema,
  checkCounts,
  checkGroups,
  maxInstances,
  resolveAutoTune,
  resolveCounts,
  scalingEntries,
  type AutoTuneOptions,
  type InstanceGroup,
  type ResolvedAutoTune,
} from './instance-groups.ts'
import {
  checkScheduling,
  costLimits,
  resolveCost,
  resolveLevels,
  schedulingSchema,
  type BatchLimits,
  type DynamicBatchingConfig,
  type LevelOptions,
  type ResolvedCost,
} from './batching.ts'
import type { Feeds } from './model-signature.ts'
import {
  batchingOfSequences,
  checkSequence,
  sequenceSchema,
  slotSizes,
  type ResolvedSequence,
  type SequenceConfig,
} from './sequence-config.ts'
import {
  checkTensors,
  inputSchema,
  outputSchema,
  type InputConfig,
  type OutputConfig,
} from './tensor-config.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { defaultMaxBatchSize, type RawValueMetadata } from '../tensor/metadata.ts'
import {
  declares,
  parseOptions,
  optionsOf,
  parametersSchema,
  properties,
  wholeNumber,
  durationMs,
} from './options-schema.ts'
import {
  checkMemory,
  checkOptionsForBytes,
  checkSessionOptions,
  flattenExtra,
  memorySchema,
  type CheckedSessionOptions,
  type ResolvedMemory,
  type SessionConfigEntries,
} from './session-options.ts'
import { ownProperties, typed } from './plain-options.ts'
import { readVersion } from './method-options.ts'
import { filePath } from '../base/files.ts'
import type { FunctionWorkerOptions } from './function-config.ts'
import type { ModelFunction } from './function-module.ts'

/** What opens a function on its thread. */
export interface FunctionSource {
  readonly inputs: readonly RawValueMetadata[]
  readonly outputs: readonly RawValueMetadata[]
  /** Whether the first dimensions count rows. */
  readonly batched: boolean
  readonly model: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly concurrency: number
  readonly workers: FunctionWorkerOptions
  /** What the application's thread runs itself; `null` for a module on threads of its own. */
  readonly run: ModelFunction | null
}

/** Where a model comes from: a file, bytes, or a function's module. */
export interface ModelSource {
  /** Absolute; '' for bytes. */
  readonly path: string
  /** A copy of what the caller gave, in memory that all threads share; `null` for a file. */
  readonly bytes: SharedArrayBuffer | null
  /** For a function, whose module is the file, if it has one; else `null`. */
  readonly function: FunctionSource | null
  /** Whether it needs not be tried, nor compiled, before it is opened: a graph of some operators. */
  readonly isSmallGraph?: boolean
}

/**
 * Checks where a model is to come from, and copies its bytes if it comes from those.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` unless exactly one of `path` and `bytes` is given, and right.
 */
export function resolveSource(
  model: string,
  { path, bytes }: { path?: unknown; bytes?: unknown },
): ModelSource {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
  if (bytes === undefined) {
    if (path === undefined) throw wrong('path', 'to be given, or bytes', path)
    const file = filePath(path)
    if (file === null) throw wrong('path', 'a path or a file: URL', path instanceof URL ? path.href : path)
    return { path: resolve(file), bytes: null, function: null }
  }
  if (path !== undefined)
    throw wrong('bytes', 'to be left out beside path: a model comes from one of them', bytes)
  if (!isUint8Array(bytes) && !isAnyArrayBuffer(bytes))
    throw wrong('bytes', 'a Uint8Array or an ArrayBuffer', bytes)
  if (bytes.byteLength === 0) throw wrong('bytes', 'at least one byte (a detached buffer has none)', bytes)
  const copy = new SharedArrayBuffer(bytes.byteLength)
  new Uint8Array(copy).set(isUint8Array(bytes) ? bytes : new Uint8Array(bytes))
  return { path: '', bytes: copy, function: null }
}

/** How requests of a model that are equal share what they get. */
export interface ResolvedResponses {
  /** Most bytes of answers that are kept; 0 for none. */
  readonly maxBytes: number
  /** Whether requests that are equal share a run while it is in flight. */
  readonly coalesce: boolean
}

const defaultMaxBytes = 64 * 2 ** 20

export const responseCacheSchema = v.optional(
  v.union([
    v.boolean(),
    optionsOf({
      maxBytes: v.optional(v.pipe(v.number(), v.safeInteger('a whole number'), v.minValue(1))),
      coalesce: v.optional(v.boolean()),
    }),
  ]),
  false,
)

/**
 * What is said of a model's responses; `null` where each request is answered by a run of its own.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when one thing is said twice, and differently.
 */
export function resolveResponses(
  model: string,
  responseCache: v.InferOutput<typeof responseCacheSchema>,
  coalesce: boolean | undefined,
): ResolvedResponses | null {
  const cache = responseCache === true ? {} : responseCache === false ? null : responseCache
  const own = cache?.coalesce
  if (coalesce !== undefined && own !== undefined && own !== coalesce) {
    throw invalidArgument('responseCache.coalesce', `${coalesce}, as coalesce beside it`, own, {
      code: 'ERR_MODEL_CONFIG',
      model,
    })
  }
  const shares = coalesce ?? own ?? cache !== null
  if (cache === null && !shares) return null
  return { maxBytes: cache === null ? 0 : (cache.maxBytes ?? defaultMaxBytes), coalesce: shares }
}

/** How instances are warmed. */
export interface ResolvedWarmup {
  /** Samples that the user gave. */
  readonly samples: readonly WarmupSample[]
  /** What runs of our own are given; `null` for none. `'harmless'`: zeros where they can do no harm. */
  readonly madeUp: 'harmless' | 'zeros' | 'random' | null
  /** Rows of each run; `null`: one of what is made up, and samples as they are. */
  readonly batchSizes: readonly number[] | 'all' | null
  /** How often each made-up run is made. */
  readonly count: number
}

const count = wholeNumber(1)
const samples = v.array(optionsOf({ feeds: properties, count: v.optional(count, 1) }))

/** Schema of `warmup`. */
export const warmupSchema = v.optional(
  v.union([
    v.boolean(),
    samples,
    optionsOf({
      data: v.optional(v.union([v.picklist(['zeros', 'random']), samples]), 'zeros'),
      batchSizes: v.optional(v.union([v.literal('all'), v.pipe(v.array(count), v.minLength(1))])),
      count: v.optional(count, 2),
    }),
  ]),
  true,
)

/** `warmup` with all defaults in place. */
export function resolveWarmup(given: v.InferOutput<typeof warmupSchema>): ResolvedWarmup {
  const none: ResolvedWarmup = { samples: [], madeUp: null, batchSizes: null, count: 1 }
  if (typeof given === 'boolean') return given ? { ...none, madeUp: 'harmless' } : none
  if (Array.isArray(given)) return { ...none, samples: given as WarmupSample[] }
  const { data, batchSizes = null, count } = given
  const sizes = Array.isArray(batchSizes) ? [...new Set(batchSizes)].sort((a, b) => a - b) : batchSizes
  if (typeof data === 'string') return { samples: [], madeUp: data, batchSizes: sizes, count }
  return { samples: data as WarmupSample[], madeUp: null, batchSizes: sizes, count }
}

/**
 * How rows of different lengths share a run: they are filled up to a common length along one dimension, and outputs are
 * cut back to the request's own. The model must give the same for the real part whatever it was filled up with, which
 * usually takes an attention mask among the padded inputs.
 */
export interface PaddingConfig {
  /** The input to pad: of numbers that have bytes of their own, which those of `int4` and `uint4` have not. */
  input: string
  /** The dimension to pad: an index into the input's dims, batch dimension included. */
  dim: number
  /**
   * Lengths to fill up to: each request goes to the bucket of the smallest that holds it, and one longer than all runs
   * with its own length. `'longest'`: all lengths share batches, filled up to the longest in each. Default `'longest'`.
   */
  sizes?: readonly number[] | 'longest'
  /** What to fill with: a number that the input's type has, or rounds to another than 0 or infinity. Default 0. */
  value?: number
  /**
   * Outputs that have the padded length, and their dimension that has it; each in one entry, once. One that turns out to
   * have another length fails the run (`ERR_EXECUTION`). Default: none.
   */
  outputs?: readonly { name: string; dim: number }[]
}

/** An execution provider with options by the names that it has for them itself. */
export interface ProviderOptions {
  /** As ONNX Runtime or its plugin calls it: `cpu`, `cuda`, `openvino`. */
  readonly name: string
  /** Whether the model may not be loaded without it. Default `false`: the next that is listed takes its place. */
  readonly required?: boolean
  readonly [option: string]: unknown
}

/**
 * Memory that ONNX Runtime takes from the system for the intermediate values of runs on the CPU. Its arena keeps what it has
 * once taken, so that the next run need not ask for it: the largest run leaves that much until the model is unloaded.
 */
export interface MemoryOptions {
  /** `false`: none is kept, each run takes and gives back its own. Instead of `sessionOptions.enableCpuMemArena`. Default `true`. */
  arena?: boolean
  /**
   * When the arena gives back what is not in use, but for a first piece of a mebibyte: after each `'run'`, or once the
   * model has been `'idle'` for two seconds. Native executor only. Default: never.
   */
  shrink?: 'run' | 'idle'
  /**
   * Most that the arena keeps after a run beside what is in use (the weights), in bytes: one that keeps more gives that back,
   * but for a first piece of a mebibyte. A run may take more. Native executor only. Default: no limit.
   */
  limitBytes?: number
}

/** ONNX Runtime's options of a session; {@link ModelOptions.executionProviders} are apart. */
export interface SessionOptions extends InferenceSession.SessionOptions {
  /** As `freeDimensionOverrides`, which are by name, by what dimensions denote (`DATA_BATCH`). For the native executor. */
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
}

/** Options of every run of a model. */
export interface RunOptions {
  /** ONNX Runtime's run config entries, in groups or by their full names; every value is text. */
  readonly extra?: Readonly<Record<string, unknown>>
}

/** What is kept of a model's answers. */
export interface ResponseCacheOptions {
  /** Most bytes of answers, with what JavaScript takes to hold them; those that were not asked for longest go first. Default 64 MiB. */
  maxBytes?: number
  /** As {@link ModelOptions.coalesce}. Default `true`. */
  coalesce?: boolean
}

/** A request sent to each instance before the model is ready. */
export interface WarmupSample {
  feeds: Feeds
  /** How often. Default 1. */
  count?: number
}

/** What each instance runs before the model is ready. */
export interface WarmupOptions {
  /**
   * What runs are given. Made up are zeros or random values (integers from 1 to 7, as few models take others) for each size
   * of `padding`, with lengths that the model takes; what fails of that is left out. Zeros go into integers, too: not for a
   * model that divides by one, which ends the process. Samples have to run, or the load fails. Default `'zeros'`.
   */
  data?: 'zeros' | 'random' | readonly WarmupSample[]
  /**
   * Rows of the runs: each of these sizes, or `'all'` that are told apart (1, 2, 4, 8 ... up to the largest, and the preferred
   * ones). Of a sample its first row is repeated. What needs more than 128 MiB of inputs is left out, and so is more than a
   * batch may have. Default: one row, and samples as they are.
   */
  batchSizes?: readonly number[] | 'all'
  /**
   * How often each run on made-up data is made. Default 2: the first of a shape finds out what memory it takes, and the second is the
   * first to take it in one piece.
   */
  count?: number
}

/** A model in a file. */
interface ModelFile {
  /** The `.onnx` (or `.ort`) file: a path, or a `file:` URL (as text, too). External data files are looked for beside it. */
  path: string | URL
  bytes?: undefined
}

/** A model in memory. */
interface ModelBytes {
  path?: undefined
  /**
   * The contents of such a file. They are copied once by `load()`, and may be changed or dropped afterwards; the copy is
   * shared by all instances, and kept until the model is released, to open it again should a worker die. While a session
   * is opened its worker holds another. External data is given beside it (`sessionOptions.externalData`).
   */
  bytes: Uint8Array | ArrayBuffer
}

/** What may be said of a model, wherever it comes from. */
export interface ModelOptions {
  /**
   * Which version of the name this is: a whole number from 1 to 2^53 - 1, as a number or as the text of a folder's name. A
   * version that is loaded already is replaced; another one stands beside it. Default 1.
   */
  version?: number | string
  /**
   * Most rows in one run. 0: every request is its own run, as it is. Left out: 32 where the graph proves that no row changes
   * another, or, where it leaves that open, runs show it; else 0. Requests of more rows then run alone as they are. Given: rows are believed to be independent, and what shows otherwise warns once. See `metadata.joining`.
   */
  maxBatchSize?: number
  /** Most rows in one run where `maxBatchSize` is left out and rows are found to be independent. Default 32. */
  defaultMaxBatchSize?: number
  /** Inputs as requests give them; all of the model's, but for those that `sequence` fills. Default: as the model has them. */
  inputs?: readonly InputConfig[]
  /** Outputs as requests get them; others of the model's are left out. Default: all, as the model has them. */
  outputs?: readonly OutputConfig[]
  /**
   * What clients are told of the model over KServe (`/config`) beside what its file says of itself, by name: names of classes, say. Changes
   * nothing else. In a repository those of its `config.pbtxt`. Default: none.
   */
  parameters?: Readonly<Record<string, string>>
  /** For a model whose requests belong to sequences (`infer(feeds, { sequenceId })`). Default: none. */
  sequence?: SequenceConfig
  /**
   * Whether runs on made-up rows, and on copies of the first requests, find out if rows depend on each other where the graph leaves
   * that open; see `metadata.joining`. `false`: without `maxBatchSize` only what the graph proves is joined; with it the graph is not
   * asked either, and nothing is warned about. Default `true`.
   */
  checkRows?: boolean
  /** `false`: requests are never joined, though one request may still hold several rows. Default: `{}`. */
  dynamicBatching?: DynamicBatchingConfig | false
  /** Default: one instance of kind `'auto'`. */
  instanceGroup?: readonly InstanceGroup[]
  /**
   * Passed to ONNX Runtime, after this library's defaults: `interOpNumThreads: 1`, threads that spin for 20 us (`'session.intra_op.spin_duration_us'`) before they sleep, and `logSeverityLevel: 4`,
   * as errors come as exceptions. Entries of `extra` may be given in groups or by their full names
   * (`{ 'session.intra_op.allow_spinning': '1' }`). `externalData` are the contents of files that `bytes` refer to.
   */
  sessionOptions?: SessionOptions
  /** ONNX Runtime's config entries of each run (`{ extra: { 'memory.enable_memory_arena_shrinkage': 'cpu:0' } }`); for the native executor. */
  runOptions?: RunOptions
  /**
   * Execution providers in order of preference; overrides what `instanceGroup` implies. One that is not there, or finds no device,
   * is left out with a warning (`ZEROHOP_PROVIDER_FALLBACK`); `metadata.executionProviders` says which are used, and why others are
   * not. Without `'cpu'` one of those listed has to be there, else the load fails (`ERR_MODEL_LOAD`); ONNX Runtime still runs on the
   * CPU what they cannot, unless `session.disable_cpu_ep_fallback` is `'1'` in `sessionOptions.extra`, and then `'cpu'` is nothing
   * to fall back to. A wrong option of a provider that is there fails the load.
   *
   * A provider plugin is named as in `EngineOptions.providers`; beside options of its own it takes `device` (`'cpu'`, `'gpu'`,
   * `'npu'`; default: its first), `deviceId` (the how-manieth of those) and `precision`.
   */
  executionProviders?: readonly (InferenceSession.ExecutionProviderConfig | ProviderOptions)[]
  /** Whether every execution provider that is asked for, in that list or by a kind of instances, has to be there. Default `false`. */
  required?: boolean
  /**
   * `true`: one run on zeros per session and size of `padding`, where all inputs are floating point with known row shapes (not
   * where `checkRows` has run it); `false`: none; samples to run on each instance, whose rows take part in that check, and of
   * which one that fails makes the load fail; or {@link WarmupOptions}. Instances are warmed at the same time, before they
   * take a batch, and none of it is in the statistics. Default `true`.
   */
  warmup?: boolean | readonly WarmupSample[] | WarmupOptions
  /** What is kept of the memory that runs on the CPU take. */
  memory?: MemoryOptions
  /**
   * Latency in milliseconds that 99 of 100 requests should keep: batch size and closing time are chosen by the times of
   * recent runs (measured first during the load) to serve as many rows per second as possible within it, and requests
   * that cannot be answered in time are refused at once with `ERR_DEADLINE`. Default: none.
   */
  latencyTargetMs?: number
  /**
   * Longest time of a run, in milliseconds; a run that takes longer is stopped. Was it of one request, that rejects with
   * `ERR_TIMEOUT`; else its requests are run again in halves, until those are found that take too long by themselves. More
   * than the largest batch takes. A run that does not stop is left to itself after a second: another thread takes the place
   * of its worker. Runs of the check at load and of warming up are stopped as well. Default: none.
   */
  maxRunMs?: number
  /**
   * Inputs that a request may leave out. The graph must be able to do without: it asks with `OptionalHasElement`, or no
   * node reads them; where one does, ONNX Runtime fails the run (`ERR_EXECUTION`). Requests batch together only when they
   * give the same inputs.
   *
   * An initializer that is an input as well has a value of its own: it is an input of requests only where this or `inputs` names it, and
   * only on the native executor. Named here, a request that leaves it out gets the model's own value. Default: none.
   */
  optionalInputs?: readonly string[]
  /** Share of a worker's time relative to other models on it when all have work, 1e-6 to 1e6. Default 1. */
  weight?: number
  /** Lets requests of different lengths share a run; several entries for several inputs. Default: none. */
  padding?: PaddingConfig | readonly PaddingConfig[]
  /**
   * Whether requests may be run again whose run a worker died over: once, and each by itself. Only for models whose runs
   * leave no trace. Default `false`: they reject with `ERR_INSTANCE_CRASHED`.
   */
  rerunAfterCrash?: boolean
  /**
   * Guards against NaN and infinity, in floats of every width (also `bfloat16` and those of 8 bits, NaN alone where a type
   * has no infinity), in sequences and in maps: `'inputs'` refuses a request that has any (`ERR_INVALID_ARG`), `'outputs'` rejects
   * the request whose own rows have any (`ERR_EXECUTION`). Costs a look at every element. Default: neither.
   */
  rejectNonFinite?: 'inputs' | 'outputs'
  /**
   * Whether a request of more than `maxBatchSize` rows is run in several batches and joined again, which is one request to
   * its caller, to the order of answers and to the statistics. Default `false`: it is refused where `maxBatchSize` was given,
   * else it runs alone as it is. One of more than 10 000 parts, or of more than 100 when its rows have no element, is refused;
   * one with an output that has not one entry per row fails (`ERR_EXECUTION`).
   */
  splitOversized?: boolean
  /**
   * Keeps answers, and gives a copy to whoever asks the same again: requests with the same bytes in inputs of the same names, types
   * and dims, for the same outputs. For models whose answers follow from their inputs alone: with a random operator in the graph
   * one draw would be everybody's. Every request is hashed, and its data is read by the call itself; see {@link Model.infer}. Errors
   * are not kept, and nothing outlives the model that was loaded. Not beside `sequence`. Default `false`.
   */
  responseCache?: boolean | ResponseCacheOptions
  /**
   * Whether a request that comes while an equal one waits or runs shares its run, as one row among the others: each caller gets a
   * copy of its own, and an abort, a timeout or a deadline is its caller's alone. Default: `true` with a `responseCache`, else `false`.
   */
  coalesce?: boolean
  /**
   * Whether the model finds out while it serves what gives most rows a second: larger batches, or more instances with fewer threads each.
   * Whenever there is as much to do as it can do, it tries some settings for half a second each, and keeps the best if that is better
   * by 3 %; it looks again when the load has become another one, after a minute at the earliest and ever more rarely. What came of
   * that is in `stats().autoTune`. Not beside `latencyTargetMs`, `sequence`, several groups of instances or groups that scale. Default `false`.
   */
  autoTune?: boolean | AutoTuneOptions
}

/** Configuration of one model. Exactly one of `path` and `bytes` says where it comes from. */
export type ModelConfig = ModelOptions & (ModelFile | ModelBytes)

/** A configuration with every default in place; nothing reads the raw one after it. */
export interface ResolvedConfig extends ModelSource {
  /** `undefined` where none was given. */
  readonly version: number | undefined
  /** `undefined`: to be found from the model. */
  readonly maxBatchSize: number | undefined
  readonly defaultMaxBatchSize: number
  /** `undefined`: as the model has them. */
  readonly inputs: readonly InputConfig[] | undefined
  readonly outputs: readonly OutputConfig[] | undefined
  readonly sequence: ResolvedSequence | null
  readonly checkRows: boolean
  readonly joinRequests: boolean
  /** Ascending. */
  readonly preferredBatchSizes: readonly number[]
  readonly maxQueueDelayMs: number
  /** `null` where nothing is said of what requests cost. */
  readonly cost: ResolvedCost | null
  readonly preserveOrdering: boolean
  readonly levels: LevelOptions
  readonly holdUntilQueued: number
  readonly instanceGroup: readonly Required<InstanceGroup>[]
  readonly sessionOptions: CheckedSessionOptions
  readonly memory: ResolvedMemory
  readonly runEntries: SessionConfigEntries
  readonly executionProviders: readonly InferenceSession.ExecutionProviderConfig[] | undefined
  /** Whether all execution providers that are asked for have to be there. */
  readonly required: boolean
  readonly warmup: ResolvedWarmup
  /** 0 for none. */
  readonly latencyTargetMs: number
  /** 0 for none. */
  readonly maxRunMs: number
  readonly weight: number
  readonly optionalInputs: readonly string[]
  readonly parameters: Readonly<Record<string, string>>
  readonly padding: readonly Required<PaddingConfig>[]
  readonly rerunAfterCrash: boolean
  readonly rejectNonFinite: 'inputs' | 'outputs' | undefined
  readonly splitOversized: boolean
  /** `null`: each request is answered by a run of its own. */
  readonly responses: ResolvedResponses | null
  readonly autoTune: ResolvedAutoTune | null
}

const paddingSchema = declares<PaddingConfig>()(
  optionsOf({
    input: v.pipe(v.string(), v.minLength(1)),
    dim: wholeNumber(0),
    sizes: v.optional(
      v.union([v.literal('longest'), v.pipe(v.array(wholeNumber(1)), v.minLength(1))]),
      'longest',
    ),
    value: v.optional(v.number(), 0),
    outputs: v.optional(v.array(optionsOf({ name: v.string(), dim: wholeNumber(0) })), []),
  }),
)

/** An execution provider by its name, or with options of its own, which ONNX Runtime checks. */
const providerSchema = v.union([
  v.string(),
  v.pipe(
    properties,
    v.looseObject(ownProperties({ name: v.string(), required: v.optional(v.boolean()) })),
    v.transform(ownProperties),
  ),
]) as v.GenericSchema<
  InferenceSession.ExecutionProviderConfig | ProviderOptions,
  InferenceSession.ExecutionProviderConfig
>

const schema = declares<ModelOptions & { readonly path?: unknown; readonly bytes?: unknown }>()(
  optionsOf({
    path: v.optional(v.unknown()),
    bytes: v.optional(v.unknown()),
    version: v.optional(v.unknown()),
    maxBatchSize: v.optional(wholeNumber(0)),
    defaultMaxBatchSize: v.optional(wholeNumber(1), defaultMaxBatchSize),
    inputs: v.optional(v.array(inputSchema)),
    outputs: v.optional(v.pipe(v.array(outputSchema), v.minLength(1, 'at least one output'))),
    parameters: v.optional(parametersSchema, {}),
    sequence: v.optional(sequenceSchema),
    checkRows: v.optional(v.boolean(), true),
    dynamicBatching: v.optional(v.union([v.literal(false), schedulingSchema]), {}),
    instanceGroup: v.optional(
      v.pipe(
        v.array(
          declares<InstanceGroup>()(
            optionsOf({
              kind: v.optional(v.string(), 'auto'),
              ...scalingEntries,
              cpuCount: v.optional(v.pipe(wholeNumber(1), v.maxValue(maxInstances))),
              gpus: v.optional(v.union([v.literal('all'), v.pipe(v.array(wholeNumber(0)), v.minLength(1))])),
            }),
          ),
        ),
        v.minLength(1),
      ),
      [{}],
    ),
    sessionOptions: v.optional(properties, {}),
    memory: memorySchema,
    runOptions: v.optional(optionsOf({ extra: v.optional(properties, {}) })),
    executionProviders: v.optional(
      v.pipe(v.array(providerSchema), v.minLength(1, 'at least one execution provider')),
    ),
    required: v.optional(v.boolean(), false),
    warmup: warmupSchema,
    latencyTargetMs: v.optional(durationMs),
    maxRunMs: v.optional(durationMs),
    optionalInputs: v.optional(v.array(v.string()), []),
    weight: v.optional(v.pipe(v.number(), v.minValue(1e-6), v.maxValue(1e6)), 1),
    padding: v.optional(v.union([paddingSchema, v.array(paddingSchema)]), []),
    rerunAfterCrash: v.optional(v.boolean(), false),
    rejectNonFinite: v.optional(v.picklist(['inputs', 'outputs'])),
    splitOversized: v.optional(v.boolean(), false),
    responseCache: responseCacheSchema,
    coalesce: v.optional(v.boolean()),
    autoTune: autoTuneSchema,
  }),
)

/**
 * Turns what the caller gave into a checked, complete, frozen configuration.
 *
 * @param plugins names of provider plugins, which are kinds of instances as well.
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function resolveConfig(
  model: string,
  config: unknown,
  plugins: readonly string[] = [],
): ResolvedConfig {
  const raw = parseOptions(schema, config, 'config', model)
  const sequence = raw.sequence as ResolvedSequence | undefined
  const batching = raw.dynamicBatching === false ? null : batchingOfSequences(raw.dynamicBatching, sequence)
  const settled: Omit<ResolvedConfig, 'autoTune'> = {
    ...resolveSource(model, raw),
    version:
      raw.version === undefined
        ? undefined
        : readVersion(raw.version, 'version', { code: 'ERR_MODEL_CONFIG', model }),
    maxBatchSize: raw.maxBatchSize,
    defaultMaxBatchSize: raw.defaultMaxBatchSize,
    inputs: raw.inputs as readonly InputConfig[] | undefined,
    outputs: raw.outputs as readonly OutputConfig[] | undefined,
    sequence: sequence ?? null,
    checkRows: raw.checkRows,
    joinRequests: batching !== null,
    preferredBatchSizes: ascending([batching?.preferredBatchSize ?? []].flat()),
    maxQueueDelayMs: batching?.maxQueueDelayMs ?? 0,
    cost: resolveCost(model, batching, sequence !== undefined),
    preserveOrdering: batching?.preserveOrdering ?? false,
    levels: resolveLevels(batching),
    holdUntilQueued: batching?.holdUntilQueued ?? 0,
    instanceGroup: raw.instanceGroup.map((group) => {
      const counts = resolveCounts(group)
      return { ...group, ...counts, cpuCount: group.cpuCount ?? counts.count, gpus: group.gpus ?? [0] }
    }),
    sessionOptions: checkSessionOptions(model, raw.sessionOptions),
    memory: { ...raw.memory, limitBytes: raw.memory.limitBytes ?? Infinity },
    runEntries: runEntries(model, raw.runOptions?.extra),
    executionProviders: raw.executionProviders,
    required: raw.required,
    warmup: resolveWarmup(raw.warmup),
    latencyTargetMs: raw.latencyTargetMs ?? 0,
    maxRunMs: raw.maxRunMs ?? 0,
    weight: raw.weight,
    optionalInputs: raw.optionalInputs,
    parameters: raw.parameters,
    padding: [raw.padding].flat().map(({ sizes, ...padding }) => ({
      ...padding,
      sizes: sizes === 'longest' ? sizes : ascending(sizes),
    })),
    rerunAfterCrash: raw.rerunAfterCrash || (sequence?.state.length ?? 0) > 0, // from the state before it
    rejectNonFinite: raw.rejectNonFinite,
    splitOversized: raw.splitOversized,
    responses: resolveResponses(model, raw.responseCache, raw.coalesce),
  }
  const resolved: ResolvedConfig = { ...settled, autoTune: resolveAutoTune(model, raw.autoTune, settled) }
  checkScheduling(model, batching)
  checkMemory(model, resolved.memory, resolved.sessionOptions.enableCpuMemArena)
  checkCounts(model, raw.instanceGroup)
  checkGroups(
    model,
    raw.instanceGroup.map((group) => ({ ...group, count: resolveCounts(group).maxInstances })),
    plugins,
  )
  const batched = raw.maxBatchSize === undefined ? undefined : raw.maxBatchSize > 0
  checkTensors(model, 'inputs', raw.inputs ?? [], batched)
  checkTensors(model, 'outputs', raw.outputs ?? [], batched)
  if (sequence !== undefined)
    checkSequence(model, sequence, raw.dynamicBatching === false ? null : raw.dynamicBatching)
  if (sequence !== undefined && resolved.responses !== null)
    throw sharedSequence(model, raw.coalesce === true ? 'coalesce' : 'responseCache')
  if (resolved.bytes !== null) checkOptionsForBytes(model, resolved.sessionOptions)
  if (resolved.maxBatchSize !== undefined) checkBatchSizes(model, resolved, resolved.maxBatchSize)
  return Object.freeze(resolved)
}

/** The same request means another thing at another place in its sequence; Triton refuses it as well. */
function sharedSequence(model: string, option: string): InferenceError {
  return invalidArgument(option, 'to be left out for a model with sequences', true, {
    code: 'ERR_MODEL_CONFIG',
    model,
    hint: 'Remove it, or sequence',
  })
}

function runEntries(model: string, extra: unknown = {}): SessionConfigEntries {
  try {
    return flattenExtra(model, extra, 'runOptions.extra')
  } catch (error) {
    throw typed('runOptions.extra', error, { model })
  }
}

/** What limits the batches of a model whose largest batch has `maxBatchSize` rows, 0 for a model whose requests are never joined. */
export function batchLimits(
  { preferredBatchSizes, maxQueueDelayMs, joinRequests, sequence, cost, padding }: ResolvedConfig,
  maxBatchSize: number,
): BatchLimits {
  return {
    maxBatchSize: Math.max(1, maxBatchSize),
    preferredBatchSizes:
      maxBatchSize === 0
        ? []
        : sequence?.direct === undefined
          ? preferredBatchSizes
          : slotSizes(sequence, maxBatchSize),
    maxQueueDelayMs,
    joinRequests: joinRequests && maxBatchSize > 0,
    ...costLimits(
      cost,
      padding.some(({ sizes }) => sizes === 'longest'),
    ),
  }
}

/** The batching options against the batch size they must fit; called again once that is known from the model. */
export function checkBatchSizes(model: string, config: ResolvedConfig, maxBatchSize: number): void {
  // A model that cannot be batched is served as it is, whether its shapes or its rows are the reason.
  if (config.maxBatchSize === undefined && maxBatchSize === 0) return
  const largest = config.preferredBatchSizes.at(-1)
  if (largest !== undefined && largest > maxBatchSize) {
    const hint = config.maxBatchSize === undefined ? { hint: 'Give maxBatchSize for larger batches' } : {}
    const details = { code: 'ERR_MODEL_CONFIG' as const, model, ...hint }
    throw invalidArgument(
      'dynamicBatching.preferredBatchSize',
      `sizes of at most maxBatchSize (${maxBatchSize})`,
      largest,
      details,
    )
  }
  const mostWarmed = Array.isArray(config.warmup.batchSizes) ? config.warmup.batchSizes.at(-1) : 1
  if (config.maxBatchSize !== undefined && mostWarmed > Math.max(1, maxBatchSize)) {
    throw invalidArgument(
      'warmup.batchSizes',
      `sizes of at most maxBatchSize (${maxBatchSize})`,
      mostWarmed,
      { code: 'ERR_MODEL_CONFIG', model },
    )
  }
  if (maxBatchSize === 0 && config.maxQueueDelayMs > 0) {
    throw invalidArgument(
      'dynamicBatching.maxQueueDelayMs',
      '0 where maxBatchSize is 0',
      config.maxQueueDelayMs,
      {
        code: 'ERR_MODEL_CONFIG',
        model,
        hint: 'Waiting cannot make its batches larger',
      },
    )
  }
}

function ascending(sizes: readonly number[]): number[] {
  return [...new Set(sizes)].sort((a, b) => a - b)
}

/** An output of a model in a repository. */
export interface RepositoryOutputConfig extends OutputConfig {
  /** A file in the model's folder with the name of a class in each line, instead of `labels`. */
  labelFilename?: string
}

/**
 * The configuration of a model in a repository, as `config.ts`, `config.js` or `config.json` in its folder have it instead of
 * a `config.pbtxt`: the options of `engine.load()`, and what Triton's configuration has beside them.
 */
export interface RepositoryModelConfig extends Omit<ModelOptions, 'outputs' | 'version'> {
  /** The name of its folder. */
  name?: string
  /** Its outputs, with label files in its folder. Default: the model's, without labels. */
  outputs?: readonly RepositoryOutputConfig[]
  /** Which of its version folders are served: so many of the newest, all, or those named. Default `{ latest: 1 }`. */
  versionPolicy?: { latest: number } | 'all' | { specific: readonly (number | string)[] }
  /** Name of the model's file in its version folder. Default `'model.onnx'`. */
  defaultModelFilename?: string
}

/** The configuration as it is, with its type checked: for `export default defineModelConfig({ ... })` in a `config.ts`. */
export function defineModelConfig(config: RepositoryModelConfig): RepositoryModelConfig {
  return config
}
