import { describe, expect, it } from 'vitest'
import type { InferenceError } from '../../src/errors.ts'
import { readModelConfig, type RepositoryConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { isUnsupported } from '../../src/features/triton-repository/check-backend.ts'
import {
  enumerations,
  fieldType,
  isEnumeration,
  isMessage,
  messages,
  type MessageName,
} from '../../src/features/triton-repository/model-config-schema.ts'

// Every field of Triton's ModelConfig, and what becomes of it: honoured, noted as changing nothing, or refused by name.

const read = (text: string) => readModelConfig({ model: 'm', file: 'm/config.pbtxt', text })

type Check = (read: () => RepositoryConfig) => void

/** It comes to this. */
const honoured =
  (what: object): Check =>
  (read) =>
    expect(read()).toMatchObject(what)
const option = (options: object): Check => honoured({ options })
/** It changes nothing, which is told with its line. */
const noted =
  (field: string): Check =>
  (read) =>
    expect(read().notes).toContainEqual(expect.stringContaining(`${field} (line 1): `))
/** It is refused by its name, with the place and what to do. */
const refused =
  (argument: string): Check =>
  (read) => {
    const error = errorOf(read)
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm', argument })
    expect(error.message).toMatch(/\. \S.*\. At m\/config\.pbtxt:1:\d+$/)
  }
/** A model with it is listed as unsupported. */
const unsupported =
  (argument: string): Check =>
  (read) => {
    const error = errorOf(read)
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument })
    expect(isUnsupported(error)).toBe(true)
  }

function errorOf(read: () => unknown): InferenceError {
  try {
    read()
  } catch (error) {
    return error as InferenceError
  }
  throw new Error('expected an error, and there was none')
}

const tensor = 'name: "x" data_type: TYPE_FP32 dims: [3, 4, 5]'
const input = (fields: string) => `max_batch_size: 8 input { ${tensor} ${fields} }`
const output = (fields: string) => `max_batch_size: 8 output { ${tensor} ${fields} }`
const accelerator = (fields: string) =>
  `instance_group { kind: KIND_GPU gpus: 1 } optimization { execution_accelerators { gpu_execution_accelerator { ${fields} } } }`
const state = 'input_name: "a" output_name: "b" data_type: TYPE_FP32 dims: [2]'
const sequence = (fields: string) => `max_batch_size: 8 sequence_batching { ${fields} }`
const initial = (fields: string) =>
  sequence(`state { ${state} initial_state { data_type: TYPE_FP32 dims: [2] ${fields} } }`)
const control = (fields: string) => sequence(`control_input { name: "START" control { ${fields} } }`)
const warmup = (fields: string) =>
  `max_batch_size: 8 model_warmup { name: "w" batch_size: 2 inputs { key: "x" value { ${fields} } } }`
const zeros = 'data_type: TYPE_FP32 dims: [3] zero_data: true'
const policy = (fields: string) => `dynamic_batching { default_queue_policy { ${fields} } }`
const graphSpec = (fields: string) => `optimization { cuda { graph_spec { ${fields} } } }`
const ensemble = (fields: string) =>
  `input { ${tensor} } output { ${tensor} } ensemble_scheduling { ${fields} }`
const stepFields = 'model_name: "a" input_map { key: "p" value: "x" } output_map { key: "q" value: "x" }'
const step = (fields: string) => ensemble(`step { ${stepFields} ${fields} }`)
const metric =
  'metric_identifier { family: "nv_inference_first_response_histogram_ms" } histogram_options { buckets: [1, 2.5] }'
const shrinkage = (devices: string) =>
  `parameters { key: "memory.enable_memory_arena_shrinkage" value { string_value: "${devices}" } }`
const controlled = (kind: string, values: string, expected: object) =>
  [control(`kind: ${kind} ${values}`), option({ sequence: { controls: [expected] } })] as const

