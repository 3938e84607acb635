import { invalidArgument, type InferenceError } from '../errors.ts'
import { shownShape, type TensorMetadata } from '../tensor/metadata.ts'
import {
  elementCount,
  isEmptied,
  isOnCpu,
  isPacked,
  isTensorLike,
  kindOf,
  lengthOf,
  plainView,
  toStorage,
  type TensorData,
  type TensorLike,
} from '../tensor/tensor.ts'
import { firstNonFinite } from '../tensor/values.ts'
import { arrayName, imageHint, rowsHint, shownDims } from './feed-words.ts'

/** What a request gave for one input. Each property was read once, as an object may give another value the next time. */
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
    if (!isOnCpu(location)) {
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
