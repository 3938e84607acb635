import * as v from 'valibot'
import type { Tensor } from 'onnxruntime-common'
import type { TensorType } from '../tensor/tensor.ts'
import type {
  ModelSignature,
  NameOf,
  OptionalName,
  RequiredName,
  TensorFeed,
  TensorOutput,
} from './model-signature.ts'
import { invalidConfig, listNames } from '../errors.ts'
import {
  checkRules,
  declares,
  parseOptions,
  optionsOf,
  parametersSchema,
  texts,
  wholeNumber,
} from './options-schema.ts'
import { isPlainObject, ownProperties } from './plain-options.ts'
import { carriedType, checkNamesAndDims, dims } from './tensor-config.ts'
import { readVersion } from './method-options.ts'

/** An input of a pipeline. */
export interface PipelineInput {
  /** Its name in requests and answers. */
  name: string
  /** The type of the elements, checked against the models. Default: that of the models that take it. */
  type?: TensorType
  /**
   * Dims of a request, -1 for a variable one; without the batch dimension where `maxBatchSize` is not 0. Default: those
   * of the models.
   */
  dims?: readonly number[]
  /**
   * Whether a request may leave it out. Steps then run without it, or are skipped if their model needs it. Default
   * `false`.
   */
  optional?: boolean
}

/** An output of a pipeline. */
export interface PipelineOutput {
  /** Its name in requests and answers. */
  name: string
  /** As {@link PipelineInput.type}. Default: that of the model that makes it. */
  type?: TensorType
  /** As {@link PipelineInput.dims}. Default: those of the model. */
  dims?: readonly number[]
  /** Class names by index, for an output of class scores; used by `model.classification()`. Default: none. */
  labels?: readonly string[]
}

/** Tensors of one request, by their names in the pipeline. */
export type PipelineTensors = Readonly<Record<string, Tensor>>

/** One model of a pipeline; Triton's `ensemble_scheduling.step`. */
export interface PipelineStep {
  /**
   * A unique name in the pipeline, for errors, statistics and reports. Default: the model's name, with a number if
   * several steps use the model.
   */
  name?: string
  /** The name of a loaded model, function or pipeline. */
  model: string
  /** The version to use. Default: the newest that is ready. */
  version?: number | string
  /** The pipeline tensor for each input of the model: `{ modelInput: 'name' }`. Must list every required input. */
  inputs: Readonly<Record<string, string>>
  /**
   * The pipeline names of the model's outputs: `{ modelOutput: 'name' }`. Outputs that are not listed are not computed.
   */
  outputs: Readonly<Record<string, string>>
  /**
   * Whether the step runs for a request. Called with the tensors that the step takes and those in `needs`, once they
   * are there. `false` skips the step, and every step that needs its outputs. It must be synchronous and short, since
   * it runs on the application's thread, and must not change the tensors, which belong to the request. Default: always.
   */
  when?: (tensors: PipelineTensors) => boolean
  /** Tensors that `when` receives besides those that the step takes. Default: none. */
  needs?: readonly string[]
  /**
   * Whether each row becomes a request of its own to the step's model, such as each crop of a detector for a
   * recogniser. The rows share batches with those of other callers, also on a model that takes one row at a time, and
   * their answers form one tensor again, in the order of the rows.
   *
   * - A request may have 0 to 10 000 rows, and a different number each time.
   * - Rows wait while the model's queue is full.
   * - The first row that fails fails the request.
   * - `true` fans out all inputs, except those that all rows of a batch share. A list names the model's inputs whose
   *   rows fan out; the others go unchanged with each row.
   *
   * Default `false`.
   */
  fanOut?: boolean | readonly string[]
}

/** Inputs as {@link PipelineInput} or bare names. */
export type PipelineInputs = readonly (string | PipelineInput)[]

/** Outputs as {@link PipelineOutput} or bare names. */
export type PipelineOutputs = readonly (string | PipelineOutput)[]

