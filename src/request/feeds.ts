import { isPromise } from 'node:util/types'
import type { ResolvedSequence } from '../config/sequence-config.ts'
import { InferenceError, invalidArgument } from '../errors.ts'
import { isElementType, isTensorLike } from '../tensor.ts'
import type { ModelMetadata, TensorMetadata, ValueMetadata } from '../metadata.ts'
import type { ParsedFeeds } from './infer-request.ts'
import { InputReader } from './input-reader.ts'
import { StructuredReader } from './structured-reader.ts'
import type { Padding } from './padding.ts'
import { Sequences } from './sequences.ts'
import type { ShapedTensors } from './shaped-tensors.ts'
import { maxEmptyParts, maxParts } from './split.ts'
import { wholeRequest } from './whole-request.ts'

/** What a model's configuration says of its feeds. */
export interface FeedOptions {
  readonly optionalInputs?: readonly string[]
  readonly padding?: Padding | null
  /** Refuse NaN and infinity. */
  readonly finiteOnly?: boolean
  /** Whether strings may have NUL characters. Default `true`. */
  readonly carriesNul?: boolean
  /** Whether the user set `maxBatchSize`: what has more rows is refused then, else it runs alone. Default `true`. */
  readonly limited?: boolean
  /** Inputs as requests have them, where that is not as the model has them. */
  readonly shaped?: Pick<ShapedTensors, 'inputs' | 'shown'>
  readonly sequence?: ResolvedSequence | null
}

/**
 * Checks the feeds of one model, so that nothing invalid ever reaches a batch. The caller's objects are read once, and
 * what was read is what is checked and used: an object may answer otherwise when it is asked again.
 */
export class FeedParser {
  readonly #model: string
  readonly #maxBatchSize: number
  readonly #inputs: readonly (InputReader | StructuredReader)[]
  readonly #fixedShapes: boolean
  readonly #padding: Padding | null
  readonly #metadata: readonly ValueMetadata[]
  /** Of a model whose requests may belong to sequences; else `null`. */
  readonly sequences: Sequences | null
  readonly #limited: boolean
  readonly #reshapes: ShapedTensors['inputs']
  /** Whether requests are divided into rows; else each is to run alone as it is. */
  byRow = true

