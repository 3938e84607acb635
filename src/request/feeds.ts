import { Tensor } from 'onnxruntime-common'
import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import { mostLength } from '../onnx/row-proof/dims.ts'
import {
  batchAxisOf,
  type ModelMetadata,
  type TensorMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import {
  elementCount,
  isElementType,
  isOnCpu,
  isPacked,
  isTensorLike,
  lengthOf,
  storageLength,
  toStorage,
  type ElementType,
  type TensorData,
  type TensorLike,
} from '../tensor/tensor.ts'
import type { Filled, InferRequest, ParsedFeeds } from './infer-request.ts'
import { ownCopy, sharedKey, wholeKey, wholeRequest } from './bucket-keys.ts'
import { expectedFeeds, tooManyParts, tooManyRows, wrongNames, type WrongFeeds } from './feed-words.ts'
import { InputReader } from './input-reader.ts'
import type { Padding } from './padding.ts'
import type { ShapedTensors } from './shaped-tensors.ts'
import { maxEmptyParts } from './split.ts'
import { StructuredReader } from './structured-reader.ts'

/** Stands for a value of the feeds that was not read. */
const notRead = Symbol('not read')

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
 * Checks the feeds of one model, so that nothing invalid ever reaches a batch. It uses the very values that it has checked, and never
 * reads them again: an object may give another value each time.
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
  readonly #plain: PlainFeeds | null
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
    if (unknown !== undefined)
      throw invalidConfig(metadata.name, 'optionalInputs', `names out of ${this.#names()}`, unknown)
    this.#padding = padding
    this.#fixedShapes = this.#inputs.every(({ fixedShape }) => fixedShape)
    const takesAsGiven = padding === null && !finiteOnly && this.#reshapes === null
    this.#plain = takesAsGiven ? PlainFeeds.of(metadata) : null
    this.#lengths = metadata.inputs.flatMap(({ shape }, input) =>
      [...shape.keys()]
        .filter((axis) => typeof shape[axis] === 'string' && axis !== this.#axes[input])
        .map((axis) => ({ input, axis })),
    )
  }

  /** For feeds that are as they should be; `null` where all have to be looked at closely. */
  get plain(): PlainFeeds | null {
    return this.byRow && (this.rowBuckets === null || this.rowBuckets.has('')) ? this.#plain : null // of fixed shapes, each given
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
      const plain = filled === null ? this.plain : null
      const parsed = plain === null ? this.#inputs.map(() => notRead) : plain.parse(feeds)
      return Array.isArray(parsed) ? this.#parse(this.#values(feeds, filled, parsed), split, filled) : parsed
    } catch (error) {
      throw this.#unreadable(error)
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
    let whole = !this.byRow
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
        whole ||= given.dims.length > this.#metadata[index]!.shape.length && !this.#reshapes?.[index]
      } else if (this.#maxBatchSize > 0 && !(filled !== null && Object.hasOwn(filled, input.name))) {
        const inputRows = given.dims[axis]!
        if (first === null) {
          first = input.name
          rows = inputRows
          if (filled !== null && rows !== 1 && (this.#limited || this.rowBuckets === null))
            throw this.#invalid(`input '${first}'`, 'one row, as each request of a sequence has', rows)
          if (rows > this.#maxBatchSize && (this.#limited || (split && this.byRow)))
            this.#refuse(tooManyRows(first, rows, this.#maxBatchSize, split))
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
    whole ||= dims !== null && !this.#limited && !this.#hasUsualLengths(dims)
    if (this.#maxBatchSize > 0 && (whole || ownRows !== null || (rows > this.#maxBatchSize && !split))) {
      return wholeRequest(this.#metadata, data, dims, (index) => ownRows?.[index] ?? rows)
    }
    if (empty && first !== null && rows > this.#maxBatchSize)
      this.#refuse(tooManyParts(first, rows, this.#maxBatchSize, maxEmptyParts, 'rows without any element'))
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

  /**
   * What is given for each input, each read once; `undefined` for an optional one that is not given.
   *
   * @param values what was read already.
   */
  #values(feeds: unknown, filled: Filled | null, values: unknown[]): unknown[] {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds))
      throw this.#invalid('feeds', expectedFeeds, feeds)
    let present = 0
    let missing: string | null = null
    for (let index = 0; index < values.length; index++) {
      const { name, optional, nullable } = this.#inputs[index]!
      if (filled !== null && Object.hasOwn(filled, name)) {
        values[index] = filled[name]
        continue
      }
      // Of its own: every object has a `toString`.
      const given =
        values[index] !== notRead
          ? values[index]
          : Object.hasOwn(feeds, name)
            ? (feeds as Record<string, unknown>)[name]
            : undefined
      const value = given === null && nullable ? undefined : given
      values[index] = value
      if (value !== undefined) present++
      else if (!optional) missing ??= name
    }
    let given = 0
    for (const _ in feeds) given++
    if (missing !== null || given > present || (present === 0 && filled === null))
      this.#refuse(
        wrongNames(feeds, this.#inputs, { missing, present, filled, bySequence: this.#bySequence }),
      )
    return values
  }

  /** What is thrown where feeds cannot be read. */
  #unreadable(error: unknown): InferenceError {
    if (error instanceof InferenceError) return error
    return invalidArgument('feeds', 'inputs that can be read', 'an exception', {
      model: this.#model,
      cause: error,
      hint: error instanceof Error ? error.message : 'See cause for the error',
    })
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

  #refuse(wrong: WrongFeeds | null): void {
    if (wrong !== null)
      throw this.#invalid(wrong.name, wrong.expected, wrong.received, wrong.hint, wrong.meant)
  }

  #invalid(name: string, expected: string, received: unknown, hint?: string, meant: string | null = null) {
    const details = { model: this.#model, meant }
    return invalidArgument(name, expected, received, hint === undefined ? details : { ...details, hint })
  }
}

/** Copies the properties of a tensor that is no `Tensor`: such an object may give other values the next time. */
function readOnce(value: unknown): unknown {
  if (value instanceof Tensor || !isTensorLike(value)) return value
  const { location, type, dims } = value
  const ownDims = Array.isArray(dims) ? dims.slice(0, 64) : dims // more are refused, however many
  return { location, type, dims: ownDims, data: isOnCpu(location) ? value.data : undefined }
}

/** An input of {@link PlainFeeds}. */
interface PlainInput {
  readonly name: string
  readonly type: ElementType
  readonly shape: readonly (number | string)[]
  /** Elements of one row, or of the whole input of an unbatched model. */
  readonly rowElements: number
}

const hasOwn = Object.prototype.hasOwnProperty // in a loop over names V8 knows its answer, as it does not that of Object.hasOwn

/** Feeds of a model whose inputs all have fixed shapes. Only the number of rows varies. */
export class PlainFeeds {
  readonly #inputs: readonly PlainInput[]
  readonly #maxBatchSize: number
  /** To be copied: {@link notRead} for each input. */
  readonly #notRead: readonly unknown[]

  private constructor({ inputs, maxBatchSize }: ModelMetadata) {
    const isBatched = maxBatchSize > 0
    this.#inputs = inputs.map(({ name, type, shape }) => ({
      name,
      type: type as ElementType,
      shape,
      rowElements: elementCount((isBatched ? shape.slice(1) : shape) as number[]),
    }))
    this.#maxBatchSize = maxBatchSize
    this.#notRead = inputs.map(() => notRead)
  }

  /** `null` for a model of whose inputs more is to be looked at: shapes that are not fixed, say, or float16, which newer Node shows as numbers. */
  static of(metadata: ModelMetadata): PlainFeeds | null {
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
    return isPlain && metadata.inputs.length > 0 ? new PlainFeeds(metadata) : null
  }

  /**
   * Reads feeds that are as they should be. Where anything is to be looked at closely, returns what was read of each input, which may give
   * another value the next time, and {@link notRead} for the others.
   */
  parse(feeds: unknown): ParsedFeeds | unknown[] {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds))
      return this.#notRead.slice()
    const inputs = this.#inputs
    let value: unknown = notRead // what was read of a model's only input; of several inputs it is in `values`
    const values = inputs.length === 1 ? null : this.#notRead.slice()
    let data: unknown[] | null = null
    let given = 0
    let rows = 0
    // In a loop over the names of an object V8 reads the value of each without a search.
    for (const name in feeds) {
      const index = inputs[given]?.name === name ? given : inputs.findIndex((input) => input.name === name)
      if (index === -1 || !hasOwn.call(feeds, name)) return values ?? [value]
      value = readOnce((feeds as Record<string, unknown>)[name])
      data ??= values === null ? [value] : values.slice()
      if (values !== null) values[index] = value
      const own = rows === -1 ? 0 : this.#read(inputs[index]!, value, data, index)
      rows = own === 0 || (given > 0 && own !== rows) ? -1 : own
      given++
    }
    if (rows < 1 || given < inputs.length) return values ?? [value]
    return { rows, bucketKey: '', whole: false, data: data as TensorData[], dims: null }
  }

  /** Puts the data of a tensor, or of one row, into `data`; returns the rows, or 0 if the value has to be looked at closely. */
  #read({ type, shape, rowElements }: PlainInput, value: unknown, data: unknown[], index: number): number {
    let rows = 1
    let own = value
    if (value instanceof Tensor || isTensorLike(value)) {
      const { location, type: ownType, dims } = value
      if (!isOnCpu(location)) return 0
      if (ownType !== type || !Array.isArray(dims) || dims.length !== shape.length) return 0
      const first = this.#maxBatchSize > 0 ? 1 : 0
      if (first === 1) rows = dims[0]!
      if (!Number.isSafeInteger(rows) || rows < 1 || rows > Math.max(1, this.#maxBatchSize)) return 0
      for (let axis = first; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return 0
      own = value.data
    }
    const stored = toStorage(type, own)
    if (stored === null || lengthOf(stored) !== rows * rowElements) return 0
    data[index] = stored
    return rows
  }

  /**
   * Makes a request of tensors for all inputs that were read already, or made by another model: of the right types, with as many
   * elements as their dims say, in the model's order. It takes the array over. Returns `null` when one does not fit as it is: reading
   * the feeds then finds out why.
   */
  take(tensors: TensorLike[]): ParsedFeeds | null {
    const first = this.#maxBatchSize > 0 ? 1 : 0
    const rows = first === 1 ? tensors[0]!.dims[0]! : 1
    if (rows === 0 || (first === 1 && rows > this.#maxBatchSize)) return null
    const data = tensors as unknown[] as TensorData[] // one by one, in place of the tensors
    for (let index = 0; index < tensors.length; index++) {
      const { dims, data: own } = tensors[index]!
      const { shape } = this.#inputs[index]!
      if (dims.length !== shape.length || (first === 1 && dims[0] !== rows)) return null
      for (let axis = first; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return null
      data[index] = own as TensorData
    }
    return { rows, bucketKey: '', whole: false, data, dims: null }
  }
}

/**
 * Whether the data of a request have still as many elements as were checked: a buffer can be detached or resized while
 * the request waits, and fewer would leave in the slot what another caller sent. To be asked right before the data are
 * read. Strings were copied and cannot change.
 *
 * @param ofOneRow what {@link lengthsOfOneRow} gives for the same model.
 * @returns what to reject the request with, or `null`.
 */
export function changedInput(
  metadata: ModelMetadata,
  ofOneRow: readonly number[],
  { data, dims, rows }: InferRequest,
): InferenceError | null {
  for (let index = 0; index < data.length; index++) {
    const values = data[index]!
    if (!ArrayBuffer.isView(values)) continue
    const expected =
      dims === null && rows === 1 ? ofOneRow[index]! : lengthIn(metadata.inputs[index]!, rows, dims?.[index])
    const received = lengthOf(values)
    if (received === expected) continue
    const hint =
      'Its buffer was detached or changed after infer() was called; do not touch it until the call settles'
    const name = `input '${metadata.inputs[index]!.name}'`
    return invalidArgument(name, `${expected} elements`, received, { model: metadata.name, hint })
  }
  return null
}

/** By input, the elements of a typed array for a request of one row without dims of its own. */
export function lengthsOfOneRow({ inputs }: ModelMetadata): number[] {
  return inputs.map((input) => lengthIn(input, 1, undefined))
}

/** Elements of a typed array; without `dims`, of an input in which nothing but the rows is variable. */
function lengthIn({ type, shape }: ValueMetadata, rows: number, dims: readonly number[] | undefined): number {
  let elements = 1
  for (const dim of dims ?? shape) elements *= typeof dim === 'number' ? dim : rows
  return storageLength(type as ElementType, elements)
}