/** The signature that a pipeline's declaration implies; tensors of any type where it gives none. */
export interface PipelineSignature<
  I extends PipelineInputs,
  O extends PipelineOutputs,
> extends ModelSignature {
  inputs: { [Entry in I[number] as RequiredName<Entry>]: TensorFeed<Entry> } & {
    [Entry in I[number] as OptionalName<Entry>]?: TensorFeed<Entry> | never
  }
  outputs: { [Entry in O[number] as NameOf<Entry>]: TensorOutput<Entry> }
}

/**
 * A graph of models, functions and other pipelines. Each tensor has a unique name and comes from the request or from
 * one step. A step runs as soon as all tensors that it takes are there.
 */
export interface PipelineConfig<
  I extends PipelineInputs = PipelineInputs,
  O extends PipelineOutputs = PipelineOutputs,
> {
  /** Inputs of requests: names, or declarations. */
  inputs: I
  /** In any order: a step waits only for the tensors that it takes. */
  steps: readonly PipelineStep[]
  /** Outputs of requests. An answer leaves out those whose step was skipped. */
  outputs: O
  /**
   * Most rows of a request, at most as many as each model takes; 0 for requests without rows. Default: the smallest
   * limit of the models. The pipeline itself batches nothing: each step does.
   */
  maxBatchSize?: number
  /** Most requests in flight; further ones wait, in the order of their calls. Default: no limit. */
  maxInFlight?: number
  /** As for a model. Default: none. */
  parameters?: Readonly<Record<string, string>>
  /** As for a model. Default 1. */
  version?: number | string
}

/** A configuration with all defaults that do not depend on a model. */
export type ResolvedPipeline = ReturnType<typeof resolvePipelineConfig>
/** A step with defaults in place. */
export type ResolvedStep = ResolvedPipeline['steps'][number]
/** A tensor declared by a pipeline's configuration. */
export type ResolvedTensor = Pick<ResolvedPipeline['inputs'][number], 'name' | 'type' | 'dims'>

/** Whether a configuration is a pipeline's. */
export function isPipeline<C extends object>(config: C): config is Extract<C, { readonly steps: unknown }> {
  return Object.hasOwn(config, 'steps')
}

const name = v.pipe(v.string(), v.minLength(1, 'a name'))
const tensorEntries = { name, type: v.optional(carriedType), dims: v.optional(dims) }
const named = (given: unknown) => (typeof given === 'string' ? { name: given } : given)
const inputSchema = v.pipe(
  v.unknown(),
  v.transform(named),
  optionsOf({ ...tensorEntries, optional: v.optional(v.boolean(), false) }),
)
const outputSchema = v.pipe(
  v.unknown(),
  v.transform(named),
  optionsOf({ ...tensorEntries, labels: v.optional(texts) }),
)
const readOnce = (given: unknown) => (isPlainObject(given) ? ownProperties(given) : given)
const names = v.pipe(v.unknown(), v.transform(readOnce), {
  ...v.custom<Readonly<Record<string, string>>>(
    (given) =>
      isPlainObject(given) &&
      Object.values(given).every((tensor) => typeof tensor === 'string' && tensor !== ''),
  ),
  expects: 'an object of names of tensors',
})

const schema = declares<
  Omit<PipelineConfig, 'inputs' | 'outputs'> & { inputs: readonly unknown[]; outputs: readonly unknown[] }
