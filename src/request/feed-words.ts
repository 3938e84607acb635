import { nearestName } from '../base/nearest-name.ts'
import { listNames } from '../errors.ts'
import { shownShape, type TensorMetadata } from '../tensor/metadata.ts'
import { isRawType, storageOf, type ElementType } from '../tensor/tensor.ts'

// What is said of feeds that do not fit.

/**
 * What data was checked against.
 *
 * @param row shape of the input, of which the data is one row; `null` for data with dims.
 */
export function shownDims(dims: readonly number[], row: readonly (number | string)[] | null): string {
  return row === null ? `dims [${dims.join(', ')}]` : `one row of shape ${shownShape(row)}`
}

/** The array that an input takes, with its article. */
export function arrayName(type: ElementType): string {
  if (type === 'string') return 'a string or an array of strings'
  const { name } = storageOf(type)
  const one = `${name.startsWith('I') ? 'an' : 'a'} ${name}`
  if (isRawType(type)) return `${one} of raw ${type} bits`
  return type === 'float16' ? `${one} of raw half-precision bits (or a Float16Array)` : one
}

/**
 * A hint for elements of several rows without dims; empty for what are none.
 *
 * @param dims of one row.
 * @param rows how many times as many elements were given.
 */
export function rowsHint(
  type: ElementType,
  dims: readonly number[],
  batchAxis: number,
  rows: number,
): string {
  if (batchAxis === -1 || rows <= 1 || !Number.isInteger(rows)) return ''
  const all = dims.map((dim, axis) => (axis === batchAxis ? rows : dim))
  return `Several rows take a Tensor: new Tensor('${type}', data, [${all.join(', ')}])`
}

/** A hint for bytes where pixels are expected; empty for others. */
export function imageHint({ shape }: TensorMetadata, data: unknown): string {
  return data instanceof Uint8Array && shape.length >= 3
    ? "An encoded image takes `image` for this input in the model's configuration"
    : ''
}

/** A hint that lists the inputs of a model. */
export function inputsHint(names: readonly string[], filled: readonly string[] | null): string {
  const listed = names.map((name) => `'${name}'`).join(', ') || '(none)'
  return `The model's inputs are ${listed}${filled === null ? '' : `, of which its sequence fills ${listNames(filled)}`}`
}

/** Most unknown names that are compared with the missing one. */
const mostCompared = 10

/**
 * A hint for an input that is missing.
 *
 * @param unknown names that were given and are no inputs.
 * @param hasOthers whether other inputs were given.
 * @param all as {@link inputsHint} says.
 */
export function missingHint(
  missing: string,
  unknown: readonly string[],
  hasOthers: boolean,
  bySequence: boolean,
  all: string,
): string {
  const misspelt = unknown.slice(0, mostCompared).find((name) => nearestName(name, [missing]) !== null)
  if (misspelt !== undefined) return `Did you mean '${missing}' by '${misspelt}'? ${all}`
  if (bySequence) return `${all}; with options.sequenceId it is filled in`
  return hasOthers && unknown.length === 0
    ? `${all}; those that the model can do without are to be listed in its optionalInputs`
    : all
}
