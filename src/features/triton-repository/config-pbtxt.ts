import { InferenceError } from '../../errors.ts'
import { type ModelOptions, resolveConfig } from '../../options/model-config.ts'
import { defined } from '../../options/plain-options.ts'
import { checkBackend } from './check-backend.ts'
import { readDynamicBatching, type ReadSequence, readSequenceBatching } from './config-batching.ts'
import { type GroupKind, readInstanceGroups, readOptimization, readParameters } from './config-execution.ts'
import { ConfigFields } from './config-fields.ts'
import {
  checkFileName,
  type LabelFile,
  readInputs,
  readModelWarmup,
  readOutputs,
  tritonType,
  type WarmupPlan,
} from './config-tensors.ts'
import { ensembleRules, readEnsemble, type ReadEnsemble } from './ensemble-scheduling.ts'
import { checkMessage } from './model-config-schema.ts'
import { configError, type ConfigSource, parseTextFormat, position, type TextField } from './text-format.ts'
import { readVersionPolicy, type VersionPolicy } from './version-policy.ts'

/** The content of a `config.pbtxt`, as options of this library. */
export interface RepositoryConfig {
  readonly options: ModelOptions
  /** The pipeline of an ensemble, which has no options; `null` for a model. */
  readonly pipeline: ReadEnsemble['pipeline'] | null
  /** Label files of the options, not read yet. */
  readonly labelFiles: readonly LabelFile[]
  readonly warmups: readonly WarmupPlan[]
  readonly initialStates: ReadSequence['initial']
  /** Name of the model file in its version folder; `undefined` if not set. */
  readonly fileName: string | undefined
  /** Whether the configuration names ONNX Runtime as its backend. */
  readonly namesBackend: boolean
  readonly versionPolicy: VersionPolicy
  /** Fields without effect here, each with its line and the reason. */
  readonly notes: readonly string[]
  /** Turns an error about an option into one about the field that it comes from. */
  readonly atField: (error: InferenceError) => InferenceError
}

/** Triton's default for the most rows in a run, for a model whose rows can be batched. */
const tritonMaxBatchSize = 4

const rules = {
  noted: {
    runtime: 'models are run by ONNX Runtime',
    metric_tags: 'metrics are labelled with the name of the model',
  },
  refused: {
    batch_input:
      'Every input comes from the requests themselves: compute it in the application, or in the graph',
    batch_output: 'Every output is divided by rows: leave it out',
    model_operations:
      'Libraries of custom operators cannot be registered: export the model with operators of ONNX, or of com.microsoft',
    model_repository_agents: 'Check or fetch the files before loading them',
  },
}

/**
 * Reads a `config.pbtxt`. An empty text is equal to a missing file. Every field of Triton's `ModelConfig` is
 * mapped, noted as without effect, or refused by name.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with the field, what was expected, and the line and column.
 */
