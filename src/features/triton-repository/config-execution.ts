import type { InferenceSession } from 'onnxruntime-common'
import { maxThreads } from '../../options/session-options.ts'
import type { InstanceGroup } from '../../options/instance-groups.ts'
import type { ModelOptions, ProviderOptions } from '../../options/model-config.ts'
import { defined } from '../../options/plain-options.ts'
import type { ConfigFields } from './config-fields.ts'

const rules = {
  noted: {
    name: 'instances are named after the model, with a number',
    host_policy: 'threads are not bound to cores',
  },
  refused: {
    rate_limiter:
      "Instances share a worker fairly, by run time: to change a model's share, set weight in a config.ts",
    secondary_devices: 'Only TensorRT has them: leave the field out',
    profile: 'Only TensorRT has profiles: leave the field out',
    passive: 'Here every instance serves requests: leave the group out',
  },
}

/** Default number of instances of a CPU group; Triton's for ONNX Runtime. */
const defaultCpuCount = 2

/** Where the instances of a group run. */
export type GroupKind = 'KIND_AUTO' | 'KIND_GPU' | 'KIND_CPU' | 'KIND_MODEL'

/** Reads `instance_group`. Default: one group of kind `KIND_AUTO`, as in Triton. */
export function readInstanceGroups(config: ConfigFields): {
  groups: InstanceGroup[]
  kinds: ReadonlySet<GroupKind>
} {
  const read = config.messages('instance_group').map(readGroup)
  const all = read.length > 0 ? read : [{ kind: 'KIND_AUTO' as const, group: auto(undefined, []) }]
  return { groups: all.map(({ group }) => group), kinds: new Set(all.map(({ kind }) => kind)) }
}

function readGroup(fields: ConfigFields): { kind: GroupKind; group: InstanceGroup } {
  const kind = fields.enumerator<GroupKind>('kind') ?? 'KIND_AUTO'
  const count = fields.integer('count', 0) || undefined
  const gpus = fields.integers('gpus', 0)
  if (gpus.length > 0 && (kind === 'KIND_CPU' || kind === 'KIND_MODEL')) {
    fields.fail('gpus', `to be omitted for ${kind}`, gpus, 'Only KIND_GPU and KIND_AUTO take a list of GPUs')
  }
  if (kind === 'KIND_MODEL')
    fields.note('kind', "as in Triton's backend for ONNX Runtime, instances of KIND_MODEL run on the CPU")
  fields.finish(rules)
  if (kind === 'KIND_AUTO') return { kind, group: auto(count, gpus) }
  if (kind === 'KIND_GPU')
    return { kind, group: { kind: 'cuda', count: count ?? 1, gpus: gpus.length === 0 ? 'all' : gpus } }
  return { kind, group: { kind: 'cpu', count: count ?? (kind === 'KIND_CPU' ? defaultCpuCount : 1) } }
}

function auto(count: number | undefined, gpus: readonly number[]): InstanceGroup {
  return {
    kind: 'auto',
    count: count ?? 1,
    cpuCount: count ?? defaultCpuCount,
    gpus: gpus.length === 0 ? 'all' : gpus,
  }
}

type GraphLevel = InferenceSession.SessionOptions['graphOptimizationLevel']

const graphLevels: Readonly<Record<number, GraphLevel>> = {
  [-1]: 'basic',
  0: undefined,
  1: 'extended',
  2: 'disabled',
}

