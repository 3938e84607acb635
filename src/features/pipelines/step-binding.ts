import { noOptions, type CheckedOptions } from '../../options/infer-options.ts'
import { invalidConfig, listNames } from '../../errors.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { GraphStep, StepPort } from './pipeline-graph.ts'
import { fannedInputs, shownFanned } from './pipeline-values.ts'
import { byteLengthOf, elementCount, type ElementType } from '../../tensor/tensor.ts'
import { ServedModel } from '../served-model.ts'
import type { BoundStep, Target } from '../target.ts'

/**
 * Smaller rows are cheaper to copy once more than to hold separately; measured, the costs are equal at 32
 * KiB.
 */
const stagedFromBytes = 65_536

/** A step and the model that serves it now. */
export interface StepBinding extends BoundStep {
  readonly step: GraphStep
  readonly target: Target
  readonly version: number
  /** The target, unless it is a pipeline. */
  readonly model: ServedModel | null
  /** The model's metadata when the step was checked. */
  readonly metadata: ModelMetadata
  /** Inputs and outputs of the step: those of its model, or of one that runs for each row. */
  readonly shown: Pick<ModelMetadata, 'inputs' | 'outputs'>
  /** Inputs that fan out: each of their rows becomes a request. `null` for none. */
  readonly fanned: ReadonlySet<string> | null
  /** Indices of the outputs that the model is asked for, in its own order; `null` for all. */
  readonly outputs: readonly number[] | null
  /** Options for a request without options of its own. */
  readonly plainOptions: CheckedOptions
  /** By input of the step: whether its model can do without. */
  readonly optional: readonly boolean[]
  /**
   * By input of the model: its tensor. `null` if an input has none, or if a request is not a single run of
   * the model.
   */
  readonly tensors: readonly number[] | null
  /** Whether its input can be written directly into batch memory. */
  readonly stageable: boolean
}

/**
 * Matches the step's inputs and outputs with the model that serves it.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with the step and its field, what was expected and what was
 * received.
 */
export function bindStep(pipeline: string, step: GraphStep, target: Target, version: number): StepBinding {
  const { metadata } = target
  const served = target instanceof ServedModel ? target : null
  const model = `model '${step.model}'`
  const wrong = (field: string, expected: string, received: string, hint?: string) =>
    invalidConfig(pipeline, `steps[${step.index}].${field}`, expected, received, hint)
  if (served !== null && served.sequences !== null) {
    throw wrong(
      'model',
      'a model without sequences',
      step.model,
      'A pipeline does not pass on sequences: call such a model from the application',
    )
  }
  for (const { name } of step.inputs) {
    if (metadata.inputs.some((input) => input.name === name)) continue
    throw wrong(`inputs.${name}`, `an input of ${model} (${namesOf(metadata.inputs)})`, name)
  }
  const missing = metadata.inputs.find(
    ({ name }) => !isMapped(step.inputs, name) && !target.optionalInputs.includes(name),
  )
  if (missing !== undefined) {
    throw wrong(
      'inputs',
      `a tensor for input '${missing.name}' of ${model}`,
      `tensors for ${namesOf(step.inputs)}`,
    )
  }
  const { outputs } = served?.scheduler.metadata ?? metadata // requests use these indices
  for (const { name } of step.outputs) {
    if (metadata.outputs.some((output) => output.name === name)) continue
    const unservable = metadata.unservableOutputs.find((output) => output.name === name)
    const hint = unservable && `It is ${unservable.type}, which the executor in use cannot return`
    throw wrong(`outputs.${name}`, `an output of ${model} (${namesOf(metadata.outputs)})`, name, hint)
  }
  const named = outputs.flatMap(({ name }, index) => (isMapped(step.outputs, name) ? [index] : []))
  const wanted = named.length === outputs.length ? null : named
  const fanned = step.fanOut === null ? null : fannedInputs(pipeline, step, metadata)
  const tensors =
    fanned === null && served !== null && served.responses === null ? tensorsOf(metadata, step.inputs) : null
  return {
    step,
    target,
    version,
    model: served,
    metadata,
    shown: fanned === null ? metadata : shownFanned(metadata, fanned),
    fanned,
    outputs: wanted,
    plainOptions: wanted === null ? noOptions : Object.freeze({ ...noOptions, outputs: wanted }),
    optional: step.inputs.map(({ name }) => target.optionalInputs.includes(name)),
    tensors,
    made: outputs.map(({ name }) => step.outputs.find((port) => port.name === name)?.tensor ?? -1),
    stageable: tensors !== null && isStageable(metadata),
  }
}

function tensorsOf({ inputs }: ModelMetadata, ports: readonly StepPort[]): number[] | null {
  const tensors = inputs.flatMap(({ name }) => ports.find((port) => port.name === name)?.tensor ?? [])
  return tensors.length === inputs.length ? tensors : null
}

/** Whether rows of a model's only input may be written directly into batch memory. */
function isStageable({ inputs, maxBatchSize }: ModelMetadata): boolean {
  const [input] = inputs
  if (
    maxBatchSize === 0 ||
    inputs.length !== 1 ||
    !input!.shape.slice(1).every((dim) => typeof dim === 'number')
  )
    return false
  return (
    byteLengthOf(input!.type as ElementType, elementCount(input!.shape.slice(1) as number[])) >=
    stagedFromBytes
  )
}

function isMapped(ports: readonly StepPort[], name: string): boolean {
  return ports.some((port) => port.name === name)
}

function namesOf(values: readonly { readonly name: string }[]): string {
  return listNames(values.map(({ name }) => name))
}
