import { createHash } from 'node:crypto'
import { isPromise } from 'node:util/types'
import { InferenceError, invalidArgument, listNames } from '../errors.ts'
import { mostLength } from '../onnx/row-proof/dims.ts'
import { aloneKey } from '../options/batching.ts'
import {
  batchAxisOf,
  type ModelMetadata,
  type TensorMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import {
  isElementType,
  isPacked,
  isTensorLike,
  plainView,
  type ElementType,
  type TensorData,
  type TensorLike,
} from '../tensor/tensor.ts'
import type { Filled, ParsedFeeds } from './infer-request.ts'
import { InputReader } from './input-reader.ts'
import type { Padding } from './padding.ts'
import type { ShapedTensors } from './shaped-tensors.ts'
import { maxEmptyParts, maxParts } from './split.ts'
import { StructuredReader } from './structured-reader.ts'

/** What a model's configuration says of its feeds. */
interface FeedOptions {
  readonly optionalInputs?: readonly string[]
  readonly padding?: Padding | null
  /** Refuse NaN and infinity. */
  readonly finiteOnly?: boolean
  /** Whether strings may have NUL characters. Default `true`. */
  readonly carriesNul?: boolean
  /** Whether the user set `maxBatchSize`: what has more rows is refused then, else it runs alone. Default `true`. */
  readonly limited?: boolean
  /** Names of inputs that a sequence fills. */
  readonly bySequence?: readonly string[]
  /** Inputs as requests have them, where that is not as the model has them. */
  readonly shaped?: Pick<ShapedTensors, 'inputs' | 'shown'>
}

/**
 * Checks the feeds of one model, so that nothing invalid ever reaches a batch. The caller's objects are read once, and
 * what was read is what is checked and used: an object may answer otherwise when it is asked again.
 */
export class FeedParser {
  readonly #model: string
  readonly #maxBatchSize: number
  readonly #inputs: readonly (InputReader | StructuredReader)[]
  /** Which dimension of each counts its rows; -1 for what all rows share, or where there are no rows. */
  readonly #axes: readonly number[]
  readonly #bySequence: ReadonlySet<string>
  readonly #fixedShapes: boolean
  /** Lengths that requests have beside the number of their rows, by input and dimension. */
  readonly #lengths: readonly { readonly input: number; readonly axis: number }[]
  readonly #padding: Padding | null
  readonly #metadata: readonly ValueMetadata[]
  readonly #limited: boolean
  readonly #reshapes: ShapedTensors['inputs']
  readonly #made: MadeTensors | null
  /** To be copied: one for each input. */
  readonly #places: readonly unknown[]
  /** Whether requests are divided into rows; else each is to run alone as it is. */
  byRow = true
  /** The keys of the buckets of which that is true; `null` for all. */
  rowBuckets: { has(key: string): boolean } | null = null

  /** @throws InferenceError `ERR_MODEL_CONFIG` when an optional input is none of the model's. */
  constructor(
    metadata: ModelMetadata,
    {
      optionalInputs = [],
      padding = null,
      finiteOnly = false,
      carriesNul = true,
      limited = true,
      shaped,
      bySequence = [],
    }: FeedOptions = {},
  ) {
    this.#axes = metadata.inputs.map((input) => (metadata.maxBatchSize > 0 ? batchAxisOf(input) : -1))
    this.#model = metadata.name
    this.#maxBatchSize = metadata.maxBatchSize
    this.#metadata = metadata.inputs
    this.#limited = limited
    this.#bySequence = new Set(bySequence)
    this.#reshapes = shaped?.inputs ?? null
    this.#inputs = (shaped?.shown.inputs ?? metadata.inputs).map((input, index) => {
      const options = {
        batchAxis: this.#axes[index]!,
        optional: optionalInputs.includes(input.name),
        finiteOnly,
        carriesNul,
      }
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
    const takesAsGiven = padding === null && !finiteOnly && this.#reshapes === null
    this.#made = takesAsGiven ? MadeTensors.of(metadata) : null
    this.#places = this.#inputs.map(() => undefined)
    this.#lengths = metadata.inputs.flatMap(({ shape }, input) =>
      [...shape.keys()]
        .filter((axis) => typeof shape[axis] === 'string' && axis !== this.#axes[input])
        .map((axis) => ({ input, axis })),
    )
  }

  /** For tensors of which all is known but whether they fit; `null` where feeds have to be {@link parse read}. */
  get made(): MadeTensors | null {
    return this.byRow && (this.rowBuckets === null || this.rowBuckets.has('')) ? this.#made : null // of fixed shapes, each given
  }

  /**
   * Reads the feeds of one request.
   *
   * @param split whether it may have more rows than a batch: as many as {@link maxParts} batches.
   * @param filled inputs that the request may not give, with what stands in for them.
   * @throws InferenceError `ERR_INVALID_ARG` naming the input, what was expected and what was received; with the `cause`
   * when something cannot be read, as with a getter that throws.
   */
  parse(feeds: unknown, split = false, filled: Filled | null = null): ParsedFeeds {
    try {
      return this.#parse(this.#values(feeds, filled), split, filled)
    } catch (error) {
      if (error instanceof InferenceError) throw error
      throw invalidArgument('feeds', 'inputs that can be read', 'an exception', {
        model: this.#model,
        cause: error,
        hint: messageOf(error),
      })
    }
  }

  /**
   * Reads a value that the configuration gives for one input.
   *
   * @throws InferenceError `ERR_MODEL_CONFIG`.
   */
  readOption(option: string, name: string, value: unknown): TensorLike {
    const index = this.#metadata.findIndex((input) => input.name === name)
    const reader = this.#inputs[index] as InputReader
    try {
      const given = reader.read(value)
      return { type: this.#metadata[index]!.type as ElementType, dims: given.dims, data: reader.check(given) }
    } catch (cause) {
      const { message, expected, received } = cause as InferenceError
      throw new InferenceError('ERR_MODEL_CONFIG', `${option}: ${message}`, {
        model: this.#model,
        name: option,
        expected,
        received,
        cause,
      })
    }
  }

  /**
   * The data of one input that a request did not have yet when it was read.
   *
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  check(index: number, tensor: TensorLike): ParsedFeeds['data'][number] {
    const input = this.#inputs[index] as InputReader
    return input.check(input.read(tensor))
  }

  /** The bucket of a request whose data and dims are these now. */
  keyOf({ rows, whole, data, dims }: Pick<ParsedFeeds, 'rows' | 'whole' | 'data' | 'dims'>): string {
    return whole
      ? wholeKey(dims!.map((own, index) => (data[index] === null ? null : own)))
      : this.#bucketKey(rows, data, dims)
  }

  /** The bucket that a request has, or would have, where it is divided into rows; `null` for one that never is. */
  rowKeyOf({ rows, data, dims }: Pick<ParsedFeeds, 'rows' | 'data' | 'dims'>): string | null {
    if (!this.#limited && dims !== null && !this.#hasUsualLengths(dims)) return null
    return this.#bucketKey(rows, data, this.#fixedShapes ? null : dims)
  }

  #parse(values: unknown[], split: boolean, filled: Filled | null): ParsedFeeds {
    const data = values as ParsedFeeds['data'][number][] // one by one, in place of what was given
    const dims: (readonly number[])[] | null = this.#fixedShapes ? null : []
    let first: string | null = null // the input that says how many rows there are
    let rows = 1
    let ownRows: number[] | null = null // of each input, once they differ
    let empty = true
    let alone = !this.byRow
    for (let index = 0; index < values.length; index++) {
      const value = values[index]
      if (value === undefined) {
        data[index] = null
        dims?.push([])
        continue
      }
      const input = this.#inputs[index]!
      const given = input.read(value)
      const axis = this.#axes[index]!
      if (this.#maxBatchSize > 0 && axis === -1) {
        // Of an input without a shape it is not known what its first dimension counts, unless dims were said of it.
        alone ||= given.dims.length > this.#metadata[index]!.shape.length && !this.#reshapes?.[index]
      } else if (this.#maxBatchSize > 0 && !(filled !== null && Object.hasOwn(filled, input.name))) {
        const inputRows = given.dims[axis]!
        if (first === null) {
          first = input.name
          rows = inputRows
          if (filled !== null && rows !== 1 && (this.#limited || this.rowBuckets === null))
            throw this.#invalid(`input '${first}'`, 'one row, as each request of a sequence has', rows)
          if (rows > this.#maxBatchSize && (this.#limited || (split && this.byRow)))
            this.#checkRows(first, rows, split)
        } else if (inputRows !== rows) {
          if (this.#limited)
            throw this.#invalid(`input '${input.name}'`, `${rows} rows, as input '${first}' has`, inputRows)
          ownRows ??= Array.from({ length: index }, () => rows)
        }
        if (ownRows !== null) ownRows[index] = inputRows
      }
      if (rows > this.#maxBatchSize) empty &&= given.dims.includes(0)
      const checked = input.check(given)
      data[index] = this.#maxBatchSize > 0 && axis === -1 ? ownCopy(checked) : checked
      dims?.push(this.#reshapes?.[index]?.of(given.dims) ?? given.dims)
    }
    alone ||= dims !== null && !this.#limited && !this.#hasUsualLengths(dims)
    if (this.#maxBatchSize > 0 && (alone || ownRows !== null || (rows > this.#maxBatchSize && !split))) {
      return wholeRequest(this.#metadata, data, dims, (index) => ownRows?.[index] ?? rows)
    }
    if (empty && first !== null && rows > this.#maxBatchSize)
      this.#checkParts(first, rows, maxEmptyParts, 'rows without any element')
    const bucketKey = this.#bucketKey(rows, data, dims)
    if (this.rowBuckets !== null && (!this.rowBuckets.has(bucketKey) || (filled !== null && rows !== 1)))
      return wholeRequest(this.#metadata, data, dims, () => rows)
    return { rows, bucketKey, whole: false, data, dims }
  }

  /** Whether they are among those for which rows are proved independent; where the user says that they are, all lengths are. */
  #hasUsualLengths(dims: readonly (readonly number[])[]): boolean {
    for (const { input, axis } of this.#lengths) {
      const length = dims[input]![axis]
      if (
        length === 0 ||
        (length !== undefined && (this.#padding?.paddedLength(input, axis, length) ?? length) > mostLength)
      )
        return false
    }
    return true
  }

  /** What is given for each input, each read once; `undefined` for an optional one that is not given. */
  #values(feeds: unknown, filled: Filled | null): unknown[] {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds))
      throw this.#noObject(feeds)
    const values = this.#places.slice() // of that length at once: what is pushed to gets room for many
    let present = 0
    let missing: string | null = null
    for (let index = 0; index < values.length; index++) {
      const { name, optional, nullable } = this.#inputs[index]!
      if (filled !== null && Object.hasOwn(filled, name)) {
        values[index] = filled[name]
        continue
      }
      // Of its own: every object has a `toString`.
      const given = Object.hasOwn(feeds, name) ? (feeds as Record<string, unknown>)[name] : undefined
      const value = given === null && nullable ? undefined : given
      values[index] = value
      if (value !== undefined) present++
      else if (!optional) missing ??= name
    }
    let given = 0
    for (const _ in feeds) given++
    if (missing !== null || given > present || (present === 0 && filled === null))
      this.#checkNames(feeds as Record<string, unknown>, missing, present, filled)
    return values
  }

  #checkNames(
    feeds: Record<string, unknown>,
    missing: string | null,
    present: number,
    filled: Filled | null,
  ): void {
    const names = this.#inputs.flatMap(({ name }) =>
      filled !== null && Object.hasOwn(filled, name) ? [] : [name],
    )
    const unknown = Object.keys(feeds).filter((name) => !names.includes(name) && feeds[name] !== undefined)
    const hint = `The model's inputs are ${this.#names()}${filled === null ? '' : `, of which its sequence fills ${listNames(Object.keys(filled))}`}`
    if (missing !== null && (isTensorLike(feeds) || isPromise(feeds))) throw this.#noObject(feeds)
    if (missing !== null) {
      throw this.#invalid(
        `input '${missing}'`,
        'to be given',
        unknown.length > 0 ? unknown : undefined,
        this.#bySequence.has(missing) ? `${hint}; with options.sequenceId it is filled in` : hint,
      )
    }
    if (unknown.length > 0)
      throw this.#invalid(`input '${unknown[0]}'`, 'an input of the model', unknown[0], hint)
    if (present === 0 && filled === null && !this.#inputs.every(({ nullable }) => nullable))
      throw this.#invalid('feeds', 'at least one input', feeds, hint)
  }

  /** More rows than are run are refused before any data are looked at. */
  #checkRows(input: string, rows: number, split: boolean): void {
    if (split) return this.#checkParts(input, rows, maxParts, 'rows')
    const hint =
      'Without maxBatchSize it would run as it is; if no row depends on another, splitOversized: true runs it in parts'
    throw this.#invalid(`input '${input}'`, `at most ${this.#maxBatchSize} rows (maxBatchSize)`, rows, hint)
  }

  #checkParts(input: string, rows: number, most: number, what: string): void {
    const maxRows = this.#maxBatchSize * most
    if (rows <= maxRows) return
    throw this.#invalid(
      `input '${input}'`,
      `at most ${maxRows} ${what} (${most} parts of maxBatchSize ${this.#maxBatchSize})`,
      rows,
      'Send it as several requests, or raise maxBatchSize',
    )
  }

  #names(): string {
    return this.#inputs.map(({ name }) => `'${name}'`).join(', ') || '(none)'
  }

  #bucketKey(rows: number, data: ParsedFeeds['data'], dims: readonly (readonly number[])[] | null): string {
    // An empty request has nothing to share a run with.
    let key = rows === 0 ? 'empty:' : ''
    for (let index = 0; index < data.length; index++) {
      const values = data[index]!
      const rowAxis = this.#axes[index]!
      if (values === null) {
        key += `-${index};`
        continue
      }
      if (this.#metadata[index]!.ragged === true) {
        key += '*;' // rows of all lengths share a run
      } else if (dims !== null) {
        const padded = this.#padding?.byInput[index]
        const paddedAxis = padded === undefined ? -1 : this.#padding!.inputs[padded]!.axis
        const inputDims = dims[index]!
        for (let axis = 0; axis < inputDims.length; axis++) {
          if (axis === rowAxis) continue
          key +=
            axis === paddedAxis
              ? `${this.#padding!.bucketWord(padded!, inputDims[axis]!)},`
              : `${inputDims[axis]},`
        }
        key += ';'
      }
      if (rowAxis === -1 && this.#maxBatchSize > 0) key += sharedKey(values as TensorData | readonly string[])
    }
    return key
  }

  #noObject(received: unknown): InferenceError {
    return this.#invalid('feeds', 'an object of inputs by name', received)
  }

  #invalid(name: string, expected: string, received: unknown, hint?: string): InferenceError {
    return invalidArgument(name, expected, received, {
      model: this.#model,
      ...(hint === undefined ? {} : { hint }),
    })
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'What was thrown is the cause'
}

/** The bucket of a request that runs as it is: by the dims of its inputs, `null` for one not given. */
export function wholeKey(dims: readonly (readonly number[] | null)[]): string {
  return `${aloneKey}${dims.map((own) => own?.join() ?? '-').join(';')}`
}

/**
 * A request that runs alone as it is.
 *
 * @param dims of each input; `null` where all but the first dimension is fixed.
 * @param firstDims the dimension of each input that would count its rows.
 */
function wholeRequest(
  inputs: readonly ValueMetadata[],
  data: ParsedFeeds['data'],
  dims: ParsedFeeds['dims'],
  firstDims: (index: number) => number,
): ParsedFeeds {
  const own = data.map((values, index): readonly number[] | null =>
    values === null ? null : (dims?.[index] ?? dimsOf(inputs[index]!, firstDims(index))),
  )
  return { rows: 1, bucketKey: wholeKey(own), whole: true, data, dims: own.map((given) => given ?? []) }
}

/** Of an input in whose shape nothing but the rows is variable. */
function dimsOf(input: ValueMetadata, rows: number): number[] {
  const axis = batchAxisOf(input)
  return input.shape.map((dim, at) => (at === axis ? rows : (dim as number)))
}

/** Values of so many bytes stand for themselves in a key. */
const shortBytes = 64

/** What stands in a bucket's key for the value of an input that all rows of a batch share. */
export function sharedKey(values: TensorData | readonly string[]): string {
  if (!ArrayBuffer.isView(values)) return `=${JSON.stringify(values)};`
  const { buffer, byteOffset, byteLength } = plainView(values)
  const bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  return `=${byteLength <= shortBytes ? bytes.toString('hex') : createHash('sha256').update(bytes).digest('hex')};`
}

/** A value that is the same for others too is to be what its key says, whatever its caller does with the data. */
export function ownCopy(values: ParsedFeeds['data'][number]): ParsedFeeds['data'][number] {
  return ArrayBuffer.isView(values) ? (plainView(values as TensorData).slice() as TensorData) : values
}

/**
 * Takes tensors for a model's inputs that have been read already, or made by another model: of the right types, with as many
 * elements as their dims say. All that is left to look at is whether they are of the model's shapes, and one row each of as many.
 */
export class MadeTensors {
  readonly #shapes: readonly (readonly (number | string)[])[]
  readonly #maxBatchSize: number

  private constructor({ inputs, maxBatchSize }: ModelMetadata) {
    this.#shapes = inputs.map(({ shape }) => shape)
    this.#maxBatchSize = maxBatchSize
  }

  /** `null` for a model of whose inputs more is to be looked at: shapes that are not fixed, say, or float16, which newer Node shows as numbers. */
  static of(metadata: ModelMetadata): MadeTensors | null {
    const batched = metadata.maxBatchSize > 0
    const isPlain = metadata.inputs.every((input) => {
      const { type, shape, ragged } = input
      if (
        !isElementType(type) ||
        type === 'string' ||
        type === 'float16' ||
        isPacked(type) ||
        ragged === true ||
        shape.length === 0
      )
        return false
      return (
        (!batched || batchAxisOf(input) === 0) &&
        shape.every((dim, axis) => typeof dim === 'number' || (batched && axis === 0))
      )
    })
    return isPlain && metadata.inputs.length > 0 ? new MadeTensors(metadata) : null
  }

  /**
   * Makes a request of the tensors for all inputs, in the model's order; takes the array over. Returns `null` when one does not fit as it is:
   * reading the feeds then finds out why.
   */
  take(tensors: TensorLike[]): ParsedFeeds | null {
    const first = this.#maxBatchSize > 0 ? 1 : 0
    const rows = first === 1 ? tensors[0]!.dims[0]! : 1
    if (rows === 0 || (first === 1 && rows > this.#maxBatchSize)) return null
    const data = tensors as unknown[] as TensorData[] // one by one, in place of the tensors
    for (let index = 0; index < tensors.length; index++) {
      const { dims, data: own } = tensors[index]!
      const shape = this.#shapes[index]!
      if (dims.length !== shape.length || (first === 1 && dims[0] !== rows)) return null
      for (let axis = first; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return null
      data[index] = own as TensorData
    }
    return { rows, bucketKey: '', whole: false, data, dims: null }
  }
}