/** Reads `optimization`. */
export function readOptimization(
  config: ConfigFields,
  kinds: ReadonlySet<GroupKind>,
  gpus: readonly number[] | 'all',
): { graphOptimizationLevel: GraphLevel; executionProviders: ModelOptions['executionProviders'] } {
  const optimization = config.message('optimization')
  if (optimization === undefined) return { graphOptimizationLevel: undefined, executionProviders: undefined }
  const graph = optimization.message('graph')
  const level = graph?.integer('level') ?? 0
  graph?.finish()
  if (level < -1 || level > 2) graph!.fail('level', '-1 (basic), 0 (all), 1 (extended) or 2 (none)', level)
  const accelerators = optimization.message('execution_accelerators')
  const executionProviders: (string | ProviderOptions)[] | undefined =
    accelerators && readAccelerators(accelerators, kinds, gpus)
  const tensorRt = "it has no effect, as in Triton's backend for ONNX Runtime: it is for TensorRT only"
  const pinned = 'staging memory is page-locked where there is a GPU'
  optimization.finish({
    noted: {
      input_pinned_memory: pinned,
      output_pinned_memory: pinned,
      priority: 'models share a worker fairly, by run time',
      cuda: tensorRt,
      gather_kernel_buffer_threshold: tensorRt,
      eager_batching: tensorRt,
    },
  })
  return { graphOptimizationLevel: graphLevels[level], executionProviders }
}

/** TensorRT parameters with another name in ONNX Runtime. Those that begin with `trt_` keep theirs. */
const tensorRtNames: Readonly<Record<string, string>> = {
  max_workspace_size_bytes: 'trt_max_workspace_size',
  int8_calibration_table_name: 'trt_int8_calibration_table_name',
  int8_use_native_calibration_table: 'trt_int8_use_native_calibration_table',
}

const tensorRtParameters = new Set([
  ...Object.keys(tensorRtNames), 'precision_mode', 'trt_max_partition_iterations', 'trt_min_subgraph_size', 'trt_dla_enable', 'trt_dla_core',
  'trt_engine_cache_enable', 'trt_engine_cache_path', 'trt_engine_cache_prefix', 'trt_dump_subgraphs', 'trt_force_sequential_engine_build',
  'trt_context_memory_sharing_enable', 'trt_layer_norm_fp32_fallback', 'trt_timing_cache_enable', 'trt_timing_cache_path', 'trt_force_timing_cache',
  'trt_detailed_build_log', 'trt_build_heuristics_enable', 'trt_sparsity_enable', 'trt_builder_optimization_level', 'trt_auxiliary_streams',
  'trt_tactic_sources', 'trt_extra_plugin_lib_paths', 'trt_profile_min_shapes', 'trt_profile_max_shapes', 'trt_profile_opt_shapes',
  'trt_cuda_graph_enable', 'trt_dump_ep_context_model', 'trt_ep_context_file_path', 'trt_ep_context_embed_mode',
]) // prettier-ignore

const precisions: Readonly<Record<string, string | null>> = {
  FP32: null,
  FP16: 'trt_fp16_enable',
  BF16: 'trt_bf16_enable',
  INT8: 'trt_int8_enable',
}

/**
 * Reads `execution_accelerators` as a list of execution providers. As in Triton, the GPU accelerators apply
 * to GPU instances, and the CPU accelerators to the others; `undefined` if none applies.
 *
 * @param gpus the GPUs of the groups; a list of providers can name only one.
 */