const cases: Record<string, readonly (readonly [text: string, check: Check])[]> = {
  'ModelConfig.name': [
    ['name: "m"', honoured({ notes: [] })],
    ['name: "other"', refusedWithoutHint('name')],
  ],
  'ModelConfig.platform': [
    ['platform: "onnxruntime_onnx"', honoured({ namesBackend: true })],
    ['platform: "tensorrt_plan"', unsupported('platform')],
    ['platform: "onnx"', refusedWithoutHint('platform')],
  ],
  'ModelConfig.backend': [
    ['backend: "onnxruntime"', honoured({ namesBackend: true })],
    ['backend: "python"', unsupported('backend')],
    ['backend: "onnx"', refusedWithoutHint('backend')],
  ],
  'ModelConfig.runtime': [['runtime: "x.so"', noted('runtime')]],
  'ModelConfig.version_policy': [['version_policy { all {} }', honoured({ versionPolicy: { kind: 'all' } })]],
  'ModelConfig.max_batch_size': [
    ['max_batch_size: 16', option({ maxBatchSize: 16 })],
    ['max_batch_size: 0', option({ maxBatchSize: 0 })],
  ],
  'ModelConfig.input': [[input(''), option({ inputs: [{ name: 'x', type: 'float32', dims: [3, 4, 5] }] })]],
  'ModelConfig.output': [
    [output(''), option({ outputs: [{ name: 'x', type: 'float32', dims: [3, 4, 5] }] })],
  ],
  'ModelConfig.batch_input': [['batch_input {}', refused('batch_input')]],
  'ModelConfig.batch_output': [['batch_output {}', refused('batch_output')]],
  'ModelConfig.optimization': [
    [
      'optimization { graph { level: 2 } }',
      option({ sessionOptions: { graphOptimizationLevel: 'disabled' } }),
    ],
  ],
  'ModelConfig.dynamic_batching': [['dynamic_batching {}', option({ dynamicBatching: {} })]],
  'ModelConfig.sequence_batching': [
    [sequence(''), option({ sequence: { controls: [], state: [], direct: {} } })],
  ],
  'ModelConfig.ensemble_scheduling': [
    [step(''), honoured({ pipeline: { steps: [{ model: 'a' }] } })],
    ['ensemble_scheduling {}', refusedWithoutHint('ensemble_scheduling.step')],
  ],
  'ModelConfig.instance_group': [
    ['instance_group { kind: KIND_CPU count: 3 }', option({ instanceGroup: [{ kind: 'cpu', count: 3 }] })],
  ],
  'ModelConfig.default_model_filename': [
    ['default_model_filename: "net.onnx"', honoured({ fileName: 'net.onnx' })],
  ],
  'ModelConfig.cc_model_filenames': [
    [
      'instance_group { kind: KIND_CPU } cc_model_filenames { key: "7.5" value: "a.onnx" }',
      noted('cc_model_filenames'),
    ],
    [
      'instance_group { kind: KIND_GPU } cc_model_filenames { key: "7.5" value: "a.onnx" }',
      refused('cc_model_filenames'),
    ],
  ],
  'ModelConfig.metric_tags': [['metric_tags { key: "a" value: "b" }', noted('metric_tags')]],
  'ModelConfig.parameters': [
    [
      'parameters { key: "intra_op_thread_count" value { string_value: "3" } }',
      option({ sessionOptions: { intraOpNumThreads: 3 } }),
    ],
    [
      'parameters { key: "inter_op_thread_count" value { string_value: "2" } }',
      option({ sessionOptions: { interOpNumThreads: 2 } }),
    ],
    [
      'parameters { key: "execution_mode" value { string_value: "1" } }',
      option({ sessionOptions: { executionMode: 'parallel' } }),
    ],
    [
      'parameters { key: "enable_mem_arena" value { string_value: "0" } }',
      option({ memory: { arena: false } }),
    ],
    [
      'parameters { key: "enable_mem_pattern" value { string_value: "false" } }',
      option({ sessionOptions: { enableMemPattern: false } }),
    ],
    [
      'parameters { key: "session.use_device_allocator_for_initializers" value { string_value: "1" } }',
      option({ sessionOptions: { extra: { 'session.use_device_allocator_for_initializers': '1' } } }),
    ],
    [
      'parameters { key: "memory.enable_memory_arena_shrinkage" value { string_value: "cpu:0;gpu:0" } }',
      option({ runOptions: { extra: { 'memory.enable_memory_arena_shrinkage': 'cpu:0;gpu:0' } } }),
    ],
    ['parameters { key: "mine" value { string_value: "x" } }', noted('parameters')],
    ['parameters { key: "gpu_mem_limit" value { string_value: "1" } }', noted('parameters')],
    [
      'instance_group { kind: KIND_GPU } parameters { key: "gpu_mem_limit" value { string_value: "1" } }',
      refused('parameters[0].value.string_value'),
    ],
    [
      'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "x.so" } }',
      refused('parameters[0].value.string_value'),
    ],
    [
      'parameters { key: "execution_mode" value { string_value: "2" } }',
      refusedWithoutHint('parameters[0].value.string_value'),
    ],
    [
      'parameters { key: "intra_op_thread_count" value { string_value: "many" } }',
      refusedWithoutHint('parameters[0].value.string_value'),
    ],
    ...['cpu', 'cpu:1', 'cpu:0;gpu:0'].map(
      (devices) =>
        [
          `instance_group { kind: KIND_CPU } ${shrinkage(devices)}`,
          refusedWithoutHint('parameters[0].value.string_value'),
        ] as const,
    ),
    [
      `${shrinkage('cpu:0')} parameters { key: "enable_mem_arena" value { string_value: "0" } }`,
      refusedWithoutHint('parameters[0].value.string_value'),
    ],
    [
      'parameters { key: "intra_op_thread_count" value { string_value: "1025" } }',
      refusedWithoutHint('parameters[0].value.string_value'),
    ],
    [
      'parameters { key: "inter_op_thread_count" value { string_value: "99999999" } }',
      refusedWithoutHint('parameters[0].value.string_value'),
    ],
  ],
  'ModelConfig.model_warmup': [
    [
      warmup(zeros),
      honoured({
        warmups: [{ count: 1, inputs: [['x', { rows: 2, dims: [3], type: 'float32', data: 'zero' }]] }],
      }),
    ],
  ],
  'ModelConfig.model_operations': [['model_operations {}', refused('model_operations')]],
  'ModelConfig.model_transaction_policy': [['model_transaction_policy {}', honoured({ notes: [] })]],
  'ModelConfig.model_repository_agents': [['model_repository_agents {}', refused('model_repository_agents')]],
  'ModelConfig.response_cache': [['response_cache { enable: true }', option({ responseCache: true })]],
  'ModelConfig.model_metrics': [['model_metrics {}', noted('model_metrics')]],

  'ModelInput.name': [
    [input(''), option({ inputs: [{ name: 'x' }] })],
    ['input { data_type: TYPE_FP32 dims: 1 }', refusedWithoutHint('input[0].name')],
  ],
  'ModelInput.data_type': [
    [input(''), option({ inputs: [{ type: 'float32' }] })],
    ['input { name: "x" dims: 1 }', refusedWithoutHint('input[0].data_type')],
  ],
  'ModelInput.format': [
    [input('format: FORMAT_NHWC'), noted('input[0].format')],
    [
      'input { name: "x" data_type: TYPE_FP32 dims: 1 format: FORMAT_NCHW }',
      refusedWithoutHint('input[0].dims'),
    ],
  ],
  'ModelInput.dims': [
    [input(''), option({ inputs: [{ dims: [3, 4, 5] }] })],
    ['input { name: "x" data_type: TYPE_FP32 }', refusedWithoutHint('input[0].dims')],
  ],
  'ModelInput.reshape': [
    [input('reshape { shape: [12, 5] }'), option({ inputs: [{ reshape: [12, 5] }] })],
    [input('reshape { shape: [12, 6] }'), refusedWithoutHint('input[0].reshape.shape')],
  ],
  'ModelInput.is_shape_tensor': [[input('is_shape_tensor: true'), refused('input[0].is_shape_tensor')]],
  'ModelInput.allow_ragged_batch': [
    [input('allow_ragged_batch: true'), refused('input[0].allow_ragged_batch')],
  ],
  'ModelInput.optional': [[input('optional: true'), option({ optionalInputs: ['x'] })]],
  'ModelInput.is_non_linear_format_io': [
    [input('is_non_linear_format_io: true'), refused('input[0].is_non_linear_format_io')],
  ],
  'ModelTensorReshape.shape': [[input('reshape { shape: [60] }'), option({ inputs: [{ reshape: [60] }] })]],
  'ModelOutput.name': [[output(''), option({ outputs: [{ name: 'x' }] })]],
  'ModelOutput.data_type': [[output(''), option({ outputs: [{ type: 'float32' }] })]],
  'ModelOutput.dims': [[output(''), option({ outputs: [{ dims: [3, 4, 5] }] })]],
  'ModelOutput.reshape': [[output('reshape { shape: [60] }'), option({ outputs: [{ reshape: [60] }] })]],
  'ModelOutput.label_filename': [
    [output('label_filename: "l.txt"'), honoured({ labelFiles: [{ output: 0, name: 'l.txt' }] })],
    [output('label_filename: "../l.txt"'), refusedWithoutHint('output[0].label_filename')],
  ],
  'ModelOutput.is_shape_tensor': [[output('is_shape_tensor: true'), refused('output[0].is_shape_tensor')]],
  'ModelOutput.is_non_linear_format_io': [
    [output('is_non_linear_format_io: true'), refused('output[0].is_non_linear_format_io')],
  ],
  ...allRefused(
    'BatchInput',
    'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "a" data_type: TYPE_INT32 source_input: "x" }',
    refused('batch_input'),
  ),
  ...allRefused(
    'BatchOutput',
    'batch_output { target_name: "a" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "x" }',
    refused('batch_output'),
  ),

  'ModelVersionPolicy.latest': [
    ['version_policy { latest {} }', honoured({ versionPolicy: { kind: 'latest', count: 1 } })],
  ],
  'ModelVersionPolicy.all': [['version_policy { all {} }', honoured({ versionPolicy: { kind: 'all' } })]],
  'ModelVersionPolicy.specific': [
    [
      'version_policy { specific { versions: 3 } }',
      honoured({ versionPolicy: { kind: 'specific', versions: ['3'] } }),
    ],
  ],
  'Latest.num_versions': [
    [
      'version_policy { latest { num_versions: 2 } }',
      honoured({ versionPolicy: { kind: 'latest', count: 2 } }),
    ],
  ],
  'Specific.versions': [
    [
      'version_policy { specific { versions: [1, 2] } }',
      honoured({ versionPolicy: { versions: ['1', '2'] } }),
    ],
    [
      'version_policy { specific { versions: [1, -1] } }',
      refusedWithoutHint('version_policy.specific.versions'),
    ],
    ['version_policy { specific { versions: 0 } }', refusedWithoutHint('version_policy.specific.versions')],
  ],

  'ModelInstanceGroup.name': [['instance_group { name: "g" }', noted('instance_group[0].name')]],
  'ModelInstanceGroup.kind': [
    ['instance_group { kind: KIND_CPU }', option({ instanceGroup: [{ kind: 'cpu', count: 2 }] })],
    [
      'instance_group { kind: KIND_GPU }',
      option({ instanceGroup: [{ kind: 'cuda', count: 1, gpus: 'all' }] }),
    ],
    [
      'instance_group { kind: KIND_AUTO }',
      option({ instanceGroup: [{ kind: 'auto', count: 1, cpuCount: 2, gpus: 'all' }] }),
    ],
    ['instance_group { kind: KIND_MODEL }', option({ instanceGroup: [{ kind: 'cpu', count: 1 }] })],
    ['instance_group { kind: KIND_MODEL }', noted('instance_group[0].kind')],
  ],
  'ModelInstanceGroup.count': [
    ['instance_group { count: 4 }', option({ instanceGroup: [{ kind: 'auto', count: 4, cpuCount: 4 }] })],
  ],
  'ModelInstanceGroup.rate_limiter': [
    ['instance_group { rate_limiter {} }', refused('instance_group[0].rate_limiter')],
  ],
  'ModelInstanceGroup.gpus': [
    [
      'instance_group { kind: KIND_GPU gpus: [0, 2] }',
      option({ instanceGroup: [{ kind: 'cuda', gpus: [0, 2] }] }),
    ],
    ['instance_group { kind: KIND_CPU gpus: 0 }', refused('instance_group[0].gpus')],
    ['instance_group { kind: KIND_MODEL gpus: 0 }', refused('instance_group[0].gpus')],
  ],
  'ModelInstanceGroup.secondary_devices': [
    ['instance_group { secondary_devices {} }', refused('instance_group[0].secondary_devices')],
  ],
  'ModelInstanceGroup.profile': [['instance_group { profile: "0" }', refused('instance_group[0].profile')]],
  'ModelInstanceGroup.passive': [['instance_group { passive: true }', refused('instance_group[0].passive')]],
  'ModelInstanceGroup.host_policy': [
    ['instance_group { host_policy: "p" }', noted('instance_group[0].host_policy')],
  ],
  ...allRefused(
    'ModelRateLimiter',
    'instance_group { rate_limiter { resources { name: "r" } priority: 2 } }',
    refused('instance_group[0].rate_limiter'),
  ),
  ...allRefused(
    'Resource',
    'instance_group { rate_limiter { resources { name: "r" global: true count: 2 } } }',
    refused('instance_group[0].rate_limiter'),
  ),
  ...allRefused(
    'SecondaryDevice',
    'instance_group { secondary_devices { kind: KIND_NVDLA device_id: 1 } }',
    refused('instance_group[0].secondary_devices'),
  ),

  'ModelOptimizationPolicy.graph': [['optimization { graph {} }', honoured({ notes: [] })]],
  'ModelOptimizationPolicy.priority': [
    ['optimization { priority: PRIORITY_MAX }', noted('optimization.priority')],
  ],
  'ModelOptimizationPolicy.cuda': [['optimization { cuda { graphs: true } }', noted('optimization.cuda')]],
  'ModelOptimizationPolicy.execution_accelerators': [
    ['optimization { execution_accelerators {} }', honoured({ notes: [] })],
  ],
  'ModelOptimizationPolicy.input_pinned_memory': [
    ['optimization { input_pinned_memory {} }', noted('optimization.input_pinned_memory')],
  ],
  'ModelOptimizationPolicy.output_pinned_memory': [
    ['optimization { output_pinned_memory {} }', noted('optimization.output_pinned_memory')],
  ],
  'ModelOptimizationPolicy.gather_kernel_buffer_threshold': [
    [
      'optimization { gather_kernel_buffer_threshold: 4 }',
      noted('optimization.gather_kernel_buffer_threshold'),
    ],
  ],
  'ModelOptimizationPolicy.eager_batching': [
    ['optimization { eager_batching: true }', noted('optimization.eager_batching')],
  ],
  'Graph.level': [
    ['optimization { graph { level: -1 } }', option({ sessionOptions: { graphOptimizationLevel: 'basic' } })],
    [
      'optimization { graph { level: 1 } }',
      option({ sessionOptions: { graphOptimizationLevel: 'extended' } }),
    ],
    ['optimization { graph { level: 3 } }', refusedWithoutHint('optimization.graph.level')],
  ],
  ...allRefused(
    'Cuda',
    'optimization { cuda { graphs: true busy_wait_events: true graph_spec {} output_copy_stream: true } }',
    noted('optimization.cuda'),
  ),
  ...allRefused(
    'GraphSpec',
    graphSpec('batch_size: 1 input { key: "x" value { dim: [1] } } graph_lower_bound { }'),
    noted('optimization.cuda'),
  ),
  ...allRefused(
    'LowerBound',
    graphSpec('graph_lower_bound { batch_size: 1 input { key: "x" value { dim: 1 } } }'),
    noted('optimization.cuda'),
  ),
  ...allRefused('Shape', graphSpec('input { key: "x" value { dim: [1, 2] } }'), noted('optimization.cuda')),
  'ExecutionAccelerators.gpu_execution_accelerator': [
    [accelerator('name: "cuda"'), option({ executionProviders: [{ name: 'cuda', deviceId: 1 }, 'cpu'] })],
    [
      'instance_group { kind: KIND_CPU } optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" } } }',
      noted('optimization.execution_accelerators.gpu_execution_accelerator'),
    ],
    [
      'instance_group { kind: KIND_GPU gpus: [0, 1] } optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" } } }',
      refused('optimization.execution_accelerators.gpu_execution_accelerator'),
    ],
    [
      'instance_group [{ kind: KIND_GPU gpus: 0 }, { kind: KIND_CPU }] optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" } } }',
      refused('optimization.execution_accelerators.gpu_execution_accelerator'),
    ],
  ],
  'ExecutionAccelerators.cpu_execution_accelerator': [
    [
      'instance_group { kind: KIND_CPU } optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }',
      option({ executionProviders: [{ name: 'openvino' }, 'cpu'] }),
    ],
    [
      'instance_group { kind: KIND_GPU } optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }',
      noted('optimization.execution_accelerators.cpu_execution_accelerator'),
    ],
  ],
  'Accelerator.name': [
    [
      accelerator('name: "tensorrt"'),
      option({
        executionProviders: [{ name: 'tensorrt', deviceId: 1 }, { name: 'cuda', deviceId: 1 }, 'cpu'],
      }),
    ],
    [
      accelerator('name: "openvino"'),
      refused('optimization.execution_accelerators.gpu_execution_accelerator[0].name'),
    ],
    [
      accelerator('name: "auto_io"'),
      refusedWithoutHint('optimization.execution_accelerators.gpu_execution_accelerator[0].name'),
    ],
  ],
  'Accelerator.parameters': [
    [
      accelerator('name: "cuda" parameters { key: "gpu_mem_limit" value: "1000" }'),
      option({ executionProviders: [{ name: 'cuda', gpu_mem_limit: '1000', deviceId: 1 }, 'cpu'] }),
    ],
    [
      accelerator(
        'name: "tensorrt" parameters [{ key: "precision_mode" value: "FP16" }, { key: "max_workspace_size_bytes" value: "9" }]',
      ),
      option({
        executionProviders: [
          { name: 'tensorrt', trt_fp16_enable: '1', trt_max_workspace_size: '9' },
          {},
          'cpu',
        ],
      }),
    ],
    [
      accelerator('name: "tensorrt" parameters { key: "precision_mode" value: "FP8" }'),
      refusedWithoutHint('optimization.execution_accelerators.gpu_execution_accelerator[0].parameters'),
    ],
    [
      accelerator('name: "tensorrt" parameters { key: "speed" value: "11" }'),
      refusedWithoutHint('optimization.execution_accelerators.gpu_execution_accelerator[0].parameters'),
    ],
  ],
  'PinnedMemoryBuffer.enable': [
    ['optimization { input_pinned_memory { enable: false } }', noted('optimization.input_pinned_memory')],
  ],

  'ModelDynamicBatching.preferred_batch_size': [
    [
      'max_batch_size: 8 dynamic_batching { preferred_batch_size: [4, 8] }',
      option({ dynamicBatching: { preferredBatchSize: [4, 8] } }),
    ],
  ],
  'ModelDynamicBatching.max_queue_delay_microseconds': [
    [
      'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1500 }',
      option({ dynamicBatching: { maxQueueDelayMs: 1.5 } }),
    ],
    [
      'dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }',
      tooLong('dynamic_batching.max_queue_delay_microseconds'),
    ],
  ],
  'ModelDynamicBatching.preserve_ordering': [
    ['dynamic_batching { preserve_ordering: true }', option({ dynamicBatching: { preserveOrdering: true } })],
  ],
  'ModelDynamicBatching.priority_levels': [
    [
      'dynamic_batching { priority_levels: 3 default_priority_level: 2 }',
      option({ dynamicBatching: { priorityLevels: 3, defaultPriorityLevel: 2 } }),
    ],
  ],
  'ModelDynamicBatching.default_priority_level': [
    [
      'dynamic_batching { priority_levels: 3 }',
      refusedWithoutHint('dynamic_batching.default_priority_level'),
    ],
    ['dynamic_batching { default_priority_level: 3 }', noted('dynamic_batching.default_priority_level')],
  ],
  'ModelDynamicBatching.default_queue_policy': [
    [policy('max_queue_size: 3'), option({ dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 3 } } })],
  ],
  'ModelDynamicBatching.priority_queue_policy': [
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 2 value { max_queue_size: 3 } } }',
      option({ dynamicBatching: { priorityQueuePolicy: { 2: { maxQueueSize: 3 } } } }),
    ],
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 } }',
      refusedWithoutHint('dynamic_batching.priority_queue_policy'),
    ],
  ],
  'ModelQueuePolicy.timeout_action': [
    [
      policy('timeout_action: DELAY'),
      option({ dynamicBatching: { defaultQueuePolicy: { timeoutAction: 'DELAY' } } }),
    ],
  ],
  'ModelQueuePolicy.default_timeout_microseconds': [
    [
      policy('default_timeout_microseconds: 2500'),
      option({ dynamicBatching: { defaultQueuePolicy: { defaultTimeoutMs: 2.5 } } }),
    ],
    [
      policy('default_timeout_microseconds: 18446744073709551615'),
      tooLong('dynamic_batching.default_queue_policy.default_timeout_microseconds'),
    ],
  ],
  'ModelQueuePolicy.allow_timeout_override': [
    [
      policy('allow_timeout_override: true'),
      option({ dynamicBatching: { defaultQueuePolicy: { allowTimeoutOverride: true } } }),
    ],
  ],
  'ModelQueuePolicy.max_queue_size': [
    [policy('max_queue_size: 7'), option({ dynamicBatching: { defaultQueuePolicy: { maxQueueSize: 7 } } })],
  ],

  'ModelSequenceBatching.direct': [[sequence('direct {}'), option({ sequence: { direct: {} } })]],
  'ModelSequenceBatching.oldest': [[sequence('oldest {}'), option({ sequence: { oldest: {} } })]],
  'ModelSequenceBatching.max_sequence_idle_microseconds': [
    [sequence('max_sequence_idle_microseconds: 5000000'), option({ sequence: { maxSequenceIdleMs: 5000 } })],
  ],
  'ModelSequenceBatching.control_input': [
    controlled('CONTROL_SEQUENCE_START', 'int32_false_true: [0, 1]', { input: 'START', kind: 'start' }),
  ],
  'ModelSequenceBatching.state': [
    [sequence(`state { ${state} }`), option({ sequence: { state: [{ input: 'a', output: 'b' }] } })],
  ],
  'ModelSequenceBatching.iterative_sequence': [
    [sequence('iterative_sequence: true'), refused('sequence_batching.iterative_sequence')],
  ],
  'StrategyDirect.max_queue_delay_microseconds': [
    [
      sequence('direct { max_queue_delay_microseconds: 2000 }'),
      option({ sequence: { direct: { maxQueueDelayMs: 2 } } }),
    ],
    [
      sequence('direct { max_queue_delay_microseconds: 18446744073709551615 }'),
      tooLong('sequence_batching.direct.max_queue_delay_microseconds'),
    ],
  ],
  'StrategyDirect.minimum_slot_utilization': [
    [
      sequence('direct { max_queue_delay_microseconds: 2000 minimum_slot_utilization: 0.5 }'),
      option({ sequence: { direct: { minimumSlotUtilization: 0.5 } } }),
    ],
    [
      sequence('direct { minimum_slot_utilization: 2.0 }'),
      refusedWithoutHint('sequence_batching.direct.minimum_slot_utilization'),
    ],
  ],
  'StrategyOldest.max_candidate_sequences': [
    [
      sequence('oldest { max_candidate_sequences: 4 }'),
      option({ sequence: { oldest: { maxCandidateSequences: 4 } } }),
    ],
  ],
  'StrategyOldest.preferred_batch_size': [
    [
      sequence('oldest { preferred_batch_size: 4 }'),
      option({ sequence: { oldest: { preferredBatchSize: [4] } } }),
    ],
    [
      sequence('oldest { preferred_batch_size: 9 }'),
      refusedWithoutHint('sequence_batching.oldest.preferred_batch_size'),
    ],
  ],
  'StrategyOldest.max_queue_delay_microseconds': [
    [
      sequence('oldest { max_queue_delay_microseconds: 100 }'),
      option({ sequence: { oldest: { maxQueueDelayMs: 0.1 } } }),
    ],
  ],
  'StrategyOldest.preserve_ordering': [
    [
      sequence('oldest { preserve_ordering: true }'),
      option({ sequence: { oldest: { preserveOrdering: true } } }),
    ],
  ],
  'ControlInput.name': [
    [
      sequence('control_input { control { int32_false_true: [0, 1] } }'),
      refusedWithoutHint('sequence_batching.control_input[0].name'),
    ],
  ],
  'ControlInput.control': [
    [sequence('control_input { name: "x" }'), refused('sequence_batching.control_input[0].control')],
  ],
  'Control.kind': [
    controlled('CONTROL_SEQUENCE_READY', 'int32_false_true: [0, 1]', { kind: 'ready' }),
    controlled('CONTROL_SEQUENCE_END', 'int32_false_true: [0, 1]', { kind: 'end' }),
    controlled('CONTROL_SEQUENCE_CORRID', 'data_type: TYPE_UINT64', { kind: 'correlationId' }),
  ],
  'Control.int32_false_true': [
    controlled('CONTROL_SEQUENCE_START', 'int32_false_true: [3, 4]', { values: [3, 4] }),
    [
      control('int32_false_true: [0, 1, 2]'),
      refusedWithoutHint('sequence_batching.control_input[0].control[0].int32_false_true'),
    ],
  ],
  'Control.fp32_false_true': [
    controlled('CONTROL_SEQUENCE_START', 'fp32_false_true: [0, 1.5]', { type: 'float32', values: [0, 1.5] }),
    [
      control('fp32_false_true: [0, nan]'),
      refusedWithoutHint('sequence_batching.control_input[0].control[0].fp32_false_true'),
    ],
  ],
  'Control.bool_false_true': [
    controlled('CONTROL_SEQUENCE_START', 'bool_false_true: [false, true]', { values: [0, 1] }),
  ],
  'Control.data_type': [
    [
      control('kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32'),
      refusedWithoutHint('sequence_batching.control_input[0].control[0].data_type'),
    ],
  ],
  'State.input_name': [
    [sequence(`state { ${state} }`), option({ sequence: { state: [{ input: 'a' }] } })],
    [sequence('state {}'), refusedWithoutHint('sequence_batching.state[0].input_name')],
  ],
  'State.output_name': [[sequence(`state { ${state} }`), option({ sequence: { state: [{ output: 'b' }] } })]],
  'State.data_type': [
    [sequence(`state { ${state} }`), option({ sequence: { state: [{ type: 'float32' }] } })],
    [
      sequence('state { input_name: "a" output_name: "b" dims: 1 }'),
      refusedWithoutHint('sequence_batching.state[0].data_type'),
    ],
  ],
  'State.dims': [
    [sequence(`state { ${state} }`), option({ sequence: { state: [{ dims: [2] }] } })],
    [
      sequence('state { input_name: "a" output_name: "b" data_type: TYPE_FP32 dims: [2, 0] }'),
      refusedWithoutHint('sequence_batching.state[0].dims'),
    ],
    [
      sequence('state { input_name: "a" output_name: "b" data_type: TYPE_FP32 }'),
      refusedWithoutHint('sequence_batching.state[0].dims'),
    ],
  ],
  'State.initial_state': [
    [
      initial('zero_data: true'),
      honoured({ initialStates: [{ state: 0, plan: { data: 'zero', dims: [2], rows: 1 } }] }),
    ],
  ],
  'State.use_same_buffer_for_input_output': [
    [
      sequence(`state { ${state} use_same_buffer_for_input_output: true }`),
      noted('sequence_batching.state[0].use_same_buffer_for_input_output'),
    ],
  ],
  'State.use_growable_memory': [
    [
      sequence(`state { ${state} use_growable_memory: true }`),
      noted('sequence_batching.state[0].use_growable_memory'),
    ],
  ],
  'InitialState.data_type': [
    [
      sequence(`state { ${state} initial_state { data_type: TYPE_INT8 dims: [2] zero_data: true } }`),
      refusedWithoutHint('sequence_batching.state[0].initial_state[0].data_type'),
    ],
  ],
  'InitialState.dims': [
    [
      sequence(
        'state { input_name: "a" output_name: "b" data_type: TYPE_STRING dims: -1 initial_state { data_type: TYPE_STRING dims: 4294967296 zero_data: true } }',
      ),
      refusedWithoutHint('sequence_batching.state[0].initial_state[0].dims'),
    ],
    [
      sequence(`state { ${state} initial_state { data_type: TYPE_FP32 dims: [3] zero_data: true } }`),
      refusedWithoutHint('sequence_batching.state[0].initial_state[0].dims'),
    ],
  ],
  'InitialState.zero_data': [
    [initial('zero_data: true'), honoured({ initialStates: [{ plan: { data: 'zero' } }] })],
    [initial(''), refusedWithoutHint('sequence_batching.state[0].initial_state[0].zero_data')],
  ],
  'InitialState.data_file': [
    [
      initial('data_file: "s"'),
      honoured({ initialStates: [{ plan: { data: { folder: 'initial_state', file: 's' } } }] }),
    ],
  ],
  'InitialState.name': [[initial('zero_data: true name: "first"'), honoured({ notes: [] })]],
  'ModelEnsembling.step': [[step(''), honoured({ pipeline: { steps: [{ model: 'a' }] } })]],
  'ModelEnsembling.max_inflight_requests': [
    [ensemble(`step { ${stepFields} } max_inflight_requests: 2`), honoured({ pipeline: { maxInFlight: 2 } })],
  ],
  'Step.model_name': [[step(''), honoured({ pipeline: { steps: [{ model: 'a' }] } })]],
  'Step.model_version': [
    [step('model_version: 3'), honoured({ pipeline: { steps: [{ version: 3 }] } })],
    [step('model_version: 0'), refusedWithoutHint('ensemble_scheduling.step[0].model_version')],
  ],
  'Step.input_map': [[step(''), honoured({ pipeline: { steps: [{ inputs: { p: 'x' } }] } })]],
  'Step.output_map': [[step(''), honoured({ pipeline: { steps: [{ outputs: { q: 'x' } }] } })]],
  'Step.model_namespace': [
    [step('model_namespace: "n"'), refusedWithoutHint('ensemble_scheduling.step[0].model_namespace')],
  ],

  'ModelParameter.string_value': [
    [
      'parameters { key: "execution_mode" value { string_value: "1" } }',
      option({ sessionOptions: { executionMode: 'parallel' } }),
    ],
  ],
  'ModelWarmup.name': [['model_warmup { batch_size: 1 }', refusedWithoutHint('model_warmup[0].name')]],
  'ModelWarmup.batch_size': [
    ['model_warmup { name: "w" batch_size: 0 }', noted('model_warmup[0].batch_size')],
    [
      'max_batch_size: 1 model_warmup { name: "w" batch_size: 2 }',
      refusedWithoutHint('model_warmup[0].batch_size'),
    ],
  ],
  'ModelWarmup.inputs': [
    ['model_warmup { name: "w" batch_size: 1 }', refusedWithoutHint('model_warmup[0].inputs')],
  ],
  'ModelWarmup.count': [
    [
      `max_batch_size: 0 model_warmup { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { ${zeros} } } }`,
      honoured({ warmups: [{ count: 6, inputs: [['x', { rows: null }]] }] }),
    ],
  ],
  'WarmupInput.data_type': [
    [warmup('dims: [3] zero_data: true'), refusedWithoutHint('model_warmup[0].inputs[0].value.data_type')],
  ],
  'WarmupInput.dims': [
    [
      warmup('data_type: TYPE_FP32 dims: [65536, 65536] zero_data: true'),
      refusedWithoutHint('model_warmup[0].inputs[0].value.dims'),
    ],
    [
      `model_warmup { name: "w" batch_size: 4294967295 inputs { key: "x" value { ${zeros} } } }`,
      refusedWithoutHint('model_warmup[0].inputs[0].value.dims'),
    ],
    [
      warmup('data_type: TYPE_FP32 dims: [-1] zero_data: true'),
      refusedWithoutHint('model_warmup[0].inputs[0].value.dims'),
    ],
  ],
  'WarmupInput.zero_data': [
    [
      warmup('data_type: TYPE_FP32 dims: [3]'),
      refusedWithoutHint('model_warmup[0].inputs[0].value.zero_data'),
    ],
  ],
  'WarmupInput.random_data': [
    [
      warmup('data_type: TYPE_FP32 dims: [3] random_data: true'),
      honoured({ warmups: [{ inputs: [['x', { data: 'random' }]] }] }),
    ],
  ],
  'WarmupInput.input_data_file': [
    [
      warmup('data_type: TYPE_FP32 dims: [3] input_data_file: "x.bin"'),
      honoured({ warmups: [{ inputs: [['x', { data: { folder: 'warmup', file: 'x.bin' } }]] }] }),
    ],
  ],
  'ModelOperations.op_library_filename': [
    ['model_operations { op_library_filename: "ops.so" }', refused('model_operations')],
  ],
  'ModelTransactionPolicy.decoupled': [
    ['model_transaction_policy { decoupled: true }', refused('model_transaction_policy.decoupled')],
    ['model_transaction_policy { decoupled: false }', honoured({ notes: [] })],
  ],
  ...allRefused(
    'ModelRepositoryAgents',
    'model_repository_agents { agents { } }',
    refused('model_repository_agents'),
  ),
  ...allRefused(
    'Agent',
    'model_repository_agents { agents { name: "checksum" parameters { key: "a" value: "b" } } }',
    refused('model_repository_agents'),
  ),
  'ModelResponseCache.enable': [
    ['response_cache { enable: true }', option({ responseCache: true })],
    ['response_cache { enable: false }', honoured({ notes: [] })],
    [`${sequence('')} response_cache { enable: true }`, refused('response_cache')],
  ],
  'ModelMetrics.metric_control': [[`model_metrics { metric_control { ${metric} } }`, noted('model_metrics')]],
  'MetricControl.metric_identifier': [
    [
      'model_metrics { metric_control { histogram_options { buckets: 1 } } }',
      refusedWithoutHint('model_metrics.metric_control[0].metric_identifier'),
    ],
  ],
  'MetricControl.histogram_options': [
    [
      'model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } } }',
      refusedWithoutHint('model_metrics.metric_control[0].histogram_options'),
    ],
  ],
  'MetricIdentifier.family': [
    [
      'model_metrics { metric_control { metric_identifier { family: "mine" } } }',
      refusedWithoutHint('model_metrics.metric_control[0].metric_identifier.family'),
    ],
  ],
  'HistogramOptions.buckets': [
    [
      'model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } histogram_options { buckets: [2, 1] } } }',
      refusedWithoutHint('model_metrics.metric_control[0].histogram_options.buckets'),
    ],
  ],
}

