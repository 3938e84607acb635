import * as v from 'valibot'
import type { InferenceSession } from 'onnxruntime-common'
import {
  autoTuneSchema,
  checkGroups,
  groupSchema,
  resolveAutoTune,
  resolveCounts,
  type AutoTuneOptions,
  type InstanceGroup,
} from './instance-groups.ts'
import {
  checkScheduling,
  resolveCost,
  resolveLevels,
  schedulingSchema,
  type BatchLimits,
  type DynamicBatchingConfig,
} from './batching.ts'
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
import {
  ascending,
  checkRules,
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
  type MemoryOptions,
  type RunOptions,
  type SessionOptions,
} from './session-options.ts'
import { ownProperties } from './plain-options.ts'
import { readVersion } from './method-options.ts'
import { resolveSource, type ModelBytes, type ModelFile } from './model-source.ts'
import { resolveWarmup, warmupSchema, type WarmupOptions, type WarmupSample } from './warmup-options.ts'

const defaultMaxBytes = 64 * 2 ** 20

const responseCacheSchema = v.optional(
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
 * The options for shared answers; `null` where every request has a run of its own.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for two options that contradict each other.
 */
function resolveResponses(
  model: string,
  responseCache: v.InferOutput<typeof responseCacheSchema>,
  coalesce: boolean | undefined,
) {
  const cache = responseCache === true ? {} : responseCache === false ? null : responseCache
  const own = cache?.coalesce
  const differs = coalesce !== undefined && own !== undefined && own !== coalesce
  checkRules(model, [[differs, 'responseCache.coalesce', `${coalesce}, as coalesce beside it`, own]])
  const shares = coalesce ?? own ?? cache !== null
  if (cache === null && !shares) return null
  return {
    /** Most bytes of cached answers; 0 for no cache. */
    maxBytes: cache === null ? 0 : (cache.maxBytes ?? defaultMaxBytes),
    /** Whether equal requests share a run in flight. */
    coalesce: shares,
  }
}

/**
 * How rows of different lengths share a run: they are padded to a common length along one dimension, and outputs are
 * cut back to the length of each request. The model must give the same result for the real part whatever the padding,
 * which usually takes an attention mask among the padded inputs.
 */
export interface PaddingConfig {
  /** The input to pad. Its type must have elements of whole bytes, so not `int4` or `uint4`. */
  input: string
  /** The dimension to pad: an index into the input's dims, batch dimension included. */
  dim: number
  /**
   * Lengths to pad to. A request goes to the bucket of the smallest length that fits; a longer one runs at its own
   * length. `'longest'`: requests of all lengths share batches, padded to the longest request. Default `'longest'`.
   */
  sizes?: readonly number[] | 'longest'
  /**
   * The fill value. The input's type must hold it, exactly or rounded to a value other than 0 or infinity. Default 0.
   */
  value?: number
  /**
   * Outputs that have the padded length, and the dimension that has it; list each output once. An output of a different
   * length fails the run (`ERR_EXECUTION`). Default: none.
   */
  outputs?: readonly { name: string; dim: number }[]
}

/** An execution provider, with options under the provider's own names. */
export interface ProviderOptions {
  /** The name in ONNX Runtime or its plugin: `cpu`, `cuda`, `openvino`. */
  readonly name: string
  /** Whether the load fails without it. Default `false`: the next provider in the list is used. */
  readonly required?: boolean
  readonly [option: string]: unknown
}

/** Options of the response cache. */
export interface ResponseCacheOptions {
  /**
   * Most bytes of answers, including the JavaScript overhead. The least recently used are evicted first. Default 64
   * MiB.
   */
  maxBytes?: number
  /** As {@link ModelOptions.coalesce}. Default `true`. */
  coalesce?: boolean
}

/** Options of a model from a file or from memory. */
export interface ModelOptions {
  /**
   * The version: a whole number from 1 to 2^53 - 1, as a number or as the text of a folder name. It replaces the same
   * version if that is loaded, and is served next to other versions. Default 1.
   */
  version?: number | string
  /**
   * Most rows in one run.
   *
   * - 0: every request is a run of its own, unchanged.
   * - Left out: `defaultMaxBatchSize` if the graph proves, or, where it cannot decide, test runs show that rows are independent; else 0.
   *   Larger requests then run alone, unchanged.
   * - Given: the engine assumes that rows are independent, and warns once if it finds otherwise.
   *
   * See `metadata.joining`. Default: by the graph.
   */
  maxBatchSize?: number
  /**
   * Most rows in one run, if `maxBatchSize` is left out and rows are found to be independent; fewer if so many would
   * take more than 256 MiB. Default 32; up to 256 in runs of at most `inline.maxUs` microseconds, if rows are proved
   * independent.
   */
  defaultMaxBatchSize?: number
  /**
   * Inputs as requests give them. Must list all inputs of the model except those that `sequence` fills. Default: the
   * model's.
   */
  inputs?: readonly InputConfig[]
  /** Outputs as requests get them. Outputs that are not listed are left out. Default: all outputs of the model. */
  outputs?: readonly OutputConfig[]
  /**
   * String parameters of the model. KServe clients see them in `/config`, together with the metadata in the model's
   * file. For example, names of classes. They change nothing else. In a repository they are those of `config.pbtxt`.
   * Default: none.
   */
  parameters?: Readonly<Record<string, string>>
  /**
   * Sequence options, for a model whose requests belong to sequences (`infer(feeds, { sequenceId })`). Default: none.
   */
  sequence?: SequenceConfig
  /**
   * Whether test runs decide if rows depend on each other where the graph cannot tell; they use generated rows and
   * copies of the first requests. See `metadata.joining`. `false`: without `maxBatchSize`, requests are batched only if
   * the graph proves that rows are independent; with it, the graph is not checked either, and there is no warning.
   * Default `true`.
   */
  checkRows?: boolean
  /** Batching options. `false`: requests never share a run, though one request may have several rows. Default: `{}`. */
  dynamicBatching?: DynamicBatchingConfig | false
  /** Instance groups. Default: one instance of kind `'auto'`. */
  instanceGroup?: readonly InstanceGroup[]
  /**
   * ONNX Runtime's session options. They override this library's defaults: `interOpNumThreads: 1`, threads that spin
   * for 20 us (`'session.intra_op.spin_duration_us'`) before they sleep, and `logSeverityLevel: 4`, since errors arrive
   * as exceptions. Entries of `extra` may be nested or under their full names (`{ 'session.intra_op.allow_spinning':
   * '1' }`). `externalData` is `[{ path, data }]`: the contents of files that `bytes` refer to. Default `{}`.
   */
  sessionOptions?: SessionOptions
  /**
   * ONNX Runtime's config entries of each run (`{ extra: { 'memory.enable_memory_arena_shrinkage': 'cpu:0' } }`).
   * Native executor only. Default `{}`.
   */
  runOptions?: RunOptions
  /**
   * Execution providers in order of preference. Default: what `instanceGroup` implies.
   *
   * A provider that is missing, or finds no device, is left out with a warning (`ZEROHOP_PROVIDER_FALLBACK`);
   * `metadata.executionProviders` lists the providers in use, and why others are not. A wrong option of an available
   * provider fails the load.
   *
   * Without `'cpu'` in the list, at least one listed provider must be available, or the load fails (`ERR_MODEL_LOAD`).
   * ONNX Runtime still runs unsupported nodes on the CPU, unless `session.disable_cpu_ep_fallback` is `'1'` in
   * `sessionOptions.extra`; `'cpu'` is then not a fallback either.
   *
   * A provider plugin has the name it has in `EngineOptions.providers`. Besides its own options it takes `device`
   * (`'cpu'`, `'gpu'`, `'npu'`; default: its first), `deviceId` (an index among devices of that kind) and `precision`.
   */
  executionProviders?: readonly (InferenceSession.ExecutionProviderConfig | ProviderOptions)[]
  /**
   * Whether every execution provider in that list, or implied by an instance kind, must be available. Default `false`.
   */
  required?: boolean
  /**
   * Warm-up runs of each instance.
   *
   * - `true`: one run on zeros per session and size of `padding`, if all inputs are floating point with known row
   *   shapes (and `checkRows` has not run it).
   * - `false`: none.
   * - Samples: run on each instance. Their rows take part in the check of rows, and the load fails if one of them
   *   fails.
   * - {@link WarmupOptions}.
   *
   * Instances warm up concurrently, before they take a batch, and statistics exclude it. Default `true`.
   */
  warmup?: boolean | readonly WarmupSample[] | WarmupOptions
  /** How the memory of CPU runs is kept or freed. Default `{}`. */
  memory?: MemoryOptions
  /**
   * Target latency in milliseconds for 99 of 100 requests. Batch size and closing time are chosen from the times of
   * recent runs (first measured at load) for the highest throughput within the target. Requests that cannot be answered
   * in time are refused at once with `ERR_DEADLINE`. Default: none.
   */
  latencyTargetMs?: number
  /**
   * Milliseconds a run may take; a longer run is stopped. A single request then rejects with `ERR_TIMEOUT`. The
   * requests of a batch run again in halves, until those that take too long by themselves are found. Set it to more
   * than the largest batch takes. A run that does not stop within a second is detached, and another thread replaces its
   * worker. Also applies to the check at load and to warm-up runs. Default: none.
   */
  maxRunMs?: number
  /**
   * Inputs that a request may leave out. The graph must support it: it tests with `OptionalHasElement`, or no node
   * reads them; if one does, ONNX Runtime fails the run (`ERR_EXECUTION`). Only requests with the same inputs share a
   * batch.
   *
   * An initializer that is also an input has a value of its own. Requests can give it only if it is listed here or in
   * `inputs`, and only on the native executor. If it is listed here and a request leaves it out, the model's own value
   * is used. Default: none.
   */
  optionalInputs?: readonly string[]
  /** Share of a worker's time relative to other models on it when all have work, 1e-6 to 1e6. Default 1. */
  weight?: number
  /** Lets requests of different lengths share a run; one entry per input. Default: none. */
  padding?: PaddingConfig | readonly PaddingConfig[]
  /**
   * Whether requests are retried when a worker died during their run: once, each in a run of its own. Only for models
   * without side effects. Default `false`: they reject with `ERR_INSTANCE_CRASHED`.
   */
  rerunAfterCrash?: boolean
  /**
   * Checks for NaN and infinity in floats of every width (also `bfloat16` and 8-bit types; only NaN where a type has no
   * infinity), also in sequences and maps. `'inputs'` refuses a request that has any (`ERR_INVALID_ARG`); `'outputs'`
   * rejects the request whose own rows have any (`ERR_EXECUTION`). Reads every element. Default: neither.
   */
  rejectNonFinite?: 'inputs' | 'outputs'
  /**
   * Whether a request over `maxBatchSize` rows is split into several batches and its answers joined. It stays one
   * request for its caller, for the order of answers and for statistics. Default `false`: it is refused if
   * `maxBatchSize` was given, else it runs alone, unchanged.
   *
   * A request is refused if it has more than 10 000 parts, or more than 100 when its rows have no elements. It fails
   * (`ERR_EXECUTION`) if an output does not have one entry per row.
   */
  splitOversized?: boolean
  /**
   * Caches answers. An equal request gets a copy: the same bytes in inputs of the same names, types and dims, and the
   * same outputs. Only for models whose answers depend on nothing but their inputs: a graph with a random operator
   * would give every caller the same draw. Every request is hashed, and its data is read during the call; see {@link
   * Model.infer}. Errors are not cached, and the cache ends with the loaded model. Not with `sequence`. Default
   * `false`.
   */
  responseCache?: boolean | ResponseCacheOptions
  /**
   * Whether a request shares the run of an equal request that is queued or running, as one row of the batch. Each
   * caller gets its own copy, and an abort, a timeout or a deadline affects only its own caller. Default: `true` with a
   * `responseCache`, else `false`.
   */
  coalesce?: boolean
  /**
   * Whether the model searches for the settings with the highest throughput while it serves: larger batches, or more
   * instances with fewer threads each. When it is saturated it tries some settings for half a second each, and keeps
   * the best if that is 3 % faster. It searches again when the load has changed, after a minute at the earliest and
   * less and less often. `stats().autoTune` has the results. Not with `latencyTargetMs`, `sequence`, several instance
   * groups or groups that autoscale. Default `false`.
   */
  autoTune?: boolean | AutoTuneOptions
}

/** Configuration of one model, from exactly one of `path` and `bytes`. */
export type ModelConfig = ModelOptions & (ModelFile | ModelBytes)

/** A configuration with all defaults in place. No other code reads the raw one. */
export type ResolvedConfig = ReturnType<typeof resolveConfig>

const paddingSchema = declares<PaddingConfig>()({
  input: v.pipe(v.string(), v.minLength(1)),
  dim: wholeNumber(0),
  sizes: v.optional(
    v.union([v.literal('longest'), v.pipe(v.array(wholeNumber(1)), v.minLength(1))]),
    'longest',
  ),
  value: v.optional(v.number(), 0),
  outputs: v.optional(v.array(optionsOf({ name: v.string(), dim: wholeNumber(0) })), []),
})

/** An execution provider by name, or with its own options, which ONNX Runtime checks. */
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

const schema = declares<ModelOptions & { readonly path?: unknown; readonly bytes?: unknown }>()({
  path: v.optional(v.unknown()),
  bytes: v.optional(v.unknown()),
  version: v.optional(v.unknown()),
  maxBatchSize: v.optional(wholeNumber(0)),
  defaultMaxBatchSize: v.optional(wholeNumber(1)),
  inputs: v.optional(v.array(inputSchema)),
  outputs: v.optional(v.pipe(v.array(outputSchema), v.minLength(1, 'at least one output'))),
  parameters: v.optional(parametersSchema, {}),
  sequence: v.optional(sequenceSchema),
  checkRows: v.optional(v.boolean(), true),
  dynamicBatching: v.optional(v.union([v.literal(false), schedulingSchema]), {}),
  instanceGroup: v.optional(v.pipe(v.array(groupSchema), v.minLength(1)), [{}]),
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
})

/**
 * Turns the caller's configuration into a checked, complete and frozen one. Options that the schema leaves as they are to
 * be used need no line here.
 *
 * @param plugins names of provider plugins, which are also instance kinds.
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function resolveConfig(model: string, config: unknown, plugins: readonly string[] = []) {
  const raw = parseOptions(schema, config, 'config', model, "a plain object, as { path: 'model.onnx' }")
  const {
    path,
    bytes,
    version,
    dynamicBatching,
    sequence: givenSequence,
    responseCache,
    coalesce,
    runOptions,
    autoTune,
    ...plain
  } = raw
  const sequence = (givenSequence as ResolvedSequence | undefined) ?? null
  const batching = dynamicBatching === false ? null : batchingOfSequences(dynamicBatching, sequence)
  const settled = {
    ...resolveSource(model, { path, bytes }),
    ...plain,
    // Properties of their own, though undefined: Object.prototype may have such names.
    maxBatchSize: raw.maxBatchSize,
    executionProviders: raw.executionProviders,
    rejectNonFinite: raw.rejectNonFinite,
    /** `undefined` where none was given. */
    version:
      version === undefined
        ? undefined
        : readVersion(version, 'version', { code: 'ERR_MODEL_CONFIG', model }),
    /** `undefined`: as the model has them. */
    inputs: raw.inputs as readonly InputConfig[] | undefined,
    outputs: raw.outputs as readonly OutputConfig[] | undefined,
    sequence,
    joinRequests: batching !== null,
    /** Ascending. */
    preferredBatchSizes: ascending([batching?.preferredBatchSize ?? []].flat()),
    maxQueueDelayMs: batching?.maxQueueDelayMs ?? 0,
    /** `null` without `cost`. */
    cost: resolveCost(model, batching, sequence !== null),
    preserveOrdering: batching?.preserveOrdering ?? false,
    levels: resolveLevels(batching),
    holdUntilQueued: batching?.holdUntilQueued ?? 0,
    instanceGroup: raw.instanceGroup.map((group) => {
      const counts = resolveCounts(group)
      return { ...group, ...counts, cpuCount: group.cpuCount ?? counts.count, gpus: group.gpus ?? [0] }
    }),
    sessionOptions: checkSessionOptions(model, raw.sessionOptions),
    memory: { ...raw.memory, limitBytes: raw.memory.limitBytes ?? Infinity },
    runEntries: flattenExtra(model, runOptions?.extra ?? {}, 'runOptions.extra'),
    warmup: resolveWarmup(raw.warmup),
    /** 0 for none. */
    latencyTargetMs: raw.latencyTargetMs ?? 0,
    /** 0 for none. */
    maxRunMs: raw.maxRunMs ?? 0,
    padding: [raw.padding].flat().map(({ sizes, ...padding }) => ({
      ...padding,
      sizes: sizes === 'longest' ? sizes : ascending(sizes),
    })),
    rerunAfterCrash: raw.rerunAfterCrash || (sequence?.state.length ?? 0) > 0, // it starts again from the state before it
    /** `null`: each request has a run of its own. */
    responses: resolveResponses(model, responseCache, coalesce),
  }
  const resolved = { ...settled, autoTune: resolveAutoTune(model, autoTune, settled) }
  checkScheduling(model, batching)
  checkMemory(model, resolved.memory, resolved.sessionOptions.enableCpuMemArena)
  checkGroups(model, raw.instanceGroup, plugins)
  const batched = raw.maxBatchSize === undefined ? undefined : raw.maxBatchSize > 0
  checkTensors(model, 'inputs', raw.inputs ?? [], batched)
  checkTensors(model, 'outputs', raw.outputs ?? [], batched)
  if (sequence !== null) checkSequence(model, sequence, dynamicBatching === false ? null : dynamicBatching)
  // In a sequence, the answer to a request depends on its place; Triton refuses this as well.
  const sharesInSequence = sequence !== null && resolved.responses !== null
  const sharing = coalesce === true ? 'coalesce' : 'responseCache'
  checkRules(model, [
    [sharesInSequence, sharing, 'to be omitted for a model with sequences', true, 'Remove it, or sequence'],
  ])
  if (resolved.bytes !== null) checkOptionsForBytes(model, resolved.sessionOptions)
  if (resolved.maxBatchSize !== undefined) checkBatchSizes(model, resolved, resolved.maxBatchSize)
  return Object.freeze(resolved)
}

