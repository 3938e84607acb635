import type { InferenceSession } from 'onnxruntime-common'
import type { ModelOptions } from '../config/model-config.ts'
import { ConfigFields } from './config-fields.ts'
import type { ConfigSource } from './config-source.ts'
import { defined } from './defined.ts'
import { readInstanceGroups } from './instance-groups.ts'
import { readDynamicBatching } from './dynamic-batching.ts'
import { readTensors, type ConfiguredTensor } from './configured-tensors.ts'
import { parseTextFormat } from './text-format.ts'
import { readVersionPolicy, type VersionPolicy } from './version-policy.ts'

/** What a `config.pbtxt` says, in this library's words. */
export interface RepositoryConfig {
  readonly options: ModelOptions
  /** Name of the model's file in its version folder. */
  readonly fileName: string
  readonly versionPolicy: VersionPolicy
  readonly inputs: readonly ConfiguredTensor[]
  readonly outputs: readonly ConfiguredTensor[]
  /** Fields that change nothing here, each with its line and the reason. */
  readonly notes: readonly string[]
}

const rules = {
  noted: {
    runtime: 'models are run by onnxruntime-node',
    model_warmup: 'models are warmed by a run on zeros where all inputs are floating point',
    metric_tags: 'metrics are labelled with the name of the model',
    model_metrics: 'the buckets of histograms are fixed',
  },
  refused: {
    sequence_batching: 'Keep the state of a sequence in the application, and feed it with each request',
    ensemble_scheduling: 'Call the models one after the other: there is no network between them',
    batch_input: 'Every input comes from the requests themselves',
    batch_output: 'Every output is split by rows',
    cc_model_filenames: 'Use default_model_filename',
    model_operations: 'Custom operators cannot be registered through onnxruntime-node',
    model_repository_agents: 'Check or fetch the files before loading them',
  },
}

/**
 * Reads a `config.pbtxt`. Every field of Triton's `ModelConfig` is mapped, noted as harmless, or refused by name.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with the field, what was expected, and the line and column.
 */
export function readModelConfig(source: ConfigSource): RepositoryConfig {
  const notes: string[] = []
  const config = new ConfigFields(source, parseTextFormat(source), notes)
  const name = config.string('name') || source.model
  if (name !== source.model) config.fail('name', `the name of its folder, '${source.model}'`, name)
  checkBackend(config)
  refuseSwitches(config)
  const read = {
    options: defined({
      maxBatchSize: config.integer('max_batch_size', 0),
      dynamicBatching: readDynamicBatching(config),
      instanceGroup: readInstanceGroups(config),
      sessionOptions: readOptimization(config),
    }),
    fileName: readFileName(config),
    versionPolicy: readVersionPolicy(config),
    inputs: readTensors(config, 'input'),
    outputs: readTensors(config, 'output'),
    notes,
  }
  for (const key of config.keys('parameters')) {
    config.note('parameters', `'${key}' is not used; give ONNX Runtime's options as sessionOptions of engine.load()`)
  }
  config.finish(rules)
  return read
}

function checkBackend(config: ConfigFields): void {
  const only = { platform: 'onnxruntime_onnx', backend: 'onnxruntime' }
  for (const [field, expected] of Object.entries(only)) {
    const given = config.string(field) || expected
    if (given !== expected) config.fail(field, `'${expected}' or nothing`, given, 'Only ONNX models can be served')
  }
}

function refuseSwitches(config: ConfigFields): void {
  config.message('response_cache')?.finish({ refused: { enable: 'Keep results in the application' } })
  config.message('model_transaction_policy')?.finish({ refused: { decoupled: 'A request has exactly one response' } })
}

function readFileName(config: ConfigFields): string {
  const name = config.string('default_model_filename') || 'model.onnx'
  if (/[/\\\0]/.test(name) || name === '.' || name === '..') {
    config.fail('default_model_filename', 'the name of a file in the version folder', name)
  }
  return name
}

const graphLevels: Readonly<Record<number, InferenceSession.SessionOptions['graphOptimizationLevel']>> = {
  [-1]: 'basic',
  0: undefined,
  1: 'extended',
  2: 'disabled',
}

function readOptimization(config: ConfigFields): InferenceSession.SessionOptions | undefined {
  const optimization = config.message('optimization')
  const graph = optimization?.message('graph')
  const level = graph?.integer('level', -1) ?? 0
  if (level > 2) graph!.fail('level', '-1, 0, 1 or 2', level)
  graph?.finish()
  const pinned = 'staging memory is page-locked where there is a GPU'
  const tensorRt = 'ONNX Runtime has no such option'
  optimization?.finish({
    noted: {
      input_pinned_memory: pinned,
      output_pinned_memory: pinned,
      priority: 'models on one worker share it by the time they take',
      cuda: tensorRt,
      gather_kernel_buffer_threshold: tensorRt,
      eager_batching: tensorRt,
    },
    refused: { execution_accelerators: 'Load the model with engine.load() and its executionProviders' },
  })
  const graphOptimizationLevel = graphLevels[level]
  return graphOptimizationLevel === undefined ? undefined : { graphOptimizationLevel }
}