/** What contradicts itself is refused by name and place; what was expected says it all. */
function refusedWithoutHint(argument: string): Check {
  return (read) => {
    const error = errorOf(read)
    expect(error).toMatchObject({ code: 'ERR_MODEL_CONFIG', model: 'm', argument })
    expect(error.message).toMatch(/At m\/config\.pbtxt:1:\d+$/)
  }
}

/** More than a timer can wait is refused in the unit and with the number of the file. */
function tooLong(argument: string): Check {
  return (read) => {
    const error = errorOf(read)
    expect(error).toMatchObject({ argument, expected: 'a whole number of at most 2147483647000' })
    expect(error.message).toMatch(/received 18446744073709551615 .*At m\/config\.pbtxt:1:\d+$/)
  }
}

/** All fields of a message that is judged as a whole. */
function allRefused(message: MessageName, text: string, check: Check): typeof cases {
  return Object.fromEntries(
    Object.keys(messages[message]).map((field) => [`${message}.${field}`, [[text, check]] as const]),
  )
}

const everyField = Object.entries(messages).flatMap(([message, fields]) =>
  Object.keys(fields).map((field) => `${message}.${field}`),
)

describe('of the fields of a ModelConfig', () => {
  it('each is honoured, noted or refused by a case below', () => {
    expect(Object.keys(cases).sort()).toEqual([...everyField].sort())
  })
  it.each(
    Object.entries(cases).flatMap(([field, own]) => own.map(([text, check]) => ({ field, text, check }))),
  )('$field: $text', ({ text, check }) => {
    check(() => read(text))
  })
})