>()({
  inputs: v.pipe(v.array(inputSchema), v.minLength(1, 'at least one input')),
  steps: v.pipe(
    v.array(
      declares<PipelineStep>()({
        name: v.optional(name),
        model: name,
        version: v.optional(v.unknown()),
        inputs: names,
        outputs: names,
        when: v.optional({
          ...v.custom<NonNullable<PipelineStep['when']>>((given) => typeof given === 'function'),
          expects: 'a function',
        }),
        needs: v.optional(v.array(name), []),
        fanOut: v.optional(
          v.union([v.boolean(), v.pipe(v.array(name), v.minLength(1, 'at least one input of the model'))]),
          false,
        ),
      }),
    ),
    v.minLength(1, 'at least one step'),
  ),
  outputs: v.pipe(v.array(outputSchema), v.minLength(1, 'at least one output')),
  maxBatchSize: v.optional(wholeNumber(0)),
  maxInFlight: v.optional(wholeNumber(1)),
  parameters: v.optional(parametersSchema, {}),
  version: v.optional(v.unknown()),
})

/**
 * Turns a caller's pipeline configuration into a complete and frozen one that is checked by itself. `PipelineGraph`
 * checks that its names form a graph.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` with the option's path, what was expected and what was received.
 */
export function resolvePipelineConfig(model: string, config: unknown) {
  const { version, inputs, steps, outputs, maxInFlight, ...plain } = parseOptions(
    schema,
    config,
    'config',
    model,
  )
  const details = { model, code: 'ERR_MODEL_CONFIG' } as const
  const versionOf = (given: unknown, name: string) =>
    given === undefined ? undefined : readVersion(given, name, details)
  checkNamesAndDims(model, 'inputs', inputs)
  checkNamesAndDims(model, 'outputs', outputs)
  const stepNames = namesOf(model, steps)
  return Object.freeze({
    ...plain,
    version: versionOf(version, 'version'),
    inputs,
    outputs,
    /** `Infinity` for no limit. */
    maxInFlight: maxInFlight ?? Infinity,
    steps: steps.map((step, index) => {
      const at = `steps[${index}]`
      checkRules(model, [
        [step.when === undefined && step.needs.length > 0, `${at}.needs`, 'to be omitted without when', step.needs],
        [Object.keys(step.inputs).length === 0, `${at}.inputs`, 'at least one input of the model', 'none'],
        [Object.keys(step.outputs).length === 0, `${at}.outputs`, 'at least one output of the model', 'none'],
      ]) // prettier-ignore
      return {
        ...step,
        name: stepNames[index]!,
        version: versionOf(step.version, `${at}.version`),
        /** Names of the model's inputs, each with its pipeline tensor. */
        inputs: Object.entries(step.inputs),
        outputs: Object.entries(step.outputs),
        when: step.when ?? null,
        /** The model's inputs that fan out; `null` for none. */
        fanOut: fanOutOf(model, index, step),
      }
    }),
  })
}

function fanOutOf(
  model: string,
  index: number,
  { inputs, fanOut }: Required<Pick<PipelineStep, 'inputs' | 'fanOut'>>,
): readonly string[] | 'all' | null {
  if (typeof fanOut === 'boolean') return fanOut ? 'all' : null
  const names = Object.keys(inputs)
  const strange = fanOut.findIndex((input, at) => !names.includes(input) || fanOut.indexOf(input) !== at)
  if (strange === -1) return fanOut
  throw invalidConfig(
    model,
    `steps[${index}].fanOut[${strange}]`,
    `one of the inputs that the step gives its model (${listNames(names)}), each once`,
    fanOut[strange],
  )
}

/** Given names come first; the other steps get a number. */
function namesOf(
  model: string,
  steps: readonly { readonly name?: string | undefined; readonly model: string }[],
): string[] {
  const taken = new Set<string>()
  for (const [index, step] of steps.entries()) {
    if (step.name === undefined) continue
    if (taken.has(step.name))
      throw invalidConfig(model, `steps[${index}].name`, 'a name of its own', step.name)
    taken.add(step.name)
  }
  const numbers = new Map<string, number>() // next number to try, by model
  return steps.map((step) => {
    if (step.name !== undefined) return step.name
    let free = step.model
    let number = numbers.get(step.model) ?? 2
    while (taken.has(free)) free = `${step.model}-${number++}`
    numbers.set(step.model, number)
    taken.add(free)
    return free
  })
}
