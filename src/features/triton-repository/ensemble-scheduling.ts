import type { PipelineConfig, PipelineStep } from '../../options/pipeline-config.ts'
import type { TensorConfig } from '../../options/tensor-config.ts'
import type { TensorType } from '../../tensor/tensor.ts'
import { readEnsembleParameters } from './config-execution.ts'
import { defined } from '../../options/plain-options.ts'
import type { ConfigFields } from './config-fields.ts'
import { readInputs, readOutputs, type LabelFile } from './config-tensors.ts'

/** The content of an ensemble's configuration. */
export interface ReadEnsemble {
  readonly pipeline: Omit<PipelineConfig, 'version'>
  readonly labelFiles: readonly LabelFile[]
}

const ofSteps = 'Say it of the models of its steps'
/** Fields that an ensemble cannot have, as in Triton. */
export const ensembleRules = {
  noted: {
    runtime: 'the models of the steps are run by ONNX Runtime',
    metric_tags: 'metrics are labelled with the name of the ensemble',
  },
  refused: {
    instance_group: `An ensemble has no instances. ${ofSteps}`,
    model_warmup: `An ensemble is not warmed. ${ofSteps}`,
    optimization: `An ensemble has no sessions. ${ofSteps}`,
    response_cache: `Answers of an ensemble are not kept. ${ofSteps}`,
    default_model_filename: 'An ensemble has no file: leave it out',
    cc_model_filenames: 'An ensemble has no file: leave it out',
    batch_input: 'Every input comes from the requests themselves: leave it out',
    batch_output: 'Every output comes from a step: leave it out',
    model_operations: 'An ensemble has no operators: leave it out',
    model_repository_agents: 'Check or fetch the files before loading them',
    model_transaction_policy: 'A request has exactly one response: leave it out',
    model_metrics: `An ensemble has no metrics of its own. ${ofSteps}`,
  },
}

/** Reads `ensemble_scheduling` and the ensemble's tensors; `null` if the model is no ensemble. */
export function readEnsemble(config: ConfigFields): ReadEnsemble | null {
  const ensemble = config.message('ensemble_scheduling')
  if (ensemble === undefined) return null
  const maxInFlight = ensemble.integer('max_inflight_requests') || undefined
  const steps = ensemble.messages('step').map(readStep)
  ensemble.finish()
  if (steps.length === 0) ensemble.fail('step', 'at least one step', 'none')
  const maxBatchSize = config.integer('max_batch_size', 0) ?? 0
  const { inputs, optional } = readInputs(config)
  const { outputs, labelFiles } = readOutputs(config)
  if (inputs.length === 0) config.fail('input', 'at least one input', 'none')
  if (outputs.length === 0) config.fail('output', 'at least one output', 'none')
  const pipelineInputs = inputs.map((input, index) => ({
    ...tensorOf(config, 'input', input, index),
    ...(optional.includes(input.name) && { optional: true }),
  }))
  const pipelineOutputs = outputs.map((output, index) => tensorOf(config, 'output', output, index))
  const parameters = readEnsembleParameters(config)
  return {
    pipeline: {
      inputs: pipelineInputs,
      outputs: pipelineOutputs,
      steps,
      maxBatchSize,
      ...defined({ maxInFlight }),
      ...(Object.keys(parameters).length > 0 && { parameters }),
    },
    labelFiles,
  }
}

function tensorOf(
  config: ConfigFields,
  field: 'input' | 'output',
  { name, type, dims, reshape }: TensorConfig,
  index: number,
): { name: string; type: TensorType; dims: readonly number[] } {
  if (reshape !== undefined)
    config.fail(
      field,
      `${field}[${index}] without reshape`,
      reshape,
      `A tensor has one shape in all of an ensemble. ${ofSteps}`,
    )
  return { name, type: type as TensorType, dims: dims! }
}

function readStep(step: ConfigFields): PipelineStep {
  const model = step.string('model_name')
  const version = step.integer('model_version')
  const namespace = step.string('model_namespace')
  const inputs = readMap(step, 'input_map', 'an input of the model')
  const outputs = readMap(step, 'output_map', 'an output of the model')
  step.finish()
  if (!model) step.fail('model_name', 'the name of a model', model)
  if (version !== undefined && version !== -1 && version < 1)
    step.fail('model_version', '-1 for the latest, or the number of a version', version)
  if (namespace) step.fail('model_namespace', 'nothing, as names of models are in no namespace', namespace)
  if (Object.keys(inputs).length === 0) step.fail('input_map', 'at least one input of the model', 'none')
  if (Object.keys(outputs).length === 0) step.fail('output_map', 'at least one output of the model', 'none')
  return { model, inputs, outputs, ...(version !== undefined && version !== -1 && { version }) }
}

function readMap(
  step: ConfigFields,
  field: 'input_map' | 'output_map',
  what: string,
): Record<string, string> {
  const entries = [...step.stringMap(field)]
  for (const [key, value] of entries) {
    if (key === '') step.fail(field, `the name of ${what} as its key`, key)
    if (value === '') step.fail(field, `the name of a tensor of the ensemble for '${key}'`, value)
  }
  return Object.fromEntries(entries)
}
