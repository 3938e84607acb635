import type { InferenceSession } from 'onnxruntime-common'
import type { ModelOptions, ProviderOptions } from '../../options/model-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { readAccelerators } from './execution-accelerators.ts'
import type { GroupKind } from './instance-groups.ts'

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
  const tensorRt = "as in Triton's backend for ONNX Runtime: it is for TensorRT only"
  const pinned = 'staging memory is page-locked where there is a GPU'
  optimization.finish({
    noted: {
      input_pinned_memory: pinned,
      output_pinned_memory: pinned,
      priority: 'models on one worker share it by the time they take',
      cuda: tensorRt,
      gather_kernel_buffer_threshold: tensorRt,
      eager_batching: tensorRt,
    },
  })
  return { graphOptimizationLevel: graphLevels[level], executionProviders }
}
