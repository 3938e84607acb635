import type { ResolvedConfig } from '../config/resolve-model-config.ts'
import { invalidArgument, type InferenceError } from '../errors.ts'
import { batchAxisOf, notStackable, shownShape, type ModelMetadata, type ValueMetadata } from '../metadata.ts'
import { isElementType, isPacked } from '../tensor.ts'

type Tensors = Pick<ModelMetadata, 'inputs' | 'outputs'>
type Config = Pick<ResolvedConfig, 'maxBatchSize' | 'inputs' | 'outputs' | 'padding'>

/** What is said of where the rows of a tensor are: a dimension, `null` for an input that all share, `undefined` for nothing. */
type Said = number | null | undefined

/**
 * The tensors of a model with the dimension of each that counts rows: by what the user says, and by a name that shapes have in
 * common. Without a word of the user it is looked for only where the first dimensions are not all variable.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for a dimension that cannot be that of a batch.
 */
export function withBatchAxes<T extends Tensors>(model: string, config: Config, served: T): T {
  if (config.maxBatchSize === 0) return served
  const inputs = served.inputs.map((value) => saidOf(model, config.inputs, 'inputs', value))
  const outputs = served.outputs.map((value) => (value.rows === undefined ? saidOf(model, config.outputs, 'outputs', value) : 0))
  const isSaid = [...inputs, ...outputs].some((said) => said === null || (said ?? 0) > 0)
  if (!isSaid && notStackable(served) === null) return served
  const name = batchName(served, inputs, outputs)
  if (name === null && !isSaid) return served
  const shaped = {
    ...served,
    inputs: served.inputs.map((value, index) => withAxis(value, inputs[index] === undefined ? found(value, name, true) : inputs[index])),
    outputs: served.outputs.map((value, index) => withAxis(value, outputs[index] === undefined ? found(value, name, false) : outputs[index])),
  }
  checkPadding(model, config, shaped)
  return isSaid || notStackable(shaped) === null ? shaped : served
}

function saidOf(model: string, tensors: Config['inputs'], option: 'inputs' | 'outputs', value: ValueMetadata): Said {
  const at = tensors?.findIndex(({ name }) => name === value.name) ?? -1
  if (at === -1) return undefined
  const { batchAxis, shared } = tensors![at]!
  if (shared === true) return null
  if (batchAxis === undefined) return undefined
  const { type, shape } = value
  const wrong = (expected: string, received: unknown) => invalid(model, `${option}[${at}].batchAxis`, expected, received)
  if (typeof shape[batchAxis] !== 'string' && shape[batchAxis] !== 1) throw wrong(`a variable dimension of '${value.name}', whose shape is ${shownShape(shape)}`, batchAxis)
  if (batchAxis > 0 && !isBlocks(value)) throw wrong(`0 for a tensor of ${type}, whose elements have no bytes of their own`, batchAxis)
  return batchAxis
}

/** The one name of a dimension that each tensor has once, but for inputs of fixed shapes, and those of which something else is said. */
function batchName({ inputs, outputs }: Tensors, saidInputs: readonly Said[], saidOutputs: readonly Said[]): string | null {
  const names = new Set([...inputs, ...outputs].flatMap(({ shape }) => shape.filter((dim): dim is string => typeof dim === 'string' && dim !== '')))
  const fits = (value: ValueMetadata, said: Said, name: string) => {
    if (said === null) return !value.shape.includes(name)
    const places = value.shape.filter((dim) => dim === name).length
    return said === undefined ? places === 1 && (value.shape[0] === name || isBlocks(value)) : value.shape[said] === name || value.shape[said] === ''
  }
  const common = [...names].filter(
    (name) =>
      inputs.every((value, index) => fits(value, saidInputs[index], name) || (saidInputs[index] === undefined && isFixed(value))) &&
      outputs.every((value, index) => value.rows !== undefined || fits(value, saidOutputs[index], name)),
  )
  return common.length === 1 ? common[0]! : null
}

function found(value: ValueMetadata, name: string | null, isInput: boolean): number | null {
  const axis = name === null ? 0 : value.shape.indexOf(name)
  return axis === -1 && isInput && isFixed(value) ? null : Math.max(0, axis)
}

function withAxis(value: ValueMetadata, axis: Said): ValueMetadata {
  return axis === 0 || axis === undefined ? value : { ...value, batchAxis: axis }
}

/** Whether parts of it can be copied one by one. */
function isBlocks({ type }: ValueMetadata): boolean {
  return isElementType(type) && type !== 'string' && !isPacked(type)
}

function isFixed({ type, shape }: ValueMetadata): boolean {
  return isElementType(type) && shape.every((dim) => typeof dim === 'number')
}

function checkPadding(model: string, { padding }: Config, { inputs, outputs }: Tensors): void {
  for (const [entry, { input, outputs: cut }] of padding.entries()) {
    const elsewhere = [...inputs.filter(({ name }) => name === input), ...outputs.filter(({ name }) => cut.some((each) => each.name === name))].find(
      (value) => batchAxisOf(value) !== 0,
    )
    if (elsewhere !== undefined) throw invalid(model, `padding[${entry}]`, 'tensors whose first dimension counts rows', elsewhere.name)
  }
}

function invalid(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
