import { isPromise } from 'node:util/types'
import { nearestName } from '../base/nearest-name.ts'
import { listNames } from '../errors.ts'
import { shownShape, type TensorMetadata } from '../tensor/metadata.ts'
import { isRawType, isTensorLike, storageOf, type ElementType } from '../tensor/tensor.ts'
import type { Filled } from './infer-request.ts'
import { maxParts } from './split.ts'

// Finds out what is wrong with feeds, and puts it into words. A valid request hardly comes here.

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
function inputsHint(names: readonly string[], filled: readonly string[] | null): string {
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
function missingHint(
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

export const expectedFeeds = 'an object of inputs by name'

/** What does not fit, what was expected and what was received. */
export interface WrongFeeds {
  readonly name: string
  readonly expected: string
  readonly received: unknown
  readonly hint?: string
  readonly meant?: string | null
}

/** Checks the names of feeds when an input is missing or a name is unknown. Returns `null` if all names are right. */
export function wrongNames(
  feeds: object,
  inputs: readonly { readonly name: string; readonly nullable: boolean }[],
  found: {
    readonly missing: string | null
    /** Inputs that are given. */
    readonly present: number
    readonly filled: Filled | null
    readonly bySequence: ReadonlySet<string>
  },
): WrongFeeds | null {
  const { missing, present, filled, bySequence } = found
  const all = inputs.map(({ name }) => name)
  const names = all.filter((name) => filled === null || !Object.hasOwn(filled, name))
  const given = feeds as Record<string, unknown>
  const unknown = Object.keys(feeds).filter((name) => !names.includes(name) && given[name] !== undefined)
  const hint = inputsHint(all, filled === null ? null : Object.keys(filled))
  if (missing !== null && (isTensorLike(feeds) || isPromise(feeds)))
    return { name: 'feeds', expected: expectedFeeds, received: feeds }
  if (missing !== null) {
    return {
      name: `input '${missing}'`,
      expected: 'to be given',
      received: unknown.length > 0 ? unknown : undefined,
      hint: missingHint(missing, unknown, present > 0, bySequence.has(missing), hint),
    }
  }
  const [other] = unknown
  if (other !== undefined) {
    const meant = nearestName(other, names)
    return { name: `input '${other}'`, expected: 'an input of the model', received: other, hint, meant }
  }
  const needsOne = present === 0 && filled === null && !inputs.every(({ nullable }) => nullable)
  return needsOne ? { name: 'feeds', expected: 'at least one input', received: feeds, hint } : null
}

/** Checks the number of rows before any data is read. Returns `null` if so many can be run. */
export function tooManyRows(
  input: string,
  rows: number,
  maxBatchSize: number,
  split: boolean,
): WrongFeeds | null {
  if (split) return tooManyParts(input, rows, maxBatchSize, maxParts, 'rows')
  const hint =
    'Without maxBatchSize it would run as it is; if no row depends on another, splitOversized: true runs it in parts'
  return {
    name: `input '${input}'`,
    expected: `at most ${maxBatchSize} rows (maxBatchSize)`,
    received: rows,
    hint,
  }
}

/** Checks the number of rows of a request that is split. Returns `null` if it needs `mostParts` parts at most. */
export function tooManyParts(
  input: string,
  rows: number,
  maxBatchSize: number,
  mostParts: number,
  what: string,
): WrongFeeds | null {
  const maxRows = maxBatchSize * mostParts
  if (rows <= maxRows) return null
  const expected = `at most ${maxRows} ${what} (${mostParts} parts of maxBatchSize ${maxBatchSize})`
  return {
    name: `input '${input}'`,
    expected,
    received: rows,
    hint: 'Send it as several requests, or raise maxBatchSize',
  }
}