export function readModelConfig(source: ConfigSource): RepositoryConfig {
  const notes: string[] = []
  const fields = parseTextFormat(source)
  checkMessage(source, 'ModelConfig', fields)
  const config = new ConfigFields(source, 'ModelConfig', fields, notes)
  const name = config.string('name') || source.model
  if (name !== source.model) config.fail('name', `the name of its folder, '${source.model}'`, name)
  const namesBackend = checkBackend(config)
  const ensemble = readEnsemble(config)
  if (ensemble !== null) {
    const versionPolicy = readVersionPolicy(config)
    config.finish(ensembleRules)
    return {
      options: {},
      ...ensemble,
      warmups: [],
      initialStates: [],
      fileName: undefined,
      namesBackend: true,
      versionPolicy,
      notes,
      atField: (error) => errorAtField(source, fields, [], error),
    }
  }
  const maxBatchSize = readMaxBatchSize(config)
  const sequence = readSequenceBatching(config, maxBatchSize)
  const { inputs, optional } = readInputs(config)
  const { outputs, labelFiles } = readOutputs(config)
  const { groups, kinds } = readInstanceGroups(config)
  const { graphOptimizationLevel, executionProviders } = readOptimization(
    config,
    kinds,
    groups[0]!.gpus ?? [0],
  )
  const { sessionOptions, memory, runOptions, parameters } = readParameters(config, kinds)
  const warmups = readModelWarmup(config, maxBatchSize)
  checkMetrics(config)
  readFileChoice(config, kinds)
  const known = defined({
    maxBatchSize,
    defaultMaxBatchSize: maxBatchSize === undefined ? tritonMaxBatchSize : undefined,
    inputs: listed(inputs),
    outputs: listed(outputs),
    optionalInputs: listed(optional),
    dynamicBatching: sequence === undefined ? readDynamicBatching(config, maxBatchSize) : undefined,
    sequence: sequence?.sequence,
    instanceGroup: groups,
    sessionOptions: filled({ ...sessionOptions, ...defined({ graphOptimizationLevel }) }),
    memory: filled(memory),
    runOptions: filled(runOptions),
    parameters: filled(parameters),
    executionProviders,
  })
  const options = {
    ...known,
    ...defined({ responseCache: readSwitches(config, sequence !== undefined) || undefined }),
  }
  const fileName = readFileName(config)
  const versionPolicy = readVersionPolicy(config)
  config.finish(rules)
  const samples = warmups.map(({ place }) => place)
  const atField = (error: InferenceError) => errorAtField(source, fields, samples, error)
  checkOptions(source.model, known, atField)
  return {
    options,
    pipeline: null,
    labelFiles,
    warmups,
    initialStates: sequence?.initial ?? [],
    fileName,
    namesBackend,
    versionPolicy,
    notes,
    atField,
  }
}

/** If it is missing but inputs and outputs are given, it is 0, as in Triton: dims are then whole shapes. */
function readMaxBatchSize(config: ConfigFields): number | undefined {
  const size = config.integer('max_batch_size', 0)
  return size ?? (config.has('input') && config.has('output') ? 0 : undefined)
}

/** Reads the response cache and the transaction policy; returns whether the cache is on. */
function readSwitches(config: ConfigFields, isSequence: boolean): boolean {
  const cache = config.message('response_cache')
  const isCached = cache?.boolean('enable') ?? false
  cache?.finish()
  if (isCached && isSequence)
    config.fail(
      'response_cache',
      'no response cache beside sequence_batching',
      'enable: true',
      'An answer depends on what came before in its sequence',
    )
  config.message('model_transaction_policy')?.finish({
    refused: {
      decoupled:
        'A request has exactly one response: use a model without loops over tokens, or call it once for each',
    },
  })
  return isCached
}

function readFileName(config: ConfigFields): string | undefined {
  const name = config.string('default_model_filename')
  if (!name) return undefined
  if (/[/\\]/.test(name))
    config.fail('default_model_filename', 'the name of a file in the version folder', name)
  return checkFileName(config, 'default_model_filename', name)
}

/** Reads the choice of files by GPU compute capability. On the CPU the default file is used, as in Triton. */
function readFileChoice(config: ConfigFields, kinds: ReadonlySet<GroupKind>): void {
  const choices = config.stringMap('cc_model_filenames')
  if (choices.size === 0) return
  if (kinds.has('KIND_GPU')) {
    const hint =
      'Use default_model_filename: the compute capability of a GPU is not looked at, and an ONNX file is for all of them'
    config.fail(
      'cc_model_filenames',
      'to be omitted beside KIND_GPU, as it is not supported',
      [...choices.keys()],
      hint,
    )
  }
  config.note('cc_model_filenames', 'it is for GPUs of one compute capability; the default file is used')
}

function listed<T>(values: readonly T[]): readonly T[] | undefined {
  return values.length === 0 ? undefined : values
}

function filled<T extends object>(options: T): T | undefined {
  return Object.keys(options).length === 0 ? undefined : options
}

/** Finds contradictions now, instead of at the load. */
function checkOptions(model: string, options: ModelOptions, atField: RepositoryConfig['atField']): void {
  try {
    resolveConfig(model, { path: model, ...options })
  } catch (error) {
    throw atField(error as InferenceError)
  }
}

/** The only family of metrics whose buckets Triton lets users set. */
const family = 'nv_inference_first_response_histogram_ms'

