import { type PipelineTensors, pipelineError } from '../../options/pipeline-config.ts'
import { batchAxisOf, type ModelMetadata, shownShape, type ValueMetadata } from '../../tensor/metadata.ts'
import type { ParsedFeeds } from '../../request/infer-request.ts'
import {
  makeTensor,
  putValue,
  Tensor,
  type ElementType,
  type TensorData,
  type TensorLike,
  elementCount,
  isElementType,
  isPacked,
  storageOf,
} from '../../tensor/tensor.ts'
import type { OutputValue } from '../../tensor/values.ts'
import type { GraphStep, PipelineGraph } from './pipeline-graph.ts'
import { isPromise } from 'node:util/types'
import type { StepErrors } from './step-errors.ts'
import { copyBlocks, cutElements, type Elements } from '../../tensor/elements.ts'
import { invalidArgument } from '../../errors.ts'

/** A tensor of a request that is on its way, where nobody else sees it; `null` where it was left out. */
export type PipelineValue = TensorLike | OutputValue | null

/**
 * What a request gives for each input, as tensors that steps can be fed with; `null` for one that was left out.
 *
 * @param none as many as there are tensors, of which those of the inputs come first.
 */
export function inputValues(
  { inputs, maxBatchSize }: Pick<ModelMetadata, 'inputs' | 'maxBatchSize'>,
  { data, dims, rows, whole }: ParsedFeeds,
  none: readonly undefined[],
): (PipelineValue | undefined)[] {
  const values: (PipelineValue | undefined)[] = none.slice()
  for (let index = 0; index < inputs.length; index++) {
    const input = inputs[index]!
    const given = data[index]
    const axis = maxBatchSize > 0 && !whole ? batchAxisOf(input) : -1
    values[index] =
      given == null
        ? null
        : {
            type: input.type,
            dims: dims?.[index] ?? dimsOf(input.shape as readonly number[], axis, rows),
            data: given,
          }
  }
  return values
}

function dimsOf(fixed: readonly number[], axis: number, rows: number): readonly number[] {
  if (axis === -1) return fixed
  const dims = fixed.slice()
  dims[axis] = rows
  return dims
}

/** The tensors of a request that a step waits for, as its `when` is given them; without those that were left out. */
function shownTensors(
  { tensors }: PipelineGraph,
  { awaits }: GraphStep,
  values: readonly (PipelineValue | undefined)[],
): PipelineTensors {
  const shown: Record<string, OutputValue> = {}
  for (const tensor of awaits) {
    const value = values[tensor]!
    if (value !== null) putValue(shown, tensors[tensor]!.name, shownValue(value))
  }
  return shown as PipelineTensors
}

/** A value as callers know it: what one step makes for another is no `Tensor` yet. */
export function shownValue(value: PipelineValue): OutputValue {
  if (value === null || value instanceof Tensor || !Array.isArray((value as Partial<TensorLike>).dims))
    return value as OutputValue
  const { type, dims, data } = value as TensorLike
  return makeTensor(type as ElementType, data as TensorData, dims)
}

/**
 * Whether a step is run for a request, as its `when` says.
 *
 * @param values by tensor; all that the step waits for are there.
 * @throws InferenceError `ERR_EXECUTION` where it throws, or gives no boolean.
 */
export function isWanted(
  step: GraphStep,
  when: NonNullable<GraphStep['when']>,
  values: readonly (PipelineValue | undefined)[],
  { graph, errors }: { readonly graph: PipelineGraph; readonly errors: StepErrors },
  requestId: string | undefined,
): boolean {
  let wanted: unknown
  try {
    wanted = when(shownTensors(graph, step, values))
  } catch (error) {
    throw errors.ofWhen(step, undefined, error ?? new Error(String(error)), requestId)
  }
  if (typeof wanted === 'boolean') return wanted
  if (isPromise(wanted)) wanted.catch(() => {}) // what comes of it concerns nobody any more
  throw errors.ofWhen(step, wanted, undefined, requestId)
}

type Values = Pick<ModelMetadata, 'inputs' | 'outputs'>

/** Most rows of one request at a step: each is a request of its own, and more would hold up those of other callers. */
const mostFanned = 10_000

/**
 * Names of the inputs that fan out: each of their rows becomes a request.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` where what the model takes or gives cannot be one row.
 */
export function fannedInputs(
  pipeline: string,
  step: GraphStep,
  { inputs, outputs }: Values,
): ReadonlySet<string> {
  const path = `steps[${step.index}]`
  const model = `model '${step.model}'`
  const given = inputs.filter(({ name }) => step.inputs.some((port) => port.name === name))
  const fanned =
    step.fanOut === 'all'
      ? given.filter((input) => batchAxisOf(input) !== -1)
      : given.filter(({ name }) => step.fanOut!.includes(name))
  if (fanned.length === 0)
    throw pipelineError(pipeline, `${path}.fanOut`, `${model} to have an input with rows`, shownNames(given))
  for (const input of fanned) {
    const where =
      step.fanOut === 'all' ? `${path}.fanOut` : `${path}.fanOut[${step.fanOut!.indexOf(input.name)}]`
    if (!isElementType(input.type))
      throw pipelineError(
        pipeline,
        where,
        'inputs that are tensors',
        `'${input.name}', which is ${input.type}`,
      )
    if (!isOneRow(input))
      throw pipelineError(
        pipeline,
        where,
        `inputs of ${model} that may be one row`,
        `'${input.name}' of shape ${shownShape(input.shape)}`,
        "Name the inputs whose rows are meant: fanOut: ['crops']",
      )
  }
  for (const { name } of step.outputs) {
    const output = outputs.find((each) => each.name === name)
    if (output === undefined) continue // which is another error
    const { type, shape } = output
    if (!isElementType(type) && !type.startsWith('seq('))
      throw pipelineError(
        pipeline,
        `${path}.outputs.${name}`,
        'an output that can be joined from its rows: a tensor, or a sequence',
        type,
      )
    if (output.rows === undefined && !isOneRow(output))
      throw pipelineError(
        pipeline,
        `${path}.outputs.${name}`,
        'an output that has one entry for one row',
        `shape ${shownShape(shape)}`,
      )
  }
  return new Set(fanned.map(({ name }) => name))
}

