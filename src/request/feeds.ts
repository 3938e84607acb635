import { Tensor } from 'onnxruntime-common'
import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import { mostLength } from '../onnx/row-proof/dims.ts'
import {
  batchAxisOf,
  shownShape,
  type ModelMetadata,
  type TensorMetadata,
  type ValueMetadata,
} from '../tensor/metadata.ts'
import {
  elementCount,
  firstNonFinite,
  isElementType,
  isEmptied,
  isPacked,
  isTensorLike,
  kindOf,
  lengthOf,
  plainView,
  storageLength,
  toStorage,
  type ElementType,
  type TensorData,
  type TensorLike,
} from '../tensor/tensor.ts'
import type { Filled, InferRequest, ParsedFeeds } from './infer-request.ts'
import { ownCopy, sharedKey, wholeKey, wholeRequest } from './bucket-keys.ts'
import {
  expectedFeeds,
  arrayName,
  imageHint,
  rowsHint,
  shownDims,
  tooManyParts,
  tooManyRows,
  wrongNames,
  type WrongFeeds,
} from './feed-words.ts'
import { MadeTensors } from './made-tensors.ts'
import type { Padding } from './padding.ts'
import type { ShapedTensors } from './shaped-tensors.ts'
import { maxEmptyParts } from './split.ts'
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
      if (!isElementType(input.type)) return new StructuredReader(metadata.name, input, options, InputReader)
      return new InputReader(metadata.name, input as TensorMetadata, options)
    })
    const unknown = optionalInputs.find((name) => !this.#inputs.some((input) => input.name === name))
    if (unknown !== undefined)
      throw invalidConfig(metadata.name, 'optionalInputs', `names out of ${this.#names()}`, unknown)
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
    const plain = filled === null && this.made !== null ? this.#parsePlain(values) : null
    if (plain !== null) return plain
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

  /** The same for tensors that are as they should be, in half the time; `null` if one is to be looked at closely. */
  #parsePlain(values: readonly unknown[]): ParsedFeeds | null {
    const data = this.#places.slice() as TensorData[]
    const most = Math.max(1, this.#maxBatchSize)
    let rows = 0
    for (let index = 0; index < values.length; index++) {
      const own = (this.#inputs[index] as InputReader).readPlain(values[index], most, data, index)
      if (own === 0 || (index > 0 && own !== rows)) return null
      rows = own
    }
    return { rows, bucketKey: '', whole: false, data, dims: null }
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
      throw this.#invalid('feeds', expectedFeeds, feeds)
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
      this.#refuse(
        wrongNames(feeds, this.#inputs, { missing, present, filled, bySequence: this.#bySequence }),
      )
    return values
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'See cause for the error'
}

/** What was given for an input, each property read once: what is asked again could answer otherwise. */
export interface GivenInput {
  /** A copy, checked against the input's shape; the batch dimension included. */
  readonly dims: readonly number[]
  /** Not looked at yet. */
  readonly data: unknown
}

/** How an input is to be read. */
export interface ReadOptions {
  /** Which dimension counts rows; -1 for none. */
  readonly batchAxis: number
  readonly optional: boolean
  /** Refuse NaN and infinity. */
  readonly finiteOnly: boolean
  /** Whether strings may have NUL characters. */
  readonly carriesNul: boolean
}

/** Reads and checks what requests give for one input of a model. */
export class InputReader {
  readonly name: string
  readonly optional: boolean
  readonly nullable = false
  /** Whether each request has the same dims but for its rows. */
  readonly fixedShape: boolean
  readonly #model: string
  readonly #input: TensorMetadata
  readonly #finiteOnly: boolean
  readonly #carriesNul: boolean
  readonly #packed: boolean
  readonly #batchAxis: number
  /** Dims of data without dims: exactly one row, or the whole input of an unbatched model; `null` where they are not fixed. */
  readonly #bareDims: readonly number[] | null
  /** The one dimension of a row that has whichever length data without dims has; -1 for none. */
  readonly #openAxis: number

  constructor(
    model: string,
    input: TensorMetadata,
    { batchAxis, optional, finiteOnly, carriesNul }: ReadOptions,
  ) {
    const row = input.shape.map((dim, axis) => (axis === batchAxis ? 1 : dim))
    const fixed = row.every((dim): dim is number => typeof dim === 'number')
    this.name = input.name
    this.optional = optional
    this.fixedShape = fixed && input.shape.length > 0
    this.#model = model
    this.#input = input
    this.#finiteOnly = finiteOnly
    this.#carriesNul = carriesNul
    this.#packed = isPacked(input.type)
    this.#batchAxis = batchAxis
    this.#openAxis =
      input.ragged === true && row.filter((dim) => typeof dim === 'string').length === 1
        ? input.shape.lastIndexOf('')
        : -1
    this.#bareDims = fixed ? row : null
  }

  /** Puts the data of a tensor of a fixed shape into `data`; returns its rows, `most` at most, or 0 if {@link read} has to look at it. */
  readPlain(value: unknown, most: number, data: unknown[], index: number): number {
    if (!(value instanceof Tensor)) return 0 // another object may answer otherwise when it is read again
    const { location, type, dims } = value
    const { shape } = this.#input
    if (
      location !== 'cpu' ||
      type !== this.#input.type ||
      !Array.isArray(dims) ||
      dims.length !== shape.length
    )
      return 0
    const rows = this.#batchAxis === 0 ? dims[0]! : 1
    if (!Number.isSafeInteger(rows) || rows < 1 || rows > most) return 0
    for (let axis = this.#batchAxis + 1; axis < shape.length; axis++) if (dims[axis] !== shape[axis]) return 0
    const stored = toStorage(this.#input.type, value.data)
    if (stored === null || lengthOf(stored) !== rows * elementCount(this.#bareDims!)) return 0
    data[index] = stored
    return rows
  }

  /**
   * Reads a tensor, or data without dims.
   *
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  read(value: unknown): GivenInput {
    if (isTensorLike(value)) return this.#readTensor(value)
    if (typeof value === 'string' && this.#input.type === 'string') return this.read([value])
    if (!ArrayBuffer.isView(value) && !(this.#input.type === 'string' && Array.isArray(value))) {
      throw this.#invalid(`a Tensor or ${arrayName(this.#input.type)}`, value)
    }
    if (this.#bareDims !== null) return { dims: this.#bareDims, data: value }
    if (this.#openAxis !== -1) return { dims: this.#rowOf(value), data: value }
    throw this.#invalid(
      `a Tensor, since its shape ${shownShape(this.#input.shape)} is not fixed`,
      'data without dims',
    )
  }

  /**
   * The data as they are kept for the run: typed arrays as they are, strings in a copy.
   *
   * @throws InferenceError `ERR_INVALID_ARG` when they are not of the input's type, or not as many as the dims say.
   */
  check({ dims, data }: GivenInput): TensorData | readonly string[] {
    const { type } = this.#input
    const length = elementCount(dims)
    if (type === 'string') return this.#strings(data, length, dims)
    const stored = toStorage(type, data)
    if (stored === null)
      throw this.#invalid(arrayName(this.#input.type), data, undefined, imageHint(this.#input, data))
    const received = lengthOf(stored)
    const expected = this.#packed ? Math.ceil(length / 2) : length
    if (received !== expected) {
      const shown = this.#packed ? `${expected} bytes (${length} elements, two a byte)` : `${length} elements`
      throw this.#invalid(
        `${shown} for ${this.#shown(dims)}`,
        isEmptied(stored) ? 'an empty or detached buffer' : received,
        undefined,
        this.#rowsHint(dims, expected, received),
      )
    }
    if (this.#finiteOnly) this.#checkFinite(plainView(stored))
    return stored
  }

  #readTensor(tensor: TensorLike): GivenInput {
    const { location, type } = tensor
    if (location !== undefined && location !== 'cpu' && location !== 'cpu-pinned') {
      throw this.#invalid(
        'a tensor whose data is on the CPU',
        location === 'none' ? 'a disposed tensor' : `location '${location}'`,
      )
    }
    if (type !== this.#input.type) throw this.#invalid(`type ${this.#input.type}`, type)
    return { dims: this.#ownDims(tensor.dims), data: tensor.data }
  }

  /** Dims of data that is one row. */
  #rowOf(data: ArrayBufferView | readonly unknown[]): readonly number[] {
    const length = ArrayBuffer.isView(data) ? (kindOf(data) === undefined ? 0 : lengthOf(data)) : data.length
    const dims = this.#input.shape.map((dim) => (typeof dim === 'number' ? dim : 1))
    dims[this.#openAxis] = Math.floor(length / elementCount(dims)) // a remainder is found when the elements are counted
    return dims
  }

  #ownDims(all: readonly unknown[]): readonly number[] {
    const { shape, trailingOnes } = this.#input
    const given =
      trailingOnes === true && Array.isArray(all) && all.slice(shape.length).every((dim) => dim === 1)
        ? all.slice(0, shape.length)
        : all
    const rank = Array.isArray(given) ? given.length : -1
    // ONNX Runtime reports a scalar and an input of any rank alike, as [].
    if (rank === -1 || (rank !== shape.length && shape.length > 0)) {
      throw this.#invalid(`rank ${shape.length}, shape ${shownShape(shape)}`, given)
    }
    const dims = shape.slice() as number[] // of that length at once; every entry is replaced
    for (let axis = 0; axis < rank; axis++) {
      const dim = given[axis]
      const expected = shape[axis]
      if (!Number.isSafeInteger(dim) || (dim as number) < 0)
        throw this.#invalid('dims of whole numbers, 0 or more', given)
      if (typeof expected === 'number' && dim !== expected)
        throw this.#invalid(`shape ${shownShape(shape)}`, given)
      dims[axis] = dim as number
    }
    return dims
  }

  /** A copy: unlike a buffer, an array can get anything put in later, and a run with that fails for the whole batch. */
  #strings(data: unknown, length: number, dims: readonly number[]): readonly string[] {
    if (!Array.isArray(data)) throw this.#invalid('an array of strings', data)
    const given = data.length
    if (given !== length)
      throw this.#invalid(
        `${length} string${length === 1 ? '' : 's'} for ${this.#shown(dims)}`,
        given,
        undefined,
        this.#rowsHint(dims, length, given),
      )
    const strings: string[] = []
    for (let index = 0; index < length; index++) {
      const item: unknown = data[index]
      if (typeof item !== 'string') throw this.#invalid('a string', item, index)
      if (!this.#carriesNul && item.includes('\0'))
        throw this.#invalid(
          'a string without NUL characters, where onnxruntime-node would cut it',
          item,
          index,
        )
      strings.push(item)
    }
    return strings
  }

  #checkFinite(data: TensorData): void {
    const strange = firstNonFinite(this.#input.type, data)
    if (strange !== -1) throw this.#invalid('a finite number (rejectNonFinite)', data[strange], strange)
  }

  #shown(dims: readonly number[]): string {
    return shownDims(dims, dims === this.#bareDims ? this.#input.shape : null)
  }

  #rowsHint(dims: readonly number[], expected: number, received: number): string {
    return dims === this.#bareDims
      ? rowsHint(this.#input.type, dims, this.#batchAxis, received / expected)
      : ''
  }

  #invalid(expected: string, received: unknown, element?: number, hint = ''): InferenceError {
    const name = `input '${this.name}'${element === undefined ? '' : `[${element}]`}`
    return invalidArgument(
      name,
      expected,
      received,
      hint === '' ? { model: this.#model } : { model: this.#model, hint },
    )
  }
}

/**
 * Whether the data of a request have still as many elements as were checked: a buffer can be detached or resized while
 * the request waits, and fewer would leave in the slot what another caller sent. To be asked right before the data are
 * read. Strings were copied and cannot change.
 *
 * @returns what to reject the request with, or `null`.
 */
export function changedInput(
  { inputs, name: model }: ModelMetadata,
  { data, dims, rows }: InferRequest,
): InferenceError | null {
  for (let index = 0; index < data.length; index++) {
    const values = data[index]!
    if (!ArrayBuffer.isView(values)) continue
    const { name, shape, type } = inputs[index]!
    const expected = storageLength(
      type as ElementType,
      dims !== null ? elementCount(dims[index]!) : fixedElements(shape, rows),
    )
    const received = lengthOf(values)
    if (received === expected) continue
    const hint =
      'Its buffer was detached or changed after infer() was called; do not touch it until the call settles'
    return invalidArgument(`input '${name}'`, `${expected} elements`, received, { model, hint })
  }
  return null
}

/** Of a shape in which nothing but the rows is variable. */
function fixedElements(shape: readonly (number | string)[], rows: number): number {
  let count = 1
  for (let axis = 0; axis < shape.length; axis++)
    count *= typeof shape[axis] === 'number' ? (shape[axis] as number) : rows
  return count
}
