/**
 * The schema of Triton's `ModelConfig`: each message with its fields and their types, as in `model_config.proto`.
 *
 * A type is a scalar, an enumeration or a message; `repeated` is before one that may be given several times, `map` before
 * those of keys and values. Which fields exclude each other is said by {@link oneofs}.
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

/** The names of the enumerators, in the order of their numbers, which begin with 0. */
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

/** Fields of which a message may have one. */
export const oneofs = {
  ModelConfig: ['dynamic_batching', 'sequence_batching', 'ensemble_scheduling'],
  ModelVersionPolicy: ['latest', 'all', 'specific'],
  ModelSequenceBatching: ['direct', 'oldest'],
  InitialState: ['zero_data', 'data_file'],
  WarmupInput: ['zero_data', 'random_data', 'input_data_file'],
} as const satisfies Readonly<Partial<Record<keyof typeof messages, readonly string[]>>>

export type MessageName = keyof typeof messages
export type EnumerationName = keyof typeof enumerations

/** What a field is, taken apart. */
export interface FieldType {
  readonly repeated: boolean
  /** The type of the keys of a map; else `null`. */
  readonly key: string | null
  /** The type of one value: of a scalar, an enumeration, or a message. */
  readonly value: string
}

/** The type of a field; `null` for one that the message has not. */
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