function shownNames(values: readonly ValueMetadata[]): string {
  return values.map(({ name }) => `'${name}', which all rows share`).join(', ')
}

function isOneRow(value: ValueMetadata): boolean {
  const dim = value.shape[Math.max(0, batchAxisOf(value))]
  return typeof dim !== 'number' || dim === 1
}

/** What a model takes and gives that is run for each row: as many rows as there are. */
export function shownFanned({ inputs, outputs }: Values, fanned: ReadonlySet<string>): Values {
  return {
    inputs: inputs.map((input) => (fanned.has(input.name) ? ofAnyRows(input) : input)),
    outputs: outputs.map(ofAnyRows),
  }
}

function ofAnyRows(value: ValueMetadata): ValueMetadata {
  const rowAxis = Math.max(0, batchAxisOf(value))
  return { ...value, shape: value.shape.map((dim, axis) => (axis === rowAxis ? '' : dim)) }
}

/** The feeds of one step. Some are divided by rows. */
export class FannedFeeds {
  readonly rows: number
  readonly #feeds: Readonly<Record<string, PipelineValue>>
  readonly #inputs: readonly ValueMetadata[]
  readonly #fanned: ReadonlySet<string>

  /** @throws InferenceError `ERR_INVALID_ARG` where they have no rows, not all as many, or too many. */
  constructor(
    model: string,
    inputs: readonly ValueMetadata[],
    fanned: ReadonlySet<string>,
    feeds: Readonly<Record<string, PipelineValue>>,
  ) {
    this.#inputs = inputs
    this.#fanned = fanned
    this.#feeds = feeds
    let first: { readonly name: string; readonly rows: number } | null = null
    for (const input of inputs) {
      if (!fanned.has(input.name) || !Object.hasOwn(feeds, input.name)) continue
      const { dims } = feeds[input.name] as TensorLike
      const wrong = (expected: string, received: unknown) =>
        invalidArgument(`input '${input.name}'`, expected, received, { model })
      const rows = dims[batchAxisOf(input)]
      if (rows === undefined) throw wrong('a tensor with rows', `dims [${dims.join(', ')}]`)
      if (first !== null && rows !== first.rows)
        throw wrong(`${first.rows} rows, as input '${first.name}' has`, rows)
      if (rows > mostFanned) throw wrong(`at most ${mostFanned} rows`, rows)
      first ??= { name: input.name, rows }
    }
    if (first === null)
      throw invalidArgument('feeds', 'at least one input whose rows are meant', Object.keys(feeds), { model })
    this.rows = first.rows
  }

  /** The feeds of one row. */
  ofRow(row: number): Record<string, PipelineValue> {
    const feeds: Record<string, PipelineValue> = { ...this.#feeds }
    for (const input of this.#inputs)
      if (this.#fanned.has(input.name) && Object.hasOwn(feeds, input.name))
        feeds[input.name] = rowOf(feeds[input.name] as TensorLike, batchAxisOf(input), row)
    return feeds
  }

  /** What an output is of no row: of no element, and of the dims that are known. What is known of none is 0. */
  noneOf({ type, shape, batchAxis }: ValueMetadata): OutputValue {
    if (!isElementType(type)) return []
    const rowAxis = batchAxis ?? 0
    const lengths = this.#lengths()
    const dims =
      shape.length === 0
        ? [0]
        : shape.map((dim, axis) =>
            axis === rowAxis ? 0 : typeof dim === 'number' ? dim : (lengths.get(dim) ?? 0),
          )
    return makeTensor(type, type === 'string' ? [] : new (storageOf(type))(0), dims)
  }

  /** What named dimensions of the inputs stand for here, but for those that count rows. */
  #lengths(): Map<string, number> {
    const lengths = new Map<string, number>()
    for (const input of this.#inputs) {
      const value = this.#feeds[input.name] as TensorLike | undefined
      if (!Array.isArray(value?.dims)) continue
      for (const [axis, dim] of input.shape.entries())
        if (typeof dim === 'string' && dim !== '' && axis !== batchAxisOf(input))
          lengths.set(dim, value.dims[axis]!)
    }
    return lengths
  }
}

/** One row of a tensor. Where rows lie one behind the other it is of the same memory. */
function rowOf({ type, dims, data }: TensorLike, axis: number, row: number): TensorLike {
  const own = dims.map((dim, at) => (at === axis ? 1 : dim))
  const elements = elementCount(own)
  const values = data as Elements
  if (!ArrayBuffer.isView(values) || isPacked(type as ElementType))
    return {
      type,
      dims: own,
      data: cutElements(type as ElementType, values, row * elements, (row + 1) * elements),
    }
  if (axis === 0)
    return { type, dims: own, data: (values as Float32Array).subarray(row * elements, (row + 1) * elements) }
  const blocks = elementCount(dims.slice(0, axis))
  const target = new (values.constructor as new (length: number) => TensorData)(elements)
  copyBlocks(values, dims[axis]!, row, target, 1, 0, 1, blocks, elements / blocks)
  return { type, dims: own, data: target }
}
