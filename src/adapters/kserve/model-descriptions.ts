import { libraryVersion } from '../../base/own-package.ts'
import type { EngineStatistics, VersionStatistics } from '../../engine/engine-resources.ts'
import type { Model } from '../../model.ts'
import type { LevelPolicy } from '../../options/batching.ts'
import type { InstanceGroup } from '../../options/instance-groups.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { isPipeline, type ResolvedPipeline } from '../../options/pipeline-config.ts'
import type { ResolvedControl, ResolvedSequence } from '../../options/sequence-config.ts'
import {
  batchAxisOf,
  type ModelMetadata,
  type ModelProperties,
  type ValueMetadata,
} from '../../tensor/metadata.ts'
import { datatypeOf } from './tensor-elements.ts'

/** A model's metadata, in the protocol's form. */
export function modelMetadata(model: Model, config: ResolvedConfig | ResolvedPipeline): object {
  const { name, inputs, outputs } = model.metadata
  const described = (values: readonly ValueMetadata[]) =>
    values.map((value) => ({
      name: value.name,
      datatype: datatypeOf(value.type),
      shape: dimsOf(value.shape),
    }))
  return {
    name,
    versions: model.versions.map(({ version }) => String(version)),
    platform: platformOf(config),
    inputs: described(inputs),
    outputs: described(outputs),
  }
}

/** Triton's platform name for a model. */
function platformOf(config: ResolvedConfig | ResolvedPipeline): string {
  return isPipeline(config) ? 'ensemble' : 'onnxruntime_onnx'
}

/** Dimensions; -1 where they are not fixed. */
function dimsOf(shape: ValueMetadata['shape']): number[] {
  return shape.map((dim) => (typeof dim === 'number' ? dim : -1))
}

/**
 * The effective configuration of a model, as Triton's `ModelConfig`, for JSON. Settings without a field there are left
 * out.
 */
export function modelConfigJson(
  { name, inputs, outputs, maxBatchSize, joining, properties }: ModelMetadata,
  config: ResolvedConfig | ResolvedPipeline,
): object {
  const row = (value: ValueMetadata) =>
    dimsOf(maxBatchSize > 0 ? value.shape.filter((_, axis) => axis !== batchAxisOf(value)) : value.shape)
  const described = (value: ValueMetadata) => ({
    name: value.name,
    data_type: dataType(value.type),
    dims: row(value),
  })
  const optional = isPipeline(config)
    ? config.inputs.flatMap((input) => (input.optional ? input.name : []))
    : config.optionalInputs
  return {
    name,
    platform: platformOf(config),
    backend: isPipeline(config) ? '' : 'onnxruntime',
    max_batch_size: maxBatchSize,
    input: inputs.map((value) => ({
      ...described(value),
      optional: optional.includes(value.name),
      allow_ragged_batch: value.ragged === true,
    })),
    output: outputs.map(described),
    ...(isPipeline(config)
      ? ensembleOf(config)
      : modelOf(config, maxBatchSize > 0 && (joining.rows === 'independent' || joining.rows === 'declared'))),
    parameters: parametersOf(properties, config.parameters),
    model_transaction_policy: { decoupled: false },
  }
}

/**
 * The `parameters` of a model: metadata of its file, and parameters of its configuration, which take
 * precedence. Custom entries of the file keep their names; its other properties begin with `onnx.`.
 */
function parametersOf(
  properties: ModelProperties | null,
  configured: Readonly<Record<string, string>>,
): object {
  const said = properties === null ? {} : {
    'onnx.producer_name': properties.producer.name, 'onnx.producer_version': properties.producer.version, 'onnx.domain': properties.domain,
    'onnx.model_version': properties.version === 0 ? '' : String(properties.version), 'onnx.description': properties.description,
    'onnx.graph_name': properties.graph.name, 'onnx.graph_description': properties.graph.description,
  } // prettier-ignore
  const own = Object.entries(said).filter(([, value]) => value !== '')
  const all = [...own, ...Object.entries(properties?.custom ?? {}), ...Object.entries(configured)]
  return Object.fromEntries(all.map(([key, value]) => [key, { string_value: value }]))
}

function ensembleOf({ steps }: ResolvedPipeline): object {
  const step = steps.map(({ model, version, inputs, outputs }) => ({
    model_name: model, model_version: version ?? -1, input_map: Object.fromEntries(inputs), output_map: Object.fromEntries(outputs),
  })) // prettier-ignore
  return { ensemble_scheduling: { step } }
}

function modelOf(config: ResolvedConfig, joins: boolean): object {
  const scheduling =
    config.sequence !== null
      ? { sequence_batching: sequenceOf(config.sequence, config) }
      : joins
        ? { dynamic_batching: dynamicOf(config) }
        : {}
  return {
    ...scheduling,
    instance_group: config.instanceGroup.map(groupOf),
    response_cache: { enable: config.responses !== null },
  }
}

function batchesOf({ preferredBatchSizes, maxQueueDelayMs, preserveOrdering }: ResolvedConfig): object {
  return {
    preferred_batch_size: preferredBatchSizes,
    max_queue_delay_microseconds: microseconds(maxQueueDelayMs),
    preserve_ordering: preserveOrdering,
  }
}

