import type { Tensor, TypedTensor } from 'onnxruntime-common'
import type { TensorType } from '../tensor/tensor.ts'
import type { FunctionFeed } from './function-tensor.ts'
import type { FeedValue, ModelSignature } from './model-signature.ts'

/** What requests give a pipeline. */
export interface PipelineInput {
  /** As requests and answers have it. */
  name: string
  /** The type of the elements, checked against the models. Default: that of the models it goes to. */
  type?: TensorType
  /** Dims of a request, -1 for a variable one; without the batch dimension where `maxBatchSize` is not 0. Default: those of the models. */
  dims?: readonly number[]
  /** Whether a request may leave it out; steps then run without it, or not at all where their model needs it. Default `false`. */
  optional?: boolean
}

/** What a pipeline answers with. */
export interface PipelineOutput {
  /** As requests and answers have it. */
  name: string
  /** As {@link PipelineInput.type}. Default: that of the model it comes from. */
  type?: TensorType
  /** As {@link PipelineInput.dims}. Default: those of the model. */
  dims?: readonly number[]
  /** Names of the classes whose scores it has, by index; for `model.classification()`. Default: none. */
  labels?: readonly string[]
}

/** Tensors of one request by their names in the pipeline. */
export type PipelineTensors = Readonly<Record<string, Tensor>>

/** One model of a pipeline; Triton's `ensemble_scheduling.step`. */
export interface PipelineStep {
  /** A name of its own in the pipeline, for errors, statistics and reports. Default: the model's, with a number where several steps have it. */
  name?: string
  /** The name of a loaded model, function or pipeline. */
  model: string
  /** The version that is to answer. Default: the newest that is ready. */
  version?: number | string
  /** Which tensor of the pipeline each input of the model is: `{ modelInput: 'name' }`. Every input but those that are optional. */
  inputs: Readonly<Record<string, string>>
  /** What the outputs of the model are called in the pipeline: `{ modelOutput: 'name' }`. Those left out are not made. */
  outputs: Readonly<Record<string, string>>
  /**
   * Whether the step is run for a request. It is called once the tensors that the step takes are there, with those and with the ones
   * that `needs` names; `false` leaves the step out, and with it the steps that cannot do without its outputs. Not asynchronous, and
   * short: it runs on the application's thread. The tensors are the request's own: leave them as they are. Default: always.
   */
  when?: (tensors: PipelineTensors) => boolean
  /** Tensors that `when` is given beside those that the step takes. Default: none. */
  needs?: readonly string[]
  /**
   * Whether each row of what the step takes is a request of its own to its model, such as each crop of a detector to a recogniser: the rows
   * run with those of other callers, also by a model that takes but one row at a time, and their answers are one tensor again, in the order
   * of the rows. There may be 0 to 10 000 of them, and another number in each request. As long as the queue of the model has no room the
   * others wait; the first that fails fails the request. `true`: of all inputs, but for those that all rows of a batch share; or the names
   * of the model's inputs whose rows are meant, beside which the others go with each row as they are. Default `false`.
   */
  fanOut?: boolean | readonly string[]
}

/** In the words of {@link PipelineInput}, or as bare names. */
export type PipelineInputs = readonly (string | PipelineInput)[]

/** In the words of {@link PipelineOutput}, or as bare names. */
export type PipelineOutputs = readonly (string | PipelineOutput)[]

type NameOf<Entry> = Entry extends string
  ? Entry
  : Entry extends { readonly name: infer Name extends string }
    ? Name
    : never
type Required<Entry> = Entry extends { readonly optional: true } ? never : NameOf<Entry>
type Optional<Entry> = Entry extends { readonly optional: true } ? NameOf<Entry> : never
type FeedOf<Entry> = Entry extends { readonly type: infer Type extends TensorType }
  ? FunctionFeed<Type>
  : FeedValue
type OutputOf<Entry> = Entry extends { readonly type: infer Type extends TensorType }
  ? TypedTensor<Type>
  : Tensor

/** The signature of a pipeline, as its declaration has it: tensors of any type where that says none. */
export interface PipelineSignature<
  I extends PipelineInputs,
  O extends PipelineOutputs,
> extends ModelSignature {
  inputs: { [Entry in I[number] as Required<Entry>]: FeedOf<Entry> } & {
    [Entry in I[number] as Optional<Entry>]?: FeedOf<Entry> | never
  }
  outputs: { [Entry in O[number] as NameOf<Entry>]: OutputOf<Entry> }
}

/**
 * A graph of models, functions and other pipelines. A tensor has one name: it is given by the request or made by one step, and every
 * step that takes it runs as soon as all that it takes is there.
 */
export interface PipelineConfig<
  I extends PipelineInputs = PipelineInputs,
  O extends PipelineOutputs = PipelineOutputs,
> {
  /** What requests give: names, or declarations. */
  inputs: I
  /** In any order: a step waits for what it takes, and for nothing else. */
  steps: readonly PipelineStep[]
  /** An answer lacks those whose step was left out. */
  outputs: O
  /**
   * Most rows of a request, at most as many as each model takes; 0 for requests that have none. Default: the least of the models'. It
   * joins no requests: each step does that for itself.
   */
  maxBatchSize?: number
  /** Most requests under way; others wait until one has been answered, in the order of their calls. Default: no limit. */
  maxInFlight?: number
  /** As that of a model. Default: none. */
  parameters?: Readonly<Record<string, string>>
  /** As that of a model. Default 1. */
  version?: number | string
}
