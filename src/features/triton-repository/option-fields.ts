import { InferenceError } from '../../errors.ts'
import { configError, type ConfigSource, position, type TextField } from './text-format.ts'
import { tritonType } from './config-tensors.ts'

/** Options by the beginning of their paths, with the fields that they come from; the first that fits counts. */
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

/** Where a configuration says how batches are formed: of sequences their strategy does. */
function batchingField(fields: readonly TextField[]): string {
  const sequence = fields.find(({ name }) => name === 'sequence_batching')?.values[0]?.value as
    | readonly TextField[]
    | undefined
  const strategy = sequence?.find(({ name }) => name === 'oldest' || name === 'direct')
  return strategy === undefined ? 'dynamic_batching' : `sequence_batching.${strategy.name}`
}

/** Options named in a text, as the fields that they come from. */
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
 * An error of an option, as one of the field that it comes from: what is said of a configuration names its file and line.
 * Others, and those that do, are given back as they are.
 *
 * @param samples of the options for warming up, their places in the configuration.
 */
export function errorAtField(
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

/** Fields that a load may fail for, although they are right: what they name may not be there, a model may not take what they say. */
const loadField = /^(?:ensemble_scheduling|instance_group|optimization\.execution_accelerators|model_warmup)/

function loadErrorAt(
  source: ConfigSource,
  offset: number,
  path: string,
  error: InferenceError,
): InferenceError {
  const { code, message, expected, received, model, cause } = error
  const { line, column } = position(source, offset)
  const details = {
    name: path,
    expected,
    received,
    cause: cause ?? error,
    ...(model === undefined ? {} : { model }),
  }
  return new InferenceError(
    code,
    `${message.replace(/\.$/, '')}. It is asked for by ${path}. At ${source.file}:${line}:${column}`,
    details,
  )
}

function typeWords(text: string): string {
  return text.replace(/^\w+/, (type) => tritonType(type) ?? type)
}

/** Where what is as deep in a path as there is something stands. */
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
