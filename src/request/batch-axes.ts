import { invalidConfig } from '../errors.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { InputConfig } from '../options/tensor-config.ts'
import {
  batchAxisOf,
  notStackable,
  shownShape,
  type ModelMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import { isElementType, isPacked } from '../tensor/tensor.ts'

type Tensors = Pick<ModelMetadata, 'inputs' | 'outputs'>
type Config = Pick<ResolvedConfig, 'maxBatchSize' | 'inputs' | 'outputs' | 'padding'>

/** What the user says of a tensor's rows: their dimension, `null` for an input that all rows share, `undefined` for nothing. */
type Said = number | null | undefined

/** Which dimension of each input and output counts rows; `null` for an input that all rows share. */
export interface BatchAxes {
  readonly inputs: readonly (number | null)[]
  readonly outputs: readonly number[]
}

/**
 * A model's tensors, each with the dimension that counts rows: the one that the user gives, else the one whose name all shapes
 * have in common. If the user gives none, names are compared only if a first dimension is not variable.
 *
 * @param needed indices of the outputs that are divided; the others do not matter.
 * @param axes the dimensions, if they are already known.
 * @throws InferenceError `ERR_MODEL_CONFIG` for a dimension that cannot be that of a batch.
 */
export function withBatchAxes<T extends Tensors>(
  model: string,
  config: Config,
  served: T,
  needed: readonly number[] = [...served.outputs.keys()],
  axes: BatchAxes | null = null,
): T {
  if (config.maxBatchSize === 0) return served
  const inputs = served.inputs.map((value) => saidOf(model, config.inputs, 'inputs', value))
  const outputs = served.outputs.map((value) =>
    value.rows === undefined ? saidOf(model, config.outputs, 'outputs', value) : 0,
  )
  const divided = (of: Tensors): Tensors => ({
    inputs: of.inputs,
    outputs: needed.map((index) => of.outputs[index]!),
  })
  const isSaid = [...inputs, ...outputs].some((said) => said === null || (said ?? 0) > 0)
  if (!isSaid && axes === null && notStackable(divided(served)) === null) return served
  const name =
    axes === null
      ? batchName(
          divided(served),
          inputs,
          needed.map((index) => outputs[index]),
        )
      : null
  if (name === null && axes === null && !isSaid) return served
  const inputAxis = (value: ValueMetadata, index: number) =>
    inputs[index] !== undefined
      ? inputs[index]
      : axes === null
        ? found(value, name, true)
        : axes.inputs[index]
  const outputAxis = (value: ValueMetadata, index: number) =>
    outputs[index] !== undefined
      ? outputs[index]
      : axes === null
        ? found(value, name, false)
        : axes.outputs[index]
  const shaped = {
    ...served,
    inputs: served.inputs.map((value, index) => withAxis(value, inputAxis(value, index))),
    outputs: served.outputs.map((value, index) =>
      needed.includes(index) ? withAxis(value, outputAxis(value, index)) : value,
    ),
  }
  checkPadding(model, config, shaped)
  return isSaid || notStackable(divided(shaped)) === null ? shaped : served
}

function saidOf(
  model: string,
  tensors: Config['inputs'],
  option: 'inputs' | 'outputs',
  value: ValueMetadata,
): Said {
  const at = tensors?.findIndex(({ name }) => name === value.name) ?? -1
  if (at === -1) return undefined
  const { batchAxis, shared } = tensors![at]!
  if (shared === true) return null
  if (batchAxis === undefined) return undefined
  const { type, shape } = value
  const wrong = (expected: string, received: unknown) =>
    invalidConfig(model, `${option}[${at}].batchAxis`, expected, received)
  if (typeof shape[batchAxis] !== 'string' && shape[batchAxis] !== 1)
    throw wrong(`a variable dimension of '${value.name}', whose shape is ${shownShape(shape)}`, batchAxis)
  if (batchAxis > 0 && !isBlocks(value))
    throw wrong(`0 for a tensor of ${type}, whose elements have no bytes of their own`, batchAxis)
  return batchAxis
}

/** The only dimension name that each tensor has once; inputs of fixed shapes need not have it. `null` for none, or several. */
function batchName(
  tensors: Tensors,
  saidInputs: readonly Said[],
  saidOutputs: readonly Said[],
): string | null {
  const common = commonNames(tensors, saidInputs, saidOutputs)
  return common.length === 1 ? common[0]! : null
}

function commonNames(
  { inputs, outputs }: Tensors,
  saidInputs: readonly Said[],
  saidOutputs: readonly Said[],
): string[] {
  const names = new Set(
    [...inputs, ...outputs].flatMap(({ shape }) =>
      shape.filter((dim): dim is string => typeof dim === 'string' && dim !== ''),
    ),
  )
  const fits = (value: ValueMetadata, said: Said, name: string) => {
    if (said === null) return !value.shape.includes(name)
    const places = value.shape.filter((dim) => dim === name).length
    return said === undefined
      ? places === 1 && (value.shape[0] === name || isBlocks(value))
      : value.shape[said] === name || value.shape[said] === ''
  }
  return [...names].filter(
    (name) =>
      inputs.every(
        (value, index) =>
          fits(value, saidInputs[index], name) || (saidInputs[index] === undefined && isFixed(value)),
      ) && outputs.every((value, index) => value.rows !== undefined || fits(value, saidOutputs[index], name)),
  )
}

function found(value: ValueMetadata, name: string | null, isInput: boolean): number | null {
  const axis = name === null ? 0 : value.shape.indexOf(name)
  return axis === -1 && isInput && isFixed(value) ? null : Math.max(0, axis)
}

function withAxis(value: ValueMetadata, axis: Said): ValueMetadata {
  return axis === 0 || axis === undefined ? value : { ...value, batchAxis: axis }
}

/** Whether its elements have bytes of their own, so that parts of the tensor can be copied. */
function isBlocks({ type }: ValueMetadata): boolean {
  return isElementType(type) && type !== 'string' && !isPacked(type)
}

function isFixed({ type, shape }: ValueMetadata): boolean {
  return isElementType(type) && shape.every((dim) => typeof dim === 'number')
}

function checkPadding(model: string, { padding }: Config, { inputs, outputs }: Tensors): void {
  for (const [entry, { input, outputs: cut }] of padding.entries()) {
    const elsewhere = [
      ...inputs.filter(({ name }) => name === input),
      ...outputs.filter(({ name }) => cut.some((each) => each.name === name)),
    ].find((value) => batchAxisOf(value) !== 0)
    if (elsewhere !== undefined)
      throw invalidConfig(
        model,
        `padding[${entry}]`,
        'tensors whose first dimension counts rows',
        elsewhere.name,
      )
  }
}

/** Most readings of one model that are tried. */
const mostReadings = 24

/**
 * Which dimensions may count rows, if neither the user nor the names of dimensions tell: the variable ones, a first dimension
 * before others. Inputs of fixed shapes are shared. The likeliest reading comes first; there is none if all inputs are fixed.
 *
 * @param served the model's tensors, with everything that is known of them.
 */
export function possibleAxes({ inputs, outputs }: Tensors, needed: readonly number[]): BatchAxes[] {
  const variable = (value: ValueMetadata) =>
    value.shape.flatMap((dim, axis) =>
      typeof dim === 'string' && (axis === 0 || isBlocks(value)) ? [axis] : [],
    )
  const ofInputs = inputs.map((value): (number | null)[] => (isFixed(value) ? [null] : variable(value)))
  const ofOutputs = outputs.map((value, index) => (needed.includes(index) ? variable(value) : [0]))
  if (ofInputs.every(([axis]) => axis === null)) return []
  let readings: (number | null)[][] = [[]]
  for (const own of [...ofInputs, ...ofOutputs])
    readings = readings.flatMap((reading) => own.map((axis) => [...reading, axis])).slice(0, mostReadings)
  return readings.map((reading) => ({
    inputs: reading.slice(0, inputs.length),
    outputs: reading.slice(inputs.length) as number[],
  }))
}

/**
 * As {@link possibleAxes}, by names, for models whose first dimensions are all variable but need not count rows: a reading for
 * each name that every tensor has once. `dims` and `image` of a configuration declare that the first dimension counts rows.
 *
 * @param served the model's tensors, with everything that is known of them.
 */
export function namedAxes(config: Config, served: Tensors, needed: readonly number[]): BatchAxes[] {
  const saidInputs = served.inputs.map((value) =>
    saidOrFirst(config.inputs?.find(({ name }) => name === value.name)),
  )
  const saidOutputs = served.outputs.map((value) =>
    saidOrFirst(config.outputs?.find(({ name }) => name === value.name)),
  )
  const divided = { inputs: served.inputs, outputs: needed.map((index) => served.outputs[index]!) }
  return commonNames(
    divided,
    saidInputs,
    needed.map((index) => saidOutputs[index]),
  ).flatMap((name) => {
    const inputs = served.inputs.map((value, index) =>
      saidInputs[index] !== undefined ? saidInputs[index] : found(value, name, true),
    )
    const outputs = served.outputs.map((value, index) => saidOutputs[index] ?? found(value, name, false)!)
    return [...inputs, ...needed.map((index) => outputs[index]!)].every((axis) => axis === null || axis === 0)
      ? []
      : [{ inputs, outputs }]
  })
}

function saidOrFirst(said: Partial<InputConfig> | undefined): Said {
  if (said?.shared === true) return null
  return said?.dims !== undefined || said?.image !== undefined ? 0 : said?.batchAxis
}