function dynamicOf(config: ResolvedConfig): object {
  const { priorityLevels, defaultPriorityLevel, defaultPolicy, policies } = config.levels
  return {
    ...batchesOf(config),
    priority_levels: priorityLevels,
    default_priority_level: defaultPriorityLevel,
    default_queue_policy: policyOf(defaultPolicy),
    priority_queue_policy: Object.fromEntries(
      [...policies].map(([level, policy]) => [level, policyOf(policy)]),
    ),
  }
}

function policyOf({
  timeoutAction,
  defaultTimeoutMs,
  allowTimeoutOverride,
  maxQueueSize,
}: LevelPolicy): object {
  return {
    timeout_action: timeoutAction,
    default_timeout_microseconds: microseconds(defaultTimeoutMs),
    allow_timeout_override: allowTimeoutOverride,
    max_queue_size: maxQueueSize,
  }
}

const controlKinds = {
  start: 'CONTROL_SEQUENCE_START',
  end: 'CONTROL_SEQUENCE_END',
  ready: 'CONTROL_SEQUENCE_READY',
  correlationId: 'CONTROL_SEQUENCE_CORRID',
} as const

function sequenceOf(
  { maxSequenceIdleMs, controls, state, direct, oldest }: ResolvedSequence,
  config: ResolvedConfig,
): object {
  const strategy =
    direct === undefined
      ? { oldest: { max_candidate_sequences: oldest?.maxCandidateSequences ?? 0, ...batchesOf(config) } }
      : {
          direct: {
            max_queue_delay_microseconds: microseconds(direct.maxQueueDelayMs),
            minimum_slot_utilization: direct.minimumSlotUtilization,
          },
        }
  return {
    max_sequence_idle_microseconds: microseconds(maxSequenceIdleMs),
    control_input: controls.map((control) => ({ name: control.input, control: [controlOf(control)] })),
    state: state.map(({ input, output, type, dims }) => ({
      input_name: input,
      output_name: output,
      data_type: type === undefined ? undefined : dataType(type),
      dims,
    })),
    ...strategy,
  }
}

/** Without a type the control has the model's type, and no values are given. */
function controlOf({ kind, type, values }: ResolvedControl): object {
  if (kind === 'correlationId')
    return { kind: controlKinds[kind], data_type: type === undefined ? undefined : dataType(type) }
  const field = { int32: 'int32_false_true', float32: 'fp32_false_true', bool: 'bool_false_true' }[
    type as string
  ]
  return {
    kind: controlKinds[kind],
    ...(field === undefined ? {} : { [field]: type === 'bool' ? values.map(Boolean) : values }),
  }
}

/** Kinds that Triton does not have are given as CPU. */
function groupOf({ kind, count, gpus }: Required<InstanceGroup>): object {
  const known: Readonly<Record<string, string>> = { auto: 'KIND_AUTO', cuda: 'KIND_GPU' }
  return { kind: known[kind] ?? 'KIND_CPU', count, gpus: kind === 'cuda' && gpus !== 'all' ? gpus : [] }
}

function dataType(type: string): string {
  return type === 'string' ? 'TYPE_STRING' : `TYPE_${datatypeOf(type)}`
}

function microseconds(ms: number): number {
  return Math.round(1000 * ms)
}

/** Statistics in the form of Triton's extension, of all models, of one name, or of one version. */
export function statisticsJson(
  { models }: Pick<EngineStatistics, 'models'>,
  name?: string,
  version?: number,
): object {
  const all = Object.entries(models).flatMap(([model, { versions }]) =>
    Object.entries(versions).map(([number, statistics]) => ({ model, number, statistics })),
  )
  const wanted = all.filter(
    ({ model, number, statistics }) =>
      (name === undefined || model === name) &&
      (version === undefined || Number(number) === version) &&
      statistics.state !== 'closed',
  )
  return {
    model_stats: wanted.map(({ model, number, statistics }) => ({
      name: model,
      version: number,
      ...modelStatistics(statistics),
    })),
  }
}

function modelStatistics({
  lastInferenceMs,
  inferenceCount,
  executionCount,
  inferenceStats,
  batchStats,
  arena,
}: VersionStatistics): object {
  const { success, fail, queue, computeInput, computeInfer, computeOutput, cacheHit, cacheMiss } =
    inferenceStats
  return {
    last_inference: Math.round(lastInferenceMs),
    inference_count: inferenceCount,
    execution_count: executionCount,
    inference_stats: {
      success, fail, queue, compute_input: computeInput, compute_infer: computeInfer, compute_output: computeOutput, cache_hit: cacheHit, cache_miss: cacheMiss,
    }, // prettier-ignore
    response_stats: {},
    batch_stats: batchStats.map((of) => ({
      batch_size: of.batchSize, compute_input: of.computeInput, compute_infer: of.computeInfer, compute_output: of.computeOutput,
    })), // prettier-ignore
    memory_usage: arena === null ? [] : [{ type: 'CPU', id: 0, byte_size: arena.totalBytes }],
  }
}

/** The supported extensions of Triton. */
const extensions = [
  'classification', 'sequence', 'sequence(string_id)', 'model_repository', 'schedule_policy', 'model_configuration', 'binary_tensor_data', 'parameters', 'statistics',
] // prettier-ignore

export function serverMetadata(name: string): object {
  return { name, version: libraryVersion, extensions }
}