/** Checks `model_metrics` as Triton does. It has no effect here, which is noted elsewhere. */
function checkMetrics(config: ConfigFields): void {
  const metrics = config.message('model_metrics')
  if (metrics === undefined) return
  for (const control of metrics.messages('metric_control')) {
    const identifier = control.message('metric_identifier')
    if (identifier === undefined) return control.fail('metric_identifier', 'a metric_identifier', undefined)
    const name = identifier.string('family')
    if (name !== family) identifier.fail('family', `'${family}'`, name)
    const histogram = control.message('histogram_options')
    const buckets = histogram?.numbers('buckets') ?? []
    if (buckets.length === 0) control.fail('histogram_options', 'buckets', 'none')
    if (buckets.some((bucket, index) => index > 0 && bucket <= buckets[index - 1]!))
      histogram!.fail('buckets', 'buckets in ascending order', buckets)
  }
  config.note('model_metrics', 'the buckets of histograms are fixed')
}

/** Option paths by prefix, and the fields that they come from. The first match counts. */
const origins: readonly (readonly [option: RegExp, field: string])[] = [
  [/^steps(\[\d+\])\.inputs/, 'ensemble_scheduling.step$1.input_map'],
  [/^steps(\[\d+\])\.outputs/, 'ensemble_scheduling.step$1.output_map'],
  [/^steps(\[\d+\])\.model/, 'ensemble_scheduling.step$1.model_name'],
  [/^steps(\[\d+\])\.version/, 'ensemble_scheduling.step$1.model_version'],
  [/^steps/, 'ensemble_scheduling.step'],
  [/^maxInFlight/, 'ensemble_scheduling.max_inflight_requests'],
  [/^inputs(\[\d+\])\.type/, 'input$1.data_type'],
  [/^outputs(\[\d+\])\.type/, 'output$1.data_type'],
  [/^inputs(\[\d+\])\.reshape(?:\.\d+)?/, 'input$1.reshape.shape'],
  [/^outputs(\[\d+\])\.reshape(?:\.\d+)?/, 'output$1.reshape.shape'],
  [/^inputs/, 'input'],
  [/^outputs/, 'output'],
  [/^optionalInputs/, 'input'],
  [/^warmup(\[\d+\])\.count/, 'model_warmup$1.count'],
  [/^warmup(\[\d+\]).*/, 'model_warmup$1.inputs'],
  [/^instanceGroup/, 'instance_group'],
  [/^sequence\.controls(\[\d+\])\.input/, 'sequence_batching.control_input$1.name'],
  [/^sequence\.controls(\[\d+\])\.kind/, 'sequence_batching.control_input$1.control.kind'],
  [/^sequence\.controls(\[\d+\])\.type/, 'sequence_batching.control_input$1.control'],
  [/^sequence\.controls/, 'sequence_batching.control_input'],
  [/^sequence\.state(\[\d+\])\.(input|output)/, 'sequence_batching.state$1.$2_name'],
  [/^sequence\.state(\[\d+\])\.type/, 'sequence_batching.state$1.data_type'],
  [/^sequence\.state(\[\d+\])\.dims/, 'sequence_batching.state$1.dims'],
  [/^sequence\.state(\[\d+\])\.initial/, 'sequence_batching.state$1.initial_state'],
  [/^sequence\.maxSequenceIdleMs/, 'sequence_batching.max_sequence_idle_microseconds'],
  [/^sequence\.oldest\.maxCandidateSequences/, 'sequence_batching.oldest.max_candidate_sequences'],
  [/^sequence\.direct\.minimumSlotUtilization/, 'sequence_batching.direct.minimum_slot_utilization'],
  [/^sequence\.(direct|oldest)\.maxQueueDelayMs/, 'sequence_batching.$1.max_queue_delay_microseconds'],
  [/^sessionOptions\.graphOptimizationLevel/, 'optimization.graph.level'],
  [/^(?:sessionOptions|memory|runOptions|parameters).*/, 'parameters'],
  [/^executionProviders.*/, 'optimization.execution_accelerators'],
]