/** The batch limits of a model whose largest batch has `maxBatchSize` rows; 0 for a model without batching. */
export function batchLimits(
  { preferredBatchSizes, maxQueueDelayMs, joinRequests, sequence, cost, padding }: ResolvedConfig,
  maxBatchSize: number,
): BatchLimits {
  const isPadded = padding.some(({ sizes }) => sizes === 'longest')
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
    ...(cost !== null && {
      cost: { maxBatchCost: cost.maxBatchCost, maxPaddingShare: cost.maxPaddingShare, isPadded },
    }),
  }
}

/** Checks the batching options against the batch size; called again once the model has determined it. */
export function checkBatchSizes(model: string, config: ResolvedConfig, maxBatchSize: number): void {
  // A model that cannot be batched, because of its shapes or its rows, is served without batching.
  if (config.maxBatchSize === undefined && maxBatchSize === 0) return
  const { maxQueueDelayMs, warmup } = config
  const isGiven = config.maxBatchSize !== undefined
  const largest = config.preferredBatchSizes.at(-1) ?? 0
  const mostWarmed = Array.isArray(warmup.batchSizes) ? warmup.batchSizes.at(-1) : 1
  const sizes = `sizes of at most maxBatchSize (${maxBatchSize})`
  checkRules(model, [
    [largest > maxBatchSize, 'dynamicBatching.preferredBatchSize', sizes, largest, isGiven ? undefined : 'Give maxBatchSize for larger batches'],
    [isGiven && mostWarmed > Math.max(1, maxBatchSize), 'warmup.batchSizes', sizes, mostWarmed],
    [maxBatchSize === 0 && maxQueueDelayMs > 0, 'dynamicBatching.maxQueueDelayMs', '0 where maxBatchSize is 0', maxQueueDelayMs, 'Waiting cannot make its batches larger'],
  ]) // prettier-ignore
}

/** An output of a model in a repository. */
export interface RepositoryOutputConfig extends OutputConfig {
  /** A file in the model's folder with one class name per line, instead of `labels`. Default: none. */
  labelFilename?: string
}

/**
 * The configuration of a model in a repository, from a `config.ts`, `config.js` or `config.json` in its folder, instead
 * of a `config.pbtxt`: the options of `engine.load()`, and fields that only Triton's configuration has.
 */
export interface RepositoryModelConfig extends Omit<ModelOptions, 'outputs' | 'version'> {
  /** The name of its folder. Default: that name. */
  name?: string
  /** Its outputs, with label files in its folder. Default: the model's, without labels. */
  outputs?: readonly RepositoryOutputConfig[]
  /** The version folders to serve: the newest ones, all, or specific ones. Default `{ latest: 1 }`. */
  versionPolicy?: { latest: number } | 'all' | { specific: readonly (number | string)[] }
  /** File name of the model in its version folder. Default `'model.onnx'`. */
  defaultModelFilename?: string
}

/**
 * Returns the configuration unchanged, with its type checked: for `export default defineModelConfig({ ... })` in a
 * `config.ts`.
 */
export function defineModelConfig(config: RepositoryModelConfig): RepositoryModelConfig {
  return config
}