describe('a field of the wrong type', () => {
  const wrongFor = (type: string): string => {
    if (isMessage(type)) return ': 1'
    return isEnumeration(type)
      ? ': NO_SUCH'
      : type === 'string'
        ? ': 7'
        : type === 'bool'
          ? ': 2'
          : ': "text"'
  }

  /** A text that sets the field to something of a wrong type, in all messages that lead to it. */
  function wrongly(message: MessageName, field: string): string | null {
    const type = fieldType(message, field)!
    return wrapped(
      message,
      type.key === null
        ? `${field}${wrongFor(type.value)}`
        : `${field} { key${keyOf(type.key)} value${wrongFor(type.value)} }`,
    )
  }

  const keyOf = (type: string) => (type === 'string' ? ': "k"' : ': 1')

  function wrapped(message: MessageName, text: string, seen: readonly string[] = []): string | null {
    if (message === 'ModelConfig') return text
    for (const [parent, fields] of Object.entries(messages) as [MessageName, Record<string, string>][]) {
      for (const name of Object.keys(fields)) {
        const { value, key } = fieldType(parent, name)!
        if (value !== message || seen.includes(parent)) continue
        const around = wrapped(
          parent,
          key === null ? `${name} { ${text} }` : `${name} { key${keyOf(key)} value { ${text} } }`,
          [...seen, message],
        )
        if (around !== null) return around
      }
    }
    return null
  }

  it.each(everyField)(
    'is an error with its name and place, also in messages that are only noted or refused: %s',
    (path) => {
      const [message, field] = path.split('.') as [MessageName, string]
      const error = errorOf(() => read(wrongly(message, field)!))
      expect(error.code).toBe('ERR_MODEL_CONFIG')
      expect(error.argument!.replace(/\.(?:key|value)$/, '')).toMatch(
        new RegExp(`(?:^|\\.)${field}(?:\\[0\\])?$`),
      )
      expect(error.message).toMatch(/received .*At m\/config\.pbtxt:1:\d+$/)
    },
  )

  it('or of an unknown name is one with the name that is most like it', () => {
    expect(errorOf(() => read('max_batch_sise: 8'))).toMatchObject({
      argument: 'max_batch_sise',
      message: expect.stringContaining('Did you mean max_batch_size?'),
    })
    expect(errorOf(() => read('batch_input { knd: BATCH_ITEM_SHAPE }'))).toMatchObject({
      argument: 'batch_input[0].knd',
      message: expect.stringContaining('Did you mean kind?'),
    })
    expect(errorOf(() => read('instance_group { kind: KIND_CPP }'))).toMatchObject({
      message: expect.stringContaining('Did you mean KIND_CPU?'),
    })
    expect(errorOf(() => read('instance_group { kind: gpu }'))).toMatchObject({
      message: expect.stringContaining('Did you mean KIND_GPU?'),
    })
    expect(errorOf(() => read('input { name: "x" data_type: FP32 dims: 1 }'))).toMatchObject({
      message: expect.stringContaining('Did you mean TYPE_FP32?'),
    })
  })

  it('or written as a float is one that says how to write it', () => {
    expect(errorOf(() => read('max_batch_size: 4.0'))).toMatchObject({
      received: 4,
      message: expect.stringContaining('Write it without a point and an exponent. At m/config.pbtxt:1:17'),
    })
  })

  it('every enumerator is known by name and by number', () => {
    for (const [number, name] of enumerations.DataType.entries()) {
      if (number === 0) continue
      const byName = read(`max_batch_size: 1 input { name: "x" data_type: ${name} dims: 1 }`).options.inputs
      expect(
        read(`max_batch_size: 1 input { name: "x" data_type: ${number} dims: 1 }`).options.inputs,
      ).toEqual(byName)
    }
  })
})