/** The field of a `config.pbtxt` that an option comes from. */
function fieldOf(fields: readonly TextField[], option: string): string {
  for (const [pattern, field] of origins) if (pattern.test(option)) return option.replace(pattern, field)
  return fieldWords(option).replace(/^dynamic_batching/, batchingField(fields))
}

/** The field that configures batching: for sequences, that of their strategy. */
function batchingField(fields: readonly TextField[]): string {
  const sequence = fields.find(({ name }) => name === 'sequence_batching')?.values[0]?.value as
    | readonly TextField[]
    | undefined
  const strategy = sequence?.find(({ name }) => name === 'oldest' || name === 'direct')
  return strategy === undefined ? 'dynamic_batching' : `sequence_batching.${strategy.name}`
}

/** Replaces the options named in a text by the fields that they come from. */
function fieldWords(text: string): string {
  return text
    .replaceAll('maxQueueDelayMs', 'max_queue_delay_microseconds')
    .replaceAll('defaultTimeoutMs', 'default_timeout_microseconds')
    .replaceAll(
      /\b(?:max|dynamic|preferred|preserve|priority|default|timeout|allow|instance)(?:[A-Z][a-z]+)+\b/g,
      (word) => word.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    )
}

/**
 * Turns an error about an option into one about the field that it comes from, with file and line if it is
 * about the configuration. Other errors, and converted ones, are returned unchanged.
 *
 * @param samples for each warm-up option, its index in the configuration.
 */
function errorAtField(
  source: ConfigSource,
  fields: readonly TextField[],
  samples: readonly number[],
  error: InferenceError,
): InferenceError {
  const { code, argument, message } = error
  if (argument === undefined || argument === 'name' || message.includes(`At ${source.file}:`)) return error
  const path = fieldOf(
    fields,
    argument.replace(/^warmup\[(\d+)\]/, (_, index) => `warmup[${samples[Number(index)]}]`),
  )
  const offset = offsetOf(fields, path)
  if (code !== 'ERR_MODEL_CONFIG')
    return loadField.test(path) ? loadErrorAt(source, offset, path, error) : error
  const isType = argument.endsWith('.type')
  const of =
    argument.startsWith('warmup') && error.cause instanceof InferenceError ? `${error.cause.argument}: ` : '' // the input
  const expected = of + (isType ? typeWords(String(error.expected)) : fieldWords(String(error.expected)))
  const inMilliseconds = path.endsWith('_microseconds') && typeof error.received === 'number'
  const received = isType
    ? typeWords(String(error.received))
    : inMilliseconds
      ? Math.round(Number(error.received) * 1000)
      : error.received
  const hint = /\. ((?:(?!, received ).)*)$/.exec(message)?.[1]
  return configError(
    source,
    offset,
    path,
    expected,
    received,
    hint === undefined ? undefined : fieldWords(hint),
  )
}

/**
 * Fields that are valid but may still make a load fail: what they name may not exist, or the model may not
 * accept it.
 */
const loadField = /^(?:ensemble_scheduling|instance_group|optimization\.execution_accelerators|model_warmup)/

function loadErrorAt(
  source: ConfigSource,
  offset: number,
  path: string,
  error: InferenceError,
): InferenceError {
  const { code, message, expected, received, model, cause } = error
  const { line, column } = position(source, offset)
  return new InferenceError(
    code,
    `${message.replace(/\.$/, '')}. It is asked for by ${path}. At ${source.file}:${line}:${column}`,
    { model, name: path, expected, received, cause: cause ?? error },
  )
}

function typeWords(text: string): string {
  return text.replace(/^\w+/, (type) => tritonType(type) ?? type)
}

/** Offset of the deepest existing part of a path. */
function offsetOf(fields: readonly TextField[], path: string): number {
  let offset = 0
  let level = fields
  for (const part of path.split('.')) {
    const [, name, index = '0'] = /^([^[]*)(?:\[(\d+)\])?/.exec(part)!
    const named = level.filter((field) => field.name === name)
    const value = named.flatMap(({ values }) => values)[Number(index)]
    if (named.length === 0 || value === undefined) break
    offset = part.includes('[') ? value.offset : named[0]!.offset
    if (value.kind !== 'message') break
    level = value.value
  }
  return offset
}
