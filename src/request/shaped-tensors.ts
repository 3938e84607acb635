import { invalidConfig, listNames } from '../errors.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { inputsOfSequence, type ResolvedSequence } from '../options/sequence-config.ts'
import type { TensorConfig } from '../options/tensor-config.ts'
import {
  batchAxisOf,
  checkBatchDimension,
  notStackable,
  shownShape,
  type ModelMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import { isElementType } from '../tensor/tensor.ts'
import { withBatchAxes, type BatchAxes } from './batch-axes.ts'
import { withOutputRows } from './output-rows.ts'

type Tensors = Pick<ModelMetadata, 'inputs' | 'outputs'>

/** The tensors of a model, as it has them and as requests have them. */
export interface ShapedTensors {
  /** As the model has them, with the lengths that the configuration fixes. */
  readonly served: Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs'>
  /** As requests have them. */
  readonly shown: Tensors
  /** From dims of a request to those of the model, by input; `null` for one whose dims are the same, and for all of them. */
  readonly inputs: readonly (Reshape | null)[] | null
  /** From dims of the model to those of an answer, by output. */
  readonly outputs: readonly (Reshape | null)[] | null
  /** Indices of the outputs that requests have; `null` for all. */
  readonly offered: readonly number[] | null
  /** Of what a batch is made up: without the outputs that no request has, and no sequence keeps. */
  readonly batched: Tensors
  /** Indices of its outputs. */
  readonly needed: readonly number[]
}

type Config = Pick<
  ResolvedConfig,
  'maxBatchSize' | 'defaultMaxBatchSize' | 'inputs' | 'outputs' | 'sequence' | 'optionalInputs' | 'padding'
>

/**
 * Checks what is said of a model's tensors against the model, by Triton's rules.
 *
 * @param axes which dimension of each tensor counts rows, by its place among inputs and outputs, where that is known otherwise.
 * @throws InferenceError `ERR_MODEL_CONFIG` with what the model has.
 */
export function shapeTensors(
  model: string,
  config: Config,
  opened: ShapedTensors['served'],
  axes: BatchAxes | null = null,
): ShapedTensors {
  const needed = neededOutputs(config, opened)
  const served = withBatchAxes(
    model,
    config,
    withOutputRows(model, config, withStateShapes(config.sequence, opened)),
    needed,
    axes,
  )
  if (config.inputs === undefined && config.outputs === undefined)
    return { served, shown: served, inputs: null, outputs: null, offered: null, batched: served, needed }
  const all = batchedOf(served, needed)
  const batched = config.maxBatchSize === undefined ? notStackable(all) === null : config.maxBatchSize > 0
  if (batched) checkBatchDimension(model, config.maxBatchSize ?? 1, all)
  const inputs =
    config.inputs === undefined
      ? unchanged(served.inputs)
      : shapeInputs(model, config, served.inputs, batched)
  const outputs =
    config.outputs === undefined
      ? unchanged(served.outputs)
      : shapeOutputs(model, config.outputs, served.outputs, batched)
  const names = config.outputs?.map(({ name }) => name)
  const offered =
    names === undefined || names.length === outputs.length
      ? null
      : [...outputs.keys()].filter((index) => names.includes(outputs[index]!.own.name))
  const lengths = fixedLengths(served.inputs, inputs)
  const reshapes = (tensors: readonly Shaped[]) =>
    tensors.every(({ reshape }) => reshape === null) ? null : tensors.map(({ reshape }) => reshape)
  const own = {
    inputs: inputs.map((input) => input.own),
    outputs: outputs.map((output) => withLengths(output.own, lengths)),
    unservableOutputs: served.unservableOutputs,
  }
  return {
    served: own,
    shown: {
      inputs: inputs.map(({ shown }) => shown),
      outputs: (offered ?? [...outputs.keys()]).map((index) => outputs[index]!.shown),
    },
    inputs: reshapes(inputs),
    outputs: reshapes(outputs),
    offered,
    batched: batchedOf(own, needed),
    needed,
  }
}

/** Indices of the outputs that requests have, or their sequences keep, or that say whose entries others have. */
function neededOutputs({ outputs, sequence }: Config, opened: Tensors): number[] {
  const all = [...opened.outputs.keys()]
  if (outputs === undefined) return all
  const divisors = outputs.flatMap(({ rows }) => rows?.of ?? rows?.counts ?? [])
  const names = new Set([
    ...outputs.map(({ name }) => name),
    ...(sequence?.state ?? []).map(({ output }) => output),
    ...divisors,
  ])
  return all.filter((index) => names.has(opened.outputs[index]!.name))
}

function batchedOf({ inputs, outputs }: Tensors, needed: readonly number[]): Tensors {
  return { inputs, outputs: needed.map((index) => outputs[index]!) }
}

/** One tensor: as the model has it, as requests have it, and from one to the other. */
interface Shaped {
  readonly own: ValueMetadata
  readonly shown: ValueMetadata
  readonly reshape: Reshape | null
}

function unchanged(values: readonly ValueMetadata[]): Shaped[] {
  return values.map((value) => ({ own: value, shown: value, reshape: null }))
}

function shapeInputs(
  model: string,
  { inputs = [], sequence, optionalInputs }: Config,
  values: readonly ValueMetadata[],
  batched: boolean,
): Shaped[] {
  const filled = new Set(inputsOfSequence(sequence))
  const missing = values.find(
    ({ name }) =>
      !inputs.some((input) => input.name === name) && !filled.has(name) && !optionalInputs.includes(name),
  )
  checkNames(model, 'inputs', inputs, values)
  if (missing !== undefined) {
    throw invalidConfig(
      model,
      'inputs',
      `all inputs of the model (${listNames(values.map(({ name }) => name))})`,
      inputs.map(({ name }) => name),
      `'${missing.name}' is missing`,
    )
  }
  return values.map((value) => {
    const index = inputs.findIndex(({ name }) => name === value.name)
    return index === -1
      ? unchanged([value])[0]!
      : shape(model, `inputs[${index}]`, inputs[index]!, value, batched, false)
  })
}

function shapeOutputs(
  model: string,
  outputs: readonly TensorConfig[],
  values: readonly ValueMetadata[],
  batched: boolean,
): Shaped[] {
  checkNames(model, 'outputs', outputs, values)
  return values.map((value) => {
    const index = outputs.findIndex(({ name }) => name === value.name)
    return index === -1
      ? unchanged([value])[0]!
      : shape(model, `outputs[${index}]`, outputs[index]!, value, batched, true)
  })
}

function checkNames(
  model: string,
  option: string,
  tensors: readonly TensorConfig[],
  values: readonly ValueMetadata[],
): void {
  const index = tensors.findIndex(({ name }) => !values.some((value) => value.name === name))
  if (index === -1) return
  throw invalidConfig(
    model,
    `${option}[${index}].name`,
    `one of the ${option} of the model (${listNames(values.map(({ name }) => name))})`,
    tensors[index]!.name,
  )
}

/**
 * @param joined whether requests are divided into rows.
 * @param exact whether lengths that the model leaves variable have to be so in the configuration as well.
 */
function shape(
  model: string,
  option: string,
  tensor: TensorConfig,
  value: ValueMetadata,
  joined: boolean,
  exact: boolean,
): Shaped {
  const { type, dims } = tensor
  const batched = joined && batchAxisOf(value) !== -1 // what all rows share has no batch dimension
  if (type !== undefined && type !== value.type)
    throw invalidConfig(model, `${option}.type`, `${value.type}, as the model has it`, type)
  if (dims === undefined) return unchanged([value])[0]!
  if (!isElementType(value.type))
    throw invalidConfig(
      model,
      `${option}.dims`,
      `to be omitted, since '${value.name}' is ${value.type}`,
      dims,
    )
  const given = [...batchDims(value, batched), ...dims]
  const own = ownDims(model, option, tensor, value, batched, exact)
  const names = own.flatMap((dim, axis) => (dim === -1 ? [value.shape[axis]!] : []))
  let next = 0
  const shown = given.map((dim) => (dim === -1 ? names[next++]! : dim))
  const isSame = own.length === given.length && own.every((dim, axis) => dim === given[axis])
  const reshape = isSame ? null : exact ? new Reshape(own, given) : new Reshape(given, own)
  const ownShape = own.map((dim, axis) => (dim === -1 ? value.shape[axis]! : dim))
  return { own: { ...value, shape: ownShape }, shown: { ...value, shape: shown }, reshape }
}

/** The dims that the model is to get, or gives, the batch dimension included; each fits what the model has. */
function ownDims(
  model: string,
  option: string,
  { dims, reshape }: TensorConfig,
  value: ValueMetadata,
  batched: boolean,
  exact: boolean,
): number[] {
  const name = `${option}.${reshape === undefined ? 'dims' : 'reshape'}`
  const said = reshape ?? dims!
  if (value.shape.length === 0) {
    if (batched)
      throw invalidConfig(
        model,
        name,
        `to be omitted, since '${value.name}' is a scalar, which has no batch dimension`,
        said,
      )
    if (said.every((dim) => dim === 1)) return []
    throw invalidConfig(model, name, `[1], since '${value.name}' is a scalar`, said)
  }
  const own = [...batchDims(value, batched), ...said]
  const fits =
    own.length === value.shape.length &&
    value.shape.every((dim, axis) =>
      typeof dim === 'number' ? dim === own[axis] : !exact || own[axis] === -1,
    )
  if (fits) return own
  const expected = value.shape.slice(batched ? 1 : 0).map((dim) => (typeof dim === 'number' ? dim : -1))
  const why = batched
    ? `'${value.name}' has shape ${shownShape(value.shape)} in the model, whose first dimension is the batch and does not belong to dims while maxBatchSize is not 0`
    : `'${value.name}' has shape ${shownShape(value.shape)} in the model, all of which belongs to dims for a model that is not batched (maxBatchSize is 0, or none is given and a first dimension is fixed)`
  throw invalidConfig(
    model,
    name,
    `[${expected.join(', ')}]${exact || !expected.includes(-1) ? '' : ', where a fixed length may stand for -1'}`,
    said,
    why,
  )
}

/** A batch of one row at most may have a fixed dimension. */
function batchDims({ shape }: ValueMetadata, batched: boolean): number[] {
  return !batched ? [] : [typeof shape[0] === 'number' ? shape[0] : -1]
}

/** What named dimensions of the model stand for, where a configuration has fixed them in every input. */
function fixedLengths(
  before: readonly ValueMetadata[],
  inputs: readonly Shaped[],
): ReadonlyMap<string, number> {
  const lengths = new Map<string, number>()
  const open = new Set<string | number>()
  for (const [index, { own }] of inputs.entries()) {
    for (const [axis, dim] of before[index]!.shape.entries()) {
      const fixed = own.shape[axis]
      if (typeof dim !== 'string' || dim === '') continue
      if (typeof fixed !== 'number' || (lengths.get(dim) ?? fixed) !== fixed) open.add(dim)
      else lengths.set(dim, fixed)
    }
  }
  for (const dim of open) lengths.delete(dim as string)
  return lengths
}

function withLengths(value: ValueMetadata, lengths: ReadonlyMap<string, number>): ValueMetadata {
  if (lengths.size === 0) return value
  return {
    ...value,
    shape: value.shape.map((dim) => (typeof dim === 'string' ? (lengths.get(dim) ?? dim) : dim)),
  }
}

/** What becomes the state of a sequence has the lengths of the input that takes it, where the model itself does not say. */
function withStateShapes<T extends Tensors>(sequence: ResolvedSequence | null, served: T): T {
  if (sequence === null) return served
  const known = new Set(served.inputs.flatMap(({ shape }) => shape.filter((dim) => dim !== ''))) // without a name it is none that an input has
  const outputs = served.outputs.map((output): ValueMetadata => {
    const state = sequence.state.find((each) => each.output === output.name)
    const input = served.inputs.find(({ name }) => name === state?.input)
    if (input === undefined || input.type !== output.type || input.shape.length !== output.shape.length)
      return output
    const shape = output.shape.map((dim, axis) =>
      typeof dim === 'string' && !known.has(dim) ? input.shape[axis]! : dim,
    )
    return { ...output, shape }
  })
  return { ...served, outputs }
}

/** Gives the dims of a tensor another form, for the same elements: each variable one goes to the next variable one. */
export class Reshape {
  /** -1 for a variable dimension, the batch dimension included. */
  readonly #from: readonly number[]
  readonly #to: readonly number[]

  constructor(from: readonly number[], to: readonly number[]) {
    this.#from = from
    this.#to = to
  }

  /** Whether dims are of the form that is taken. */
  takes(dims: readonly number[]): boolean {
    return (
      dims.length === this.#from.length &&
      this.#from.every((expected, axis) => expected === -1 || expected === dims[axis])
    )
  }

  /** Of dims that are {@link takes taken}. */
  of(dims: readonly number[]): number[] {
    const lengths = dims.filter((_, axis) => this.#from[axis] === -1)
    let next = 0
    return this.#to.map((dim) => (dim === -1 ? lengths[next++]! : dim))
  }

  /** For an error. */
  get taken(): string {
    return `[${this.#from.map((dim) => (dim === -1 ? '?' : dim)).join(', ')}]`
  }
}
