import type { InferenceSession } from 'onnxruntime-common'
import * as v from 'valibot'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { defaultMaxBatchSize } from '../tensor/metadata.ts'
import { checkConfig } from './check-config.ts'
import { checkGroups } from './check-instance-groups.ts'
import {
  checkOptionsForBytes,
  checkSessionOptions,
  type CheckedSessionOptions,
} from './check-session-options.ts'
import { checkMemory, memorySchema, type ResolvedMemory } from './memory-options.ts'
import { optionsOf, parametersSchema, properties } from './options-schema.ts'
import { ownProperties, typed } from './plain-options.ts'
import { autoTuneSchema, resolveAutoTune, type ResolvedAutoTune } from './auto-tune-options.ts'
import { costLimits, resolveCost, type ResolvedCost } from './batch-cost.ts'
import type { BatchLimits, LevelOptions } from './batching.ts'
import { checkScheduling, resolveLevels, schedulingSchema } from './batching-schema.ts'
import type { InstanceGroup } from './instance-group.ts'
import type { PaddingConfig } from './model-config.ts'
import { flattenExtra, type SessionConfigEntries } from './session-config-entries.ts'
import { resolveSource, type ModelSource } from './model-source.ts'
import { resolveResponses, responseCacheSchema, type ResolvedResponses } from './response-options.ts'
import { checkCounts, maxInstances, resolveCounts, scalingEntries } from './scaling-options.ts'
import {
  batchingOfSequences,
  checkSequence,
  sequenceSchema,
  slotSizes,
  type ResolvedSequence,
} from './sequence-config.ts'
import {
  checkTensors,
  inputSchema,
  outputSchema,
  type InputConfig,
  type OutputConfig,
} from './tensor-config.ts'
import { readVersion } from './version-options.ts'
import { resolveWarmup, warmupSchema, type ResolvedWarmup } from './warmup-options.ts'
import { wholeNumber } from './whole-number.ts'

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

const durationMs = v.pipe(
  v.number(),
  v.check((ms) => ms > 0 && ms < 2 ** 31, 'milliseconds, more than 0 and less than 2^31'),
)
const paddingSchema = optionsOf({
  input: v.pipe(v.string(), v.minLength(1)),
  dim: wholeNumber(0),
  sizes: v.optional(
    v.union([v.literal('longest'), v.pipe(v.array(wholeNumber(1)), v.minLength(1))]),
    'longest',
  ),
  value: v.optional(v.number(), 0),
  outputs: v.optional(v.array(optionsOf({ name: v.string(), dim: wholeNumber(0) })), []),
})

/** An execution provider with options of its own, which ONNX Runtime checks. */
const providerSchema = v.pipe(
  properties,
  v.looseObject(ownProperties({ name: v.string(), required: v.optional(v.boolean()) })),
  v.transform(ownProperties),
)

const schema = optionsOf({
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
        optionsOf({
          kind: v.optional(v.string(), 'auto'),
          ...scalingEntries,
          cpuCount: v.optional(v.pipe(wholeNumber(1), v.maxValue(maxInstances))),
          gpus: v.optional(v.union([v.literal('all'), v.pipe(v.array(wholeNumber(0)), v.minLength(1))])),
        }),
      ),
      v.minLength(1),
    ),
    [{}],
  ),
  sessionOptions: v.optional(properties, {}),
  memory: memorySchema,
  runOptions: v.optional(optionsOf({ extra: v.optional(properties, {}) })),
  executionProviders: v.optional(
    v.pipe(v.array(v.union([v.string(), providerSchema])), v.minLength(1, 'at least one execution provider')),
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
  const raw = checkConfig(schema, model, config)
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
    executionProviders: raw.executionProviders as InferenceSession.ExecutionProviderConfig[] | undefined,
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