  /** @throws InferenceError `ERR_MODEL_CONFIG` when an optional input is none of the model's. */
  constructor(metadata: ModelMetadata, { optionalInputs = [], padding = null, finiteOnly = false, carriesNul = true, limited = true, shaped, sequence = null }: FeedOptions = {}) {
    const rowAxis = metadata.maxBatchSize > 0 ? 1 : 0
    this.#model = metadata.name
    this.#maxBatchSize = metadata.maxBatchSize
    this.#metadata = metadata.inputs
    this.#limited = limited
    this.sequences = sequence === null ? null : new Sequences(metadata, sequence)
    this.#reshapes = shaped?.inputs ?? null
    this.#inputs = (shaped?.shown.inputs ?? metadata.inputs).map((input) => {
      const options = { rowAxis, optional: optionalInputs.includes(input.name), finiteOnly, carriesNul }
      if (!isElementType(input.type)) return new StructuredReader(metadata.name, input, options)
      return new InputReader(metadata.name, input as TensorMetadata, options)
    })
    const unknown = optionalInputs.find((name) => !this.#inputs.some((input) => input.name === name))
    if (unknown !== undefined) {
      const details = { code: 'ERR_MODEL_CONFIG', model: metadata.name } as const
      throw invalidArgument('optionalInputs', `names out of ${this.#names()}`, unknown, details)
    }
    this.#padding = padding
    this.#fixedShapes = this.#inputs.every(({ fixedShape }) => fixedShape)
  }

  /**
   * Reads the feeds of one request.
   *
   * @param split whether it may have more rows than a batch: as many as {@link maxParts} batches.
   * @throws InferenceError `ERR_INVALID_ARG` naming the input, what was expected and what was received; with the `cause`
   * when something cannot be read, as with a getter that throws.
   */
  parse(feeds: unknown, split = false): ParsedFeeds {
    try {
      return this.#parse(feeds, split)
    } catch (error) {
      if (error instanceof InferenceError) throw error
      throw invalidArgument('feeds', 'inputs that can be read', 'an exception', { model: this.#model, cause: error, hint: messageOf(error) })
    }
  }

  #parse(feeds: unknown, split: boolean): ParsedFeeds {
    const values = this.#values(feeds)
    const data = values as ParsedFeeds['data'][number][] // one by one, in place of what was given
    const dims: (readonly number[])[] | null = this.#fixedShapes ? null : []
    let first: string | null = null // the input that says how many rows there are
    let rows = 1
    let ownRows: number[] | null = null // of each input, once they differ
    let empty = true
    for (let index = 0; index < values.length; index++) {
      const value = values[index]
      if (value === undefined) {
        data[index] = null
        dims?.push([])
        continue
      }
      const input = this.#inputs[index]!
      const given = input.read(value)
      if (this.#maxBatchSize > 0) {
        const inputRows = given.dims[0]!
        if (first === null) {
          first = input.name
          rows = inputRows
          if (rows > this.#maxBatchSize && (this.#limited || (split && this.byRow))) this.#checkRows(first, rows, split)
        } else if (inputRows !== rows) {
          if (this.#limited) throw this.#invalid(`input '${input.name}'`, `${rows} rows, as input '${first}' has`, inputRows)
          ownRows ??= Array.from({ length: index }, () => rows)
        }
        if (ownRows !== null) ownRows[index] = inputRows
      }
      if (rows > this.#maxBatchSize) empty &&= given.dims.includes(0)
      data[index] = input.check(given)
      dims?.push(this.#reshapes?.[index]?.of(given.dims) ?? given.dims)
    }
    if (this.#maxBatchSize > 0 && (!this.byRow || ownRows !== null || (rows > this.#maxBatchSize && !split))) {
      return wholeRequest(this.#metadata, data, dims, (index) => ownRows?.[index] ?? rows)
    }
    if (empty && first !== null && rows > this.#maxBatchSize) this.#checkParts(first, rows, maxEmptyParts, 'rows without any element')
    return { rows, bucketKey: this.#bucketKey(rows, data, dims), whole: false, data, dims }
  }

  /** What is given for each input, each read once; `undefined` for an optional one that is not given. */
  #values(feeds: unknown): unknown[] {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds)) throw this.#noObject(feeds)
    const values: unknown[] = []
    let present = 0
    let missing: string | null = null
    for (const { name, optional, nullable } of this.#inputs) {
      // Of its own: every object has a `toString`.
      const given = Object.hasOwn(feeds, name) ? (feeds as Record<string, unknown>)[name] : undefined
      const value = given === null && nullable ? undefined : given
      values.push(value)
      if (value !== undefined) present++
      else if (!optional) missing ??= name
    }
    let given = 0
    for (const _ in feeds) given++
    if (missing !== null || given > present || present === 0) this.#checkNames(feeds as Record<string, unknown>, missing, present)
    return values
  }

  #checkNames(feeds: Record<string, unknown>, missing: string | null, present: number): void {
    const names = this.#inputs.map(({ name }) => name)
    const unknown = Object.keys(feeds).filter((name) => !names.includes(name) && feeds[name] !== undefined)
    const hint = `The model's inputs are ${this.#names()}`
    if (missing !== null && (isTensorLike(feeds) || isPromise(feeds))) throw this.#noObject(feeds)
    if (missing !== null) {
      const isFilled = this.sequences?.fills(missing) === true
      throw this.#invalid(`input '${missing}'`, 'to be given', unknown.length > 0 ? unknown : undefined, isFilled ? `${hint}; with options.sequence it is filled in` : hint)
    }
    if (unknown.length > 0) throw this.#invalid(`input '${unknown[0]}'`, 'an input of the model', unknown[0], hint)
    if (present === 0 && !this.#inputs.every(({ nullable }) => nullable)) throw this.#invalid('feeds', 'at least one input', feeds, hint)
  }

  /** More rows than are run are refused before any data are looked at. */
  #checkRows(input: string, rows: number, split: boolean): void {
    if (split) return this.#checkParts(input, rows, maxParts, 'rows')
    const hint = 'Without maxBatchSize it would run as it is; if no row depends on another, splitOversized: true runs it in parts'
    throw this.#invalid(`input '${input}'`, `at most ${this.#maxBatchSize} rows (maxBatchSize)`, rows, hint)
  }

  #checkParts(input: string, rows: number, most: number, what: string): void {
    const maxRows = this.#maxBatchSize * most
    if (rows <= maxRows) return
    const expected = `at most ${maxRows} ${what} (${most} parts of maxBatchSize ${this.#maxBatchSize})`
    throw this.#invalid(`input '${input}'`, expected, rows, 'Send it as several requests, or raise maxBatchSize')
  }

  #names(): string {
    return this.#inputs.map(({ name }) => `'${name}'`).join(', ') || '(none)'
  }

  #bucketKey(rows: number, data: ParsedFeeds['data'], dims: readonly (readonly number[])[] | null): string {
    const rowAxis = this.#maxBatchSize > 0 ? 1 : 0
    // An empty request has nothing to share a run with.
    let key = rows === 0 ? 'empty:' : ''
    for (let index = 0; index < data.length; index++) {
      if (data[index] === null) {
        key += `-${index};`
      } else if (this.#metadata[index]!.ragged === true) {
        key += '*;' // rows of all lengths share a run
      } else if (dims !== null) {
        const padded = this.#padding?.byInput[index]
        const paddedAxis = padded === undefined ? -1 : this.#padding!.inputs[padded]!.axis
        const inputDims = dims[index]!
        for (let axis = rowAxis; axis < inputDims.length; axis++) {
          key += axis === paddedAxis ? `${this.#padding!.bucketWord(padded!, inputDims[axis]!)},` : `${inputDims[axis]},`
        }
        key += ';'
      }
    }
    return key
  }

  #noObject(received: unknown): InferenceError {
    return this.#invalid('feeds', 'an object of inputs by name', received)
  }

  #invalid(name: string, expected: string, received: unknown, hint?: string): InferenceError {
    return invalidArgument(name, expected, received, { model: this.#model, ...(hint === undefined ? {} : { hint }) })
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'What was thrown is the cause'
}