function readAccelerators(
  accelerators: ConfigFields,
  kinds: ReadonlySet<GroupKind>,
  gpus: readonly number[] | 'all',
): (string | ProviderOptions)[] | undefined {
  const onGpu = accelerators
    .messages('gpu_execution_accelerator')
    .map((entry) => readAccelerator(entry, ['tensorrt', 'cuda']))
  const onCpu = accelerators
    .messages('cpu_execution_accelerator')
    .map((entry) => readAccelerator(entry, ['openvino']))
  accelerators.finish()
  const mayBeGpu = kinds.has('KIND_GPU') || kinds.has('KIND_AUTO')
  const mayBeCpu = kinds.has('KIND_CPU') || kinds.has('KIND_AUTO')
  if (onGpu.length > 0 && !mayBeGpu) accelerators.note('gpu_execution_accelerator', 'no instance is on a GPU')
  if (onCpu.length > 0 && !mayBeCpu)
    accelerators.note('cpu_execution_accelerator', 'no instance is of KIND_CPU or KIND_AUTO')
  const used = [...(mayBeGpu ? onGpu : []), ...(mayBeCpu ? onCpu : [])]
  if (used.length === 0) return undefined
  const field = accelerators.has('gpu_execution_accelerator')
    ? 'gpu_execution_accelerator'
    : 'cpu_execution_accelerator'
  if (kinds.size > 1)
    accelerators.fail(
      field,
      'instances of one kind beside it',
      [...kinds],
      'All instances of a model have the same execution providers: load it under two names',
    )
  if (!mayBeGpu) return [...onCpu, 'cpu']
  if (gpus !== 'all' && gpus.length > 1) {
    accelerators.fail(
      field,
      'one GPU beside it',
      [...gpus],
      'All instances of a model have the same execution providers: load it under one name for each GPU',
    )
  }
  if (gpus === 'all' && kinds.has('KIND_GPU'))
    accelerators.note(field, 'GPU 0 is used, as the group lists no gpus')
  const deviceId = gpus === 'all' ? 0 : gpus[0]!
  const cuda = onGpu.find(({ name }) => name === 'cuda') ?? { name: 'cuda' }
  const others = onGpu.filter(({ name }) => name !== 'cuda').map((provider) => ({ ...provider, deviceId }))
  return [...others, { ...cuda, deviceId }, ...(mayBeCpu ? onCpu : []), 'cpu']
}

function readAccelerator(entry: ConfigFields, known: readonly string[]): ProviderOptions {
  const name = entry.string('name') ?? ''
  const parameters = entry.stringMap('parameters')
  entry.finish()
  if (!known.includes(name)) {
    const hint =
      name === 'openvino'
        ? 'It is a cpu_execution_accelerator'
        : ['tensorrt', 'cuda'].includes(name)
          ? 'It is a gpu_execution_accelerator'
          : undefined
    entry.fail('name', `one of ${known.map((each) => `'${each}'`).join(', ')}`, name, hint)
  }
  if (name !== 'tensorrt') return { ...Object.fromEntries(parameters), name }
  const options: Record<string, string> = {}
  for (const [key, value] of parameters) {
    if (!tensorRtParameters.has(key))
      entry.fail(
        'parameters',
        `parameters of TensorRT (${[...tensorRtParameters].slice(0, 4).join(', ')}, ...)`,
        key,
      )
    if (key !== 'precision_mode') options[tensorRtNames[key] ?? key] = value
    else if (!Object.hasOwn(precisions, value))
      entry.fail('parameters', 'precision_mode FP32, FP16, BF16 or INT8', value)
    else if (precisions[value] !== null) options[precisions[value]!] = '1'
  }
  return { ...options, name }
}

const initializers = 'session.use_device_allocator_for_initializers'
const shrinkage = 'memory.enable_memory_arena_shrinkage'

/** The texts of flags. */
const flags = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
])

/** Deprecated parameters of the CUDA provider. */
const cudaParameters = [
  'cudnn_conv_algo_search',
  'gpu_mem_limit',
  'arena_extend_strategy',
  'do_copy_in_default_stream',
]

/**
 * Reads `parameters`: what those of Triton's ONNX Runtime backend mean here, and all of them unchanged. A parameter that
 * the backend does not know is noted, and shown to clients, as in Triton.
 */
export function readParameters(config: ConfigFields, kinds: ReadonlySet<GroupKind>) {
  const given = readGiven(config)
  const read = <T>(key: string, parse: (value: string) => T | undefined, expected: string) => {
    const entry = given.get(key)
    if (entry === undefined) return undefined
    return parse(entry.value) ?? entry.fields.fail('string_value', `${expected} for ${key}`, entry.value)
  }
  const wholeNumber = (key: string, most: number) =>
    read(
      key,
      (value) => (/^\d+$/.test(value) && Number(value) <= most ? Number(value) : undefined),
      most === 1 ? '0 or 1' : `a whole number from 0 to ${most}`,
    )
  const flag = (key: string) => read(key, (value) => flags.get(value.toLowerCase()), 'true or false')
  const allocator = flag(initializers)
  const arena = flag('enable_mem_arena')
  const shrink = given.get(shrinkage)
  if (shrink !== undefined) checkShrinkage(shrink.fields, shrink.value, arena, kinds)
  const options = {
    sessionOptions: defined({
      intraOpNumThreads: wholeNumber('intra_op_thread_count', maxThreads) || undefined,
      interOpNumThreads: wholeNumber('inter_op_thread_count', maxThreads) || undefined,
      executionMode: wholeNumber('execution_mode', 1) === 1 ? ('parallel' as const) : undefined,
      enableMemPattern: flag('enable_mem_pattern'),
      extra: allocator === undefined ? undefined : { [initializers]: allocator ? '1' : '0' },
    }),
    memory: defined({ arena }),
    runOptions: defined({ extra: shrink && { [shrinkage]: shrink.value } }),
    parameters: valuesOf(given),
  }
  for (const [key, { fields, value }] of given) judgeOther(config, key, value, fields, kinds)
  return options
}

