import { invalidConfig, type InferenceError } from '../../errors.ts'
import { type ResolvedPipeline, type ResolvedTensor } from '../../options/pipeline-config.ts'
import {
  batchAxisOf,
  checkBatchDimension,
  shapesFit,
  shownShape,
  type ModelMetadata,
  type ValueMetadata,
} from '../../tensor/metadata.ts'
import { indexColumn } from '../../request/output-rows.ts'
import { isElementType } from '../../tensor/tensor.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'
import type { StepBinding } from './step-binding.ts'

type Shape = ValueMetadata['shape']

/** What is known of a tensor, and from which model. */
interface KnownTensor extends Omit<ValueMetadata, 'name'> {
  readonly by: string
}

/** The types and shapes of a pipeline's tensors, by their index in its graph. */
export class CheckedTensors {
  /** Most rows of a request in one run, when every model that may join requests does so. */
  readonly maxBatchSize: number
  readonly #graph: PipelineGraph
  readonly #known: (KnownTensor | null)[]

  /**
   * @param bindings of all steps.
   * @throws InferenceError `ERR_MODEL_CONFIG` if a tensor does not fit a model that takes it, or differs from
   * its declaration.
   */
  constructor(graph: PipelineGraph, config: ResolvedPipeline, bindings: readonly StepBinding[]) {
    this.#graph = graph
    this.maxBatchSize = this.#findMaxBatchSize(config.maxBatchSize, bindings)
    this.#known = graph.tensors.map(() => null)
    for (const [index, input] of config.inputs.entries()) this.#declare(index, input)
    for (const step of graph.steps) {
      const { outputs } = bindings[step.index]!.shown
      for (const { name, tensor } of step.outputs) {
        const { name: output, rows, ...made } = outputs.find((each) => each.name === name)!
        const own = indexColumn(rows) // others may be missing or renamed
        this.#known[tensor] = {
          ...made,
          ...(own !== null && { rows: { index: own } }),
          by: `made by output '${output}' of step '${step.name}'`,
        }
      }
    }
    for (const step of graph.steps) {
      this.check(step, bindings[step.index]!)
      this.#learn(step, bindings[step.index]!)
    }
    for (const [index, tensor] of graph.inputs.entries()) {
      const { type } = this.#known[tensor] ?? { type: 'float32' }
      if (!isElementType(type)) throw this.#wrong(`inputs[${index}]`, 'a tensor', type)
    }
    const unknown = graph.inputs.findIndex((tensor) => this.#known[tensor] === null)
    if (unknown !== -1)
      throw this.#wrong(
        `inputs[${unknown}].type`,
        'to be given, because no model takes the tensor',
        undefined,
      )
    for (const [index, output] of config.outputs.entries()) this.#checkOutput(index, output)
  }

  /** Checks that the step's current model still fits the tensors. The model may have been replaced. */
  check(step: GraphStep, { shown }: StepBinding): void {
    for (const { name, tensor } of step.inputs) {
      const taken = shown.inputs.find((input) => input.name === name)!
      const known = this.#known[tensor]
      if (known)
        this.#compare(
          `steps[${step.index}].inputs.${name}`,
          taken,
          `of input '${name}' of model '${step.model}'`,
          known,
          tensor,
        )
    }
    for (const { name, tensor } of step.outputs) {
      const made = shown.outputs.find((output) => output.name === name)!
      const known = this.#known[tensor]!
      this.#compare(
        `steps[${step.index}].outputs.${name}`,
        known,
        `of '${this.#graph.tensors[tensor]!.name}', ${known.by}`,
        { ...made, by: `output '${name}' of model '${step.model}'` },
        null,
      )
    }
  }

  /** Completes what is known of a tensor with what a model that takes it says. */
  #learn(step: GraphStep, { shown }: StepBinding): void {
    for (const { name, tensor } of step.inputs) {
      const { name: input, ...taken } = shown.inputs.find((each) => each.name === name)!
      const known = this.#known[tensor]
      this.#known[tensor] = known
        ? both(known, taken)
        : { ...taken, by: `taken by input '${input}' of step '${step.name}'` }
    }
  }

  /**
   * The pipeline's metadata for its users.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG` if requests are to have rows, and an input or output of a model
   * has none.
   */
  metadata(): Pick<ModelMetadata, 'inputs' | 'outputs'> {
    const valueOf = (tensor: number): ValueMetadata => {
      const { by: _, ...value } = this.#known[tensor]!
      return { name: this.#graph.tensors[tensor]!.name, ...value }
    }
    const metadata = { inputs: this.#graph.inputs.map(valueOf), outputs: this.#graph.outputs.map(valueOf) }
    checkBatchDimension(this.#graph.name, this.maxBatchSize, metadata)
    return metadata
  }

  /**
   * The smallest of the models' limits. No requests are joined if one of the models joins none. Steps that
   * fan out do not count, as their rows are not those of a request.
   */
  #findMaxBatchSize(given: number | undefined, bindings: readonly StepBinding[]): number {
    const sizes = bindings.map(({ target, fanned }) => (fanned === null ? target.largestBatch : Infinity))
    const smallest = Math.min(...sizes)
    if (given === undefined) return smallest === Infinity ? 0 : smallest
    const least = Math.min(...sizes.filter((size) => size > 0))
    if (given <= least) return given
    const step = this.#graph.steps[sizes.indexOf(least)]!
    throw this.#wrong(
      'maxBatchSize',
      `at most ${least}, as model '${step.model}' of step '${step.name}' takes`,
      given,
    )
  }

  #declare(index: number, { name, type, dims }: ResolvedTensor): void {
    if (type === undefined && dims === undefined) return
    if (type === undefined || dims === undefined) {
      const [given, lacking] = type === undefined ? ['dims', 'type'] : ['type', 'dims']
      throw this.#wrong(
        `inputs[${index}].${lacking}`,
        `to be given beside ${given}`,
        undefined,
        `Omit both if '${name}' has the shape that its models take`,
      )
    }
    this.#known[this.#graph.inputs[index]!] = {
      type,
      shape: this.#shapeOf(dims),
      by: `declared by inputs[${index}]`,
    }
  }

  #checkOutput(index: number, { name, type, dims }: ResolvedTensor): void {
    const known = this.#known[this.#graph.outputs[index]!]!
    if (type !== undefined && type !== known.type) {
      throw this.#wrong(`outputs[${index}].type`, `${known.type}, the type of '${name}', ${known.by}`, type)
    }
    if (dims !== undefined && !shapesFit(this.#shapeOf(dims), known.shape)) {
      throw this.#wrong(
        `outputs[${index}].dims`,
        `dims that fit shape ${shownShape(known.shape)} of '${name}', ${known.by}`,
        dims,
      )
    }
  }

  #shapeOf(dims: readonly number[]): Shape {
    const shape = dims.map((dim) => (dim === -1 ? '' : dim))
    return this.maxBatchSize > 0 ? ['rows', ...shape] : shape
  }

  #wrong(option: string, expected: string, received: unknown, hint?: string): InferenceError {
    return invalidConfig(this.#graph.name, option, expected, received, hint)
  }

  /** @param tensor `null` if the error is not about a tensor. */
  #compare(
    path: string,
    expected: Omit<ValueMetadata, 'name'>,
    of: string,
    found: KnownTensor,
    tensor: number | null,
  ): void {
    const source = tensor === null ? found.by : `'${this.#graph.tensors[tensor]!.name}', ${found.by}`
    if (expected.type !== found.type)
      throw this.#wrong(path, `${expected.type}, the type ${of}`, `${found.type} (${source})`)
    if (
      isElementType(expected.type) &&
      !shapesFit(
        expected.shape,
        expected.trailingOnes === true ? withoutTrailing(expected.shape, found.shape) : found.shape,
      )
    ) {
      throw this.#wrong(
        path,
        `shape ${shownShape(expected.shape)}, ${of}`,
        `${shownShape(found.shape)} (${source})`,
      )
    }
    const [axis, foundAxis] = [batchAxisOf(expected), batchAxisOf(found)]
    if (this.maxBatchSize === 0 || axis === foundAxis || axis === -1 || foundAxis === -1) return
    throw this.#wrong(
      path,
      `rows along dimension ${axis}, ${of}`,
      `rows along dimension ${foundAxis} (${source})`,
    )
  }
}

/** Merges what is known of a tensor with what a model says that takes it. */
function both(known: KnownTensor, taken: Omit<ValueMetadata, 'name'>): KnownTensor {
  const shape =
    taken.shape.length === 0
      ? known.shape
      : [
          ...taken.shape.map((dim, axis) =>
            typeof known.shape[axis] === 'number' ? known.shape[axis] : dim,
          ),
          ...known.shape.slice(taken.shape.length),
        ]
  const axis = batchAxisOf(known) === -1 ? batchAxisOf(taken) : batchAxisOf(known) // from the shape that has a batch dimension
  return {
    ...known,
    shape,
    ...(taken.ragged && { ragged: true }),
    ...(batchAxisOf(known) !== axis && { batchAxis: axis }),
  }
}

/** The shape without trailing dimensions of 1, for an input that omits them. */
function withoutTrailing({ length }: Shape, found: Shape): Shape {
  return found.slice(length).every((dim) => dim === 1 || typeof dim === 'string')
    ? found.slice(0, length)
    : found
}
