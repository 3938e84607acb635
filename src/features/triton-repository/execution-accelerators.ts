import type { ProviderOptions } from '../../options/model-config.ts'
import type { ConfigFields } from './config-fields.ts'
import type { GroupKind } from './instance-groups.ts'

/** TensorRT's parameters that have another name in ONNX Runtime; those that begin with `trt_` are the same. */
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
 * Reads `execution_accelerators` as a list of execution providers. As in Triton those for the GPU hold for instances there, those
 * for the CPU for the others; `undefined` where none holds.
 *
 * @param gpus of the groups; a list of providers is for one.
 */
export function readAccelerators(
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
    accelerators.note('cpu_execution_accelerator', 'no instance is of a kind that it is for')
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
      'Execution providers hold for all instances of a model: load it under two names',
    )
  if (!mayBeGpu) return [...onCpu, 'cpu']
  if (gpus !== 'all' && gpus.length > 1) {
    accelerators.fail(
      field,
      'one GPU beside it',
      [...gpus],
      'Execution providers hold for all instances of a model: load it under a name for each GPU',
    )
  }
  if (gpus === 'all' && kinds.has('KIND_GPU')) accelerators.note(field, 'without gpus, GPU 0 is used')
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