interface GivenParameter {
  readonly fields: ConfigFields
  readonly value: string
}

function readGiven(config: ConfigFields): Map<string, GivenParameter> {
  const given = new Map(
    config
      .messageMap<string>('parameters')
      .map(([key, fields]) => [key, { fields, value: fields.string('string_value') ?? '' }]),
  )
  for (const { fields } of given.values()) fields.finish()
  return given
}

function valuesOf(given: ReadonlyMap<string, GivenParameter>): Record<string, string> {
  return Object.fromEntries([...given].map(([key, { value }]) => [key, value]))
}

/** Reads the `parameters` of an ensemble, which only clients use: an ensemble has no backend. */
export function readEnsembleParameters(config: ConfigFields): Record<string, string> {
  return valuesOf(readGiven(config))
}

/** Checks that the arenas to shrink exist: otherwise ONNX Runtime would fail every run. */
function checkShrinkage(
  fields: ConfigFields,
  value: string,
  arena: boolean | undefined,
  kinds: ReadonlySet<GroupKind>,
): void {
  const wrong = (expected: string) => fields.fail('string_value', `${expected} for ${shrinkage}`, value)
  if (!/^(?:cpu|gpu):\d+(?:;(?:cpu|gpu):\d+)*$/.test(value)) wrong('devices, such as cpu:0;gpu:0,')
  const devices = value.split(';')
  if (devices.some((device) => device.startsWith('cpu:') && device !== 'cpu:0'))
    wrong('cpu:0, as there is one arena for the CPU,')
  if (arena === false && devices.includes('cpu:0')) wrong('no cpu:0 beside enable_mem_arena 0')
  const mayBeGpu = kinds.has('KIND_GPU') || kinds.has('KIND_AUTO')
  if (!mayBeGpu && devices.some((device) => device.startsWith('gpu:')))
    wrong('no GPU, as no instance is on one,')
}

const backendKeys = new Set([
  'intra_op_thread_count', 'inter_op_thread_count', 'execution_mode', 'enable_mem_pattern', 'enable_mem_arena', initializers, shrinkage,
]) // prettier-ignore

function judgeOther(
  config: ConfigFields,
  key: string,
  value: string,
  fields: ConfigFields,
  kinds: ReadonlySet<GroupKind>,
): void {
  if (backendKeys.has(key)) return
  if (key === 'TRITON_BATCH_STRATEGY_PATH') {
    fields.fail(
      'string_value',
      `${key} to be omitted, as it is not supported`,
      value,
      'Only dynamic_batching decides how batches are formed',
    )
  }
  const isCuda = cudaParameters.includes(key)
  if (isCuda && kinds.has('KIND_GPU')) {
    const hint =
      "Move it to the parameters of a gpu_execution_accelerator with the name 'cuda', in optimization.execution_accelerators"
    fields.fail('string_value', `${key} to be omitted, as it is not supported here`, value, hint)
  }
  config.note(
    'parameters',
    isCuda
      ? `'${key}' is for instances of KIND_GPU, and has no effect here`
      : `'${key}' is not a parameter of ONNX Runtime's backend: clients can read it, but it has no effect`,
  )
}
