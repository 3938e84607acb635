import { invalidArgument, batchAxisOf, notStackable, shownShape, isElementType } from 'zerohop/internals'
import type { ElementType, ModelMetadata } from 'zerohop'

/** An input as requests give it. */
export interface InputShape {
  readonly name: string
  readonly type: ElementType
  /** Dims of one row: without the one that counts rows, where there is one. -1 for one that only the data says. */
  readonly rowDims: readonly number[]
  /** Where the dimension that counts rows lies; -1 for an input without. */
  readonly batchAxis: number
}

/** Dims of inputs by their names, as `--shape` gives them. */
export type GivenShapes = ReadonlyMap<string, readonly number[]>

/** Whether requests to a model can have several rows. */
export function hasRows({ inputs, outputs, maxBatchSize }: ModelMetadata): boolean {
  return maxBatchSize > 0 || notStackable({ inputs, outputs }) === null
}

/**
 * What the inputs of a model are given.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a shape that does not fit, or an input that is no tensor.
 */
export function inputShapes(metadata: ModelMetadata, given: GivenShapes = new Map()): InputShape[] {
  const names = metadata.inputs.map(({ name }) => name)
  const strange = [...given.keys()].find((name) => !names.includes(name))
  if (strange !== undefined)
    throw invalidArgument('shape', `the name of an input (${names.join(', ')})`, strange)
  const rows = hasRows(metadata)
  return metadata.inputs.map(({ name, type, shape, ...value }) => {
    if (!isElementType(type))
      throw invalidArgument(`input '${name}'`, 'a tensor, which data can be made for', type)
    const batchAxis = rows ? batchAxisOf(value) : -1
    const own = shape.filter((_, axis) => axis !== batchAxis)
    return { name, type, rowDims: fixed(name, own, given.get(name)), batchAxis }
  })
}

/** What its outputs are like: those that are tensors. */
export function outputShapes(metadata: ModelMetadata): InputShape[] {
  const rows = hasRows(metadata)
  return metadata.outputs.flatMap(({ name, type, shape, ...value }) => {
    if (!isElementType(type)) return []
    const batchAxis = rows ? batchAxisOf(value) : -1
    return [
      {
        name,
        type,
        rowDims: fixed(
          name,
          shape.filter((_, axis) => axis !== batchAxis),
          undefined,
        ),
        batchAxis,
      },
    ]
  })
}

function fixed(
  name: string,
  shape: readonly (number | string)[],
  given: readonly number[] | undefined,
): number[] {
  if (given === undefined) return shape.map((dim) => (typeof dim === 'number' ? dim : -1))
  const fits =
    given.length === shape.length &&
    shape.every((dim, axis) => typeof dim === 'string' || dim === given[axis])
  if (!fits)
    throw invalidArgument(
      `shape of input '${name}'`,
      `dims that fit ${shownShape(shape)}, without the batch dimension`,
      [...given],
    )
  return [...given]
}

/** @throws InferenceError `ERR_INVALID_ARG` for dims that are not known. */
export function knownDims({ name, rowDims }: InputShape): readonly number[] {
  if (!rowDims.includes(-1)) return rowDims
  const example = rowDims.map((dim) => (dim === -1 ? 1 : dim)).join(',')
  throw invalidArgument(
    `input '${name}'`,
    'a shape, as it has variable dimensions',
    shownShape(rowDims.map((dim) => (dim === -1 ? '' : dim))),
    { hint: `Give one: --shape ${name}:${example}` },
  )
}
