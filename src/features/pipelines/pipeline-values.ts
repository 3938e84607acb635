import { type PipelineTensors } from '../../options/pipeline-config.ts'
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
import { invalidArgument, invalidConfig } from '../../errors.ts'

/** A tensor of a request in progress, visible to the pipeline only; `null` if it was left out. */
export type PipelineValue = TensorLike | OutputValue | null

/**
 * The value of each input of a request, as a tensor that steps can take; `null` if it was left out.
 *
 * @param none an array with one entry per tensor; those of the inputs come first.
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

/** The tensors that a step waits for, in the form that its `when` receives. Omitted tensors are missing. */
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

/** A value in the form that callers receive: tensors between steps are no `Tensor` objects yet. */
export function shownValue(value: PipelineValue): OutputValue {
  if (value === null || value instanceof Tensor || !Array.isArray((value as Partial<TensorLike>).dims))
    return value as OutputValue
  const { type, dims, data } = value as TensorLike
  return makeTensor(type as ElementType, data as TensorData, dims)
}

/**
 * Whether a step runs for a request, by its `when`.
 *
 * @param values by tensor; all that the step waits for are made.
 * @throws InferenceError `ERR_EXECUTION` if `when` throws, or returns no boolean.
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
  if (isPromise(wanted)) wanted.catch(() => {}) // its outcome is ignored
  throw errors.ofWhen(step, wanted, undefined, requestId)
}

type Values = Pick<ModelMetadata, 'inputs' | 'outputs'>

/** Most rows of one request at a step. Each row is a request, and more would delay other callers. */
const mostFanned = 10_000

/**
 * Names of the inputs that fan out: each of their rows becomes a request.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` if an input or output of the model cannot be one row.
 */
export function fannedInputs(
  pipeline: string,
  step: GraphStep,
  { inputs, outputs }: Values,
): ReadonlySet<string> {
  const model = `model '${step.model}'`
  const wrong = (field: string, expected: string, received: string, hint?: string) =>
    invalidConfig(pipeline, `steps[${step.index}].${field}`, expected, received, hint)
  const given = inputs.filter(({ name }) => step.inputs.some((port) => port.name === name))
  const fanned =
    step.fanOut === 'all'
      ? given.filter((input) => batchAxisOf(input) !== -1)
      : given.filter(({ name }) => step.fanOut!.includes(name))
  if (fanned.length === 0) throw wrong('fanOut', `${model} to have an input with rows`, shownNames(given))
  for (const input of fanned) {
    const where = step.fanOut === 'all' ? 'fanOut' : `fanOut[${step.fanOut!.indexOf(input.name)}]`
    if (!isElementType(input.type))
      throw wrong(where, 'inputs that are tensors', `'${input.name}', which is ${input.type}`)
    if (!isOneRow(input))
      throw wrong(
        where,
        `inputs of ${model} that may be one row`,
        `'${input.name}' of shape ${shownShape(input.shape)}`,
        "Name the inputs whose rows are meant: fanOut: ['crops']",
      )
  }
  for (const { name } of step.outputs) {
    const output = outputs.find((each) => each.name === name)
    if (output === undefined) continue // another check reports it
    const { type, shape } = output
    if (!isElementType(type) && !type.startsWith('seq('))
      throw wrong(
        `outputs.${name}`,
        'an output that can be joined from its rows: a tensor, or a sequence',
        type,
      )
    if (output.rows === undefined && !isOneRow(output))
      throw wrong(`outputs.${name}`, 'an output that has one entry for one row', `shape ${shownShape(shape)}`)
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

/** The inputs and outputs of a step that runs its model for each row: as many entries as there are rows. */
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

/** The feeds of one step, some of which are divided by rows. */
export class FannedFeeds {
  readonly rows: number
  readonly #feeds: Readonly<Record<string, PipelineValue>>
  readonly #inputs: readonly ValueMetadata[]
  readonly #fanned: ReadonlySet<string>

  /**
   * @throws InferenceError `ERR_INVALID_ARG` if they have no rows, different numbers of rows, or too many.
   */
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

  /** An empty output, for zero rows. Its other dims are those that are known; unknown ones are 0. */
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

  /** Lengths of the inputs' named dimensions, except those that count rows. */
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

/** One row of a tensor. It is a view if rows are contiguous. */
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
