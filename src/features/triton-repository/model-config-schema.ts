import { configError, type ConfigSource, shown, type TextField, type TextValue } from './text-format.ts'
import { nearestName } from '../../base/nearest-name.ts'

/**
 * The schema of Triton's `ModelConfig`: each message with its fields and types, as in `model_config.proto`.
 *
 * A type is a scalar, an enumeration or a message. `repeated` precedes the type of a field that may be given
 * several times, `map` precedes the types of keys and values. {@link oneofs} lists fields that exclude each
 * other.
 */
export const messages = {
  ModelConfig: {
    name: 'string',
    platform: 'string',
    backend: 'string',
    runtime: 'string',
    version_policy: 'ModelVersionPolicy',
    max_batch_size: 'int32',
    input: 'repeated ModelInput',
    output: 'repeated ModelOutput',
    batch_input: 'repeated BatchInput',
    batch_output: 'repeated BatchOutput',
    optimization: 'ModelOptimizationPolicy',
    dynamic_batching: 'ModelDynamicBatching',
    sequence_batching: 'ModelSequenceBatching',
    ensemble_scheduling: 'ModelEnsembling',
    instance_group: 'repeated ModelInstanceGroup',
    default_model_filename: 'string',
    cc_model_filenames: 'map string string',
    metric_tags: 'map string string',
    parameters: 'map string ModelParameter',
    model_warmup: 'repeated ModelWarmup',
    model_operations: 'ModelOperations',
    model_transaction_policy: 'ModelTransactionPolicy',
    model_repository_agents: 'ModelRepositoryAgents',
    response_cache: 'ModelResponseCache',
    model_metrics: 'ModelMetrics',
  },
  ModelInput: {
    name: 'string',
    data_type: 'DataType',
    format: 'Format',
    dims: 'repeated int64',
    reshape: 'ModelTensorReshape',
    is_shape_tensor: 'bool',
    allow_ragged_batch: 'bool',
    optional: 'bool',
    is_non_linear_format_io: 'bool',
  },
  ModelOutput: {
    name: 'string',
    data_type: 'DataType',
    dims: 'repeated int64',
    reshape: 'ModelTensorReshape',
    label_filename: 'string',
    is_shape_tensor: 'bool',
    is_non_linear_format_io: 'bool',
  },
  ModelTensorReshape: { shape: 'repeated int64' },
  BatchInput: {
    kind: 'BatchInputKind',
    target_name: 'repeated string',
    data_type: 'DataType',
    source_input: 'repeated string',
  },
  BatchOutput: { target_name: 'repeated string', kind: 'BatchOutputKind', source_input: 'repeated string' },
  ModelVersionPolicy: { latest: 'Latest', all: 'All', specific: 'Specific' },
  Latest: { num_versions: 'uint32' },
  All: {},
  Specific: { versions: 'repeated int64' },
  ModelInstanceGroup: {
    name: 'string',
    kind: 'InstanceKind',
    count: 'int32',
    rate_limiter: 'ModelRateLimiter',
    gpus: 'repeated int32',
    secondary_devices: 'repeated SecondaryDevice',
    profile: 'repeated string',
    passive: 'bool',
    host_policy: 'string',
  },
  ModelRateLimiter: { resources: 'repeated Resource', priority: 'uint32' },
  Resource: { name: 'string', global: 'bool', count: 'uint32' },
  SecondaryDevice: { kind: 'SecondaryDeviceKind', device_id: 'int64' },
  ModelOptimizationPolicy: {
    graph: 'Graph',
    priority: 'ModelPriority',
    cuda: 'Cuda',
    execution_accelerators: 'ExecutionAccelerators',
    input_pinned_memory: 'PinnedMemoryBuffer',
    output_pinned_memory: 'PinnedMemoryBuffer',
    gather_kernel_buffer_threshold: 'uint32',
    eager_batching: 'bool',
  },
  Graph: { level: 'int32' },
  Cuda: {
    graphs: 'bool',
    busy_wait_events: 'bool',
    graph_spec: 'repeated GraphSpec',
    output_copy_stream: 'bool',
  },
  GraphSpec: { batch_size: 'int32', input: 'map string Shape', graph_lower_bound: 'LowerBound' },
  LowerBound: { batch_size: 'int32', input: 'map string Shape' },
  Shape: { dim: 'repeated int64' },
  ExecutionAccelerators: {
    gpu_execution_accelerator: 'repeated Accelerator',
    cpu_execution_accelerator: 'repeated Accelerator',
  },
  Accelerator: { name: 'string', parameters: 'map string string' },
  PinnedMemoryBuffer: { enable: 'bool' },
  ModelDynamicBatching: {
    preferred_batch_size: 'repeated int32',
    max_queue_delay_microseconds: 'uint64',
    preserve_ordering: 'bool',
    priority_levels: 'uint64',
    default_priority_level: 'uint64',
    default_queue_policy: 'ModelQueuePolicy',
    priority_queue_policy: 'map uint64 ModelQueuePolicy',
  },
  ModelQueuePolicy: {
    timeout_action: 'TimeoutAction',
    default_timeout_microseconds: 'uint64',
    allow_timeout_override: 'bool',
    max_queue_size: 'uint32',
  },
  ModelSequenceBatching: {
    direct: 'StrategyDirect',
    oldest: 'StrategyOldest',
    max_sequence_idle_microseconds: 'uint64',
    control_input: 'repeated ControlInput',
    state: 'repeated State',
    iterative_sequence: 'bool',
  },
  StrategyDirect: { max_queue_delay_microseconds: 'uint64', minimum_slot_utilization: 'float' },
  StrategyOldest: {
    max_candidate_sequences: 'int32',
    preferred_batch_size: 'repeated int32',
    max_queue_delay_microseconds: 'uint64',
    preserve_ordering: 'bool',
  },
  ControlInput: { name: 'string', control: 'repeated Control' },
  Control: {
    kind: 'ControlKind',
    int32_false_true: 'repeated int32',
    fp32_false_true: 'repeated float',
    bool_false_true: 'repeated bool',
    data_type: 'DataType',
  },
  State: {
    input_name: 'string',
    output_name: 'string',
    data_type: 'DataType',
    dims: 'repeated int64',
    initial_state: 'repeated InitialState',
    use_same_buffer_for_input_output: 'bool',
    use_growable_memory: 'bool',
  },
  InitialState: {
    data_type: 'DataType',
    dims: 'repeated int64',
    zero_data: 'bool',
    data_file: 'string',
    name: 'string',
  },
  ModelEnsembling: { step: 'repeated Step', max_inflight_requests: 'uint32' },
  Step: {
    model_name: 'string',
    model_version: 'int64',
    input_map: 'map string string',
    output_map: 'map string string',
    model_namespace: 'string',
  },
  ModelParameter: { string_value: 'string' },
  ModelWarmup: { name: 'string', batch_size: 'uint32', inputs: 'map string WarmupInput', count: 'uint32' },
  WarmupInput: {
    data_type: 'DataType',
    dims: 'repeated int64',
    zero_data: 'bool',
    random_data: 'bool',
    input_data_file: 'string',
  },
  ModelOperations: { op_library_filename: 'repeated string' },
  ModelTransactionPolicy: { decoupled: 'bool' },
  ModelRepositoryAgents: { agents: 'repeated Agent' },
  Agent: { name: 'string', parameters: 'map string string' },
  ModelResponseCache: { enable: 'bool' },
  ModelMetrics: { metric_control: 'repeated MetricControl' },
  MetricControl: { metric_identifier: 'MetricIdentifier', histogram_options: 'HistogramOptions' },
  MetricIdentifier: { family: 'string' },
  HistogramOptions: { buckets: 'repeated double' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>

/** The names of the enumerators, in order of their numbers, from 0. */
export const enumerations = {
  DataType: [
    'TYPE_INVALID',
    'TYPE_BOOL',
    'TYPE_UINT8',
    'TYPE_UINT16',
    'TYPE_UINT32',
    'TYPE_UINT64',
    'TYPE_INT8',
    'TYPE_INT16',
    'TYPE_INT32',
    'TYPE_INT64',
    'TYPE_FP16',
    'TYPE_FP32',
    'TYPE_FP64',
    'TYPE_STRING',
    'TYPE_BF16',
  ],
  Format: ['FORMAT_NONE', 'FORMAT_NHWC', 'FORMAT_NCHW'],
  BatchInputKind: [
    'BATCH_ELEMENT_COUNT',
    'BATCH_ACCUMULATED_ELEMENT_COUNT',
    'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO',
    'BATCH_MAX_ELEMENT_COUNT_AS_SHAPE',
    'BATCH_ITEM_SHAPE',
    'BATCH_ITEM_SHAPE_FLATTEN',
  ],
  BatchOutputKind: ['BATCH_SCATTER_WITH_INPUT_SHAPE'],
  InstanceKind: ['KIND_AUTO', 'KIND_GPU', 'KIND_CPU', 'KIND_MODEL'],
  SecondaryDeviceKind: ['KIND_NVDLA'],
  ModelPriority: ['PRIORITY_DEFAULT', 'PRIORITY_MAX', 'PRIORITY_MIN'],
  TimeoutAction: ['REJECT', 'DELAY'],
  ControlKind: [
    'CONTROL_SEQUENCE_START',
    'CONTROL_SEQUENCE_READY',
    'CONTROL_SEQUENCE_END',
    'CONTROL_SEQUENCE_CORRID',
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** Groups of fields of which a message may have one. */
const oneofs = {
  ModelConfig: ['dynamic_batching', 'sequence_batching', 'ensemble_scheduling'],
  ModelVersionPolicy: ['latest', 'all', 'specific'],
  ModelSequenceBatching: ['direct', 'oldest'],
  InitialState: ['zero_data', 'data_file'],
  WarmupInput: ['zero_data', 'random_data', 'input_data_file'],
} as const satisfies Readonly<Partial<Record<keyof typeof messages, readonly string[]>>>

export type MessageName = keyof typeof messages
export type EnumerationName = keyof typeof enumerations

/** The parts of a field's type. */
interface FieldType {
  readonly repeated: boolean
  /** The key type of a map; otherwise `null`. */
  readonly key: string | null
  /** The type of one value: a scalar, an enumeration or a message. */
  readonly value: string
}

/** The type of a field; `null` if the message does not have the field. */
export function fieldType(message: MessageName, field: string): FieldType | null {
  const fields: Readonly<Record<string, string>> = messages[message]
  if (!Object.hasOwn(fields, field)) return null
  const words = fields[field]!.split(' ')
  return {
    repeated: words[0] === 'repeated' || words[0] === 'map',
    key: words[0] === 'map' ? words[1]! : null,
    value: words.at(-1)!,
  }
}

export function isMessage(type: string): type is MessageName {
  return Object.hasOwn(messages, type)
}

export function isEnumeration(type: string): type is EnumerationName {
  return Object.hasOwn(enumerations, type)
}

/**
 * Checks a message and its content against the schema: each field is known, has its type, is given once
 * unless it is repeated, and alone if it excludes others.
 *
 * @param path of the message, with a dot at its end; '' for the whole file.
 * @throws InferenceError `ERR_MODEL_CONFIG` with line and column.
 */
export function checkMessage(
  source: ConfigSource,
  message: MessageName,
  fields: readonly TextField[],
  path = '',
): void {
  const counts = new Map<string, number>()
  for (const { name, offset, list, values } of fields) {
    const type = fieldType(message, name)
    if (type === null) throw unknownField(source, offset, path, name, Object.keys(messages[message]), message)
    const count = counts.get(name)
    if (!type.repeated && count !== undefined)
      throw configError(source, offset, path + name, 'to be given once', 'it twice')
    if (!type.repeated && list) throw configError(source, offset, path + name, 'one value', 'a list')
    checkExclusion(source, message, name, counts, offset, path)
    for (const [index, value] of values.entries()) {
      const own =
        type.repeated && (type.key !== null || isMessage(type.value))
          ? `${path}${name}[${(count ?? 0) + index}]`
          : path + name
      if (type.key === null) checkValue(source, type.value, value, own)
      else checkEntry(source, type, value, own)
    }
    counts.set(name, (count ?? 0) + values.length)
  }
  for (const name of counts.keys())
    if (fieldType(message, name)!.key !== null) checkKeys(source, name, fields, path)
}

function unknownField(
  source: ConfigSource,
  offset: number,
  path: string,
  name: string,
  known: readonly string[],
  message: string,
): Error {
  const like = nearestName(name, known)
  const hint = like === null ? undefined : `Did you mean ${like}?`
  return configError(source, offset, path + name, `a known field of ${message}`, name, hint)
}

function checkExclusion(
  source: ConfigSource,
  message: MessageName,
  name: string,
  given: ReadonlyMap<string, number>,
  offset: number,
  path: string,
): void {
  const group: readonly string[] = Object.hasOwn(oneofs, message)
    ? oneofs[message as keyof typeof oneofs]
    : []
  const other = group.includes(name) ? group.find((each) => each !== name && given.has(each)) : undefined
  if (other !== undefined)
    throw configError(source, offset, path + name, `one of ${group.join(', ')}`, [other, name])
}

/** One entry of a map: a message with a key and a value. */
function checkEntry(source: ConfigSource, { key, value }: FieldType, entry: TextValue, path: string): void {
  if (entry.kind !== 'message')
    throw wrong(source, path, entry, 'an entry in braces, { key: ... value: ... }')
  const given = new Set<string>()
  for (const { name, offset, list, values } of entry.value) {
    if (name !== 'key' && name !== 'value')
      throw unknownField(source, offset, `${path}.`, name, ['key', 'value'], 'a map entry')
    if (given.has(name)) throw configError(source, offset, `${path}.${name}`, 'to be given once', 'it twice')
    if (list) throw configError(source, offset, `${path}.${name}`, 'one value', 'a list')
    given.add(name)
    checkValue(source, name === 'key' ? key! : value, values[0]!, `${path}.${name}`)
  }
}

/** Checks that no key of a map is given twice: one of the two values would be lost. */
function checkKeys(source: ConfigSource, name: string, fields: readonly TextField[], path: string): void {
  const keys = new Set<unknown>()
  const entries = fields.filter((field) => field.name === name).flatMap(({ values }) => values)
  for (const [index, { value, offset }] of entries.entries()) {
    const key = (value as readonly TextField[]).find((field) => field.name === 'key')?.values[0]?.value ?? ''
    if (keys.has(key)) throw configError(source, offset, `${path}${name}[${index}].key`, 'each key once', key)
    keys.add(key)
  }
}

const ranges: Readonly<Record<string, readonly [from: bigint, to: bigint, words: string]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n, 'a whole number of 32 bits'],
  uint32: [0n, 2n ** 32n - 1n, 'a whole number of at least 0 and at most 32 bits'],
  int64: [-(2n ** 63n), 2n ** 63n - 1n, 'a whole number of 64 bits'],
  uint64: [0n, 2n ** 64n - 1n, 'a whole number of at least 0 and at most 64 bits'],
}

function checkValue(source: ConfigSource, type: string, value: TextValue, path: string): void {
  if (isMessage(type)) {
    if (value.kind !== 'message') throw wrong(source, path, value, 'a message in braces')
    checkMessage(source, type, value.value, `${path}.`)
  } else if (isEnumeration(type)) {
    const names: readonly string[] = enumerations[type]
    const isKnown =
      value.kind === 'number'
        ? typeof value.value === 'bigint' && names[Number(value.value)] !== undefined
        : names.includes(value.value as string)
    if (!isKnown || value.kind === 'string')
      throw wrong(source, path, value, `one of ${names.join(', ')}`, nearestOf(value, names))
  } else if (type === 'string') {
    if (value.kind !== 'string') throw wrong(source, path, value, 'a string in quotes')
  } else if (type === 'bool') {
    if (booleanOf(value) === null) throw wrong(source, path, value, 'true or false')
  } else if (type === 'float' || type === 'double') {
    if (value.kind !== 'number') throw wrong(source, path, value, 'a number')
  } else {
    const [from, to, words] = ranges[type]!
    const isInRange =
      value.kind === 'number' && typeof value.value === 'bigint' && value.value >= from && value.value <= to
    const isFloat =
      value.kind === 'number' && typeof value.value === 'number' && Number.isInteger(value.value)
    if (!isInRange)
      throw wrong(
        source,
        path,
        value,
        words,
        isFloat ? 'Write it without a point and an exponent' : undefined,
      )
  }
}

/** A value as a boolean; `null` if it is none. */
export function booleanOf({ kind, value }: TextValue): boolean | null {
  if (kind === 'number') return value === 1n ? true : value === 0n ? false : null
  if (kind !== 'identifier') return null
  return /^(?:[tT]rue|t)$/.test(value) ? true : /^(?:[fF]alse|f)$/.test(value) ? false : null
}

function nearestOf({ kind, value }: TextValue, names: readonly string[]): string | undefined {
  if (kind === 'string' && names.includes(value)) return 'Write it without quotes'
  if (typeof value !== 'string') return undefined
  const like = names.find((name) => name.endsWith(`_${value.toUpperCase()}`)) ?? nearestName(value, names)
  return like === null ? undefined : `Did you mean ${like}?`
}

function wrong(source: ConfigSource, path: string, value: TextValue, expected: string, hint?: string): Error {
  return configError(source, value.offset, path, expected, shown(value), hint)
}
