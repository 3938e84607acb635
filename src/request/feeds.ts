import { invalidArgument, type InferenceError } from '../errors.ts'
import { elementCount, firstNonFinite, isTensorLike, storageOf, toStorage, type TensorData, type TensorLike } from '../tensor.ts'
import type { ModelMetadata, TensorMetadata } from '../metadata.ts'
import type { Padding } from './padding.ts'
import type { ParsedFeeds } from './infer-request.ts'
import { wholeRequest } from './whole-request.ts'

/** An input with what is known of it before any request. */
interface InputPlan extends TensorMetadata {
  /** Index of the first dimension that belongs to a row: 1 for a batched model, else 0. */
  readonly rowAxis: number
  /** Elements of one row, -1 when a dimension of the row is symbolic. */
  readonly rowElements: number
  readonly optional: boolean
}

/** What a model's configuration says of its feeds. */
export interface FeedOptions {
  readonly optionalInputs?: readonly string[]
  readonly padding?: Padding | null
  /** Refuse NaN and infinity. */
  readonly finiteOnly?: boolean
  /** Whether the user set `maxBatchSize`: what has more rows is refused then, else it runs alone. Default `true`. */
  readonly limited?: boolean
}

/** Checks the feeds of one model, so that nothing invalid ever reaches a batch. */
export class FeedParser {
  readonly #model: string
  readonly #maxBatchSize: number
  readonly #inputs: readonly InputPlan[]
  readonly #fixedShapes: boolean
  readonly #padding: Padding | null
  readonly #finiteOnly: boolean
  readonly #limited: boolean
  /** Whether requests are divided into rows; else each is to run alone as it is. */
  byRow = true

  /** @throws InferenceError `ERR_MODEL_CONFIG` when an optional input is none of the model's. */
  constructor(metadata: ModelMetadata, { optionalInputs = [], padding = null, finiteOnly = false, limited = true }: FeedOptions = {}) {
    const rowAxis = metadata.maxBatchSize > 0 ? 1 : 0
    this.#model = metadata.name
    this.#maxBatchSize = metadata.maxBatchSize
    this.#inputs = metadata.inputs.map((input) => {
      const row = input.shape.slice(rowAxis)
      const fixed = row.every((dim): dim is number => typeof dim === 'number')
      return { ...input, rowAxis, rowElements: fixed ? elementCount(row) : -1, optional: optionalInputs.includes(input.name) }
    })
    const unknown = optionalInputs.find((name) => !this.#inputs.some((input) => input.name === name))
    if (unknown !== undefined) {
      const details = { code: 'ERR_MODEL_CONFIG', model: metadata.name } as const
      throw invalidArgument('optionalInputs', `names out of ${this.#names()}`, unknown, details)
    }
    this.#padding = padding
    this.#finiteOnly = finiteOnly
    this.#limited = limited
    this.#fixedShapes = this.#inputs.every(({ rowElements, shape }) => rowElements !== -1 && shape.length > 0)
  }

  /**
   * Reads the feeds of one request.
   *
   * @param maxRows most rows, where that is not `maxBatchSize`.
   * @throws InferenceError `ERR_INVALID_ARG` naming the input, what was expected and what was received.
   */
  parse(feeds: unknown, maxRows = this.#maxBatchSize): ParsedFeeds {
    if (typeof feeds !== 'object' || feeds === null || Array.isArray(feeds) || ArrayBuffer.isView(feeds) || isTensorLike(feeds)) {
      throw this.#invalid('feeds', 'an object of inputs by name', feeds)
    }
    const inputs = this.#inputs
    this.#checkNames(feeds as Record<string, unknown>)

    const data: (TensorData | readonly string[] | null)[] = []
    const dims: (readonly number[])[] | null = this.#fixedShapes ? null : []
    let first: string | null = null // the input that says how many rows there are
    let rows = 1
    let ownRows: number[] | null = null // of each input, once they differ
    for (let index = 0; index < inputs.length; index++) {
      const input = inputs[index]!
      const value = (feeds as Record<string, unknown>)[input.name]
      if (value === undefined) {
        data.push(null)
        dims?.push([])
        continue
      }
      const tensor = isTensorLike(value) ? value : null
      data.push(tensor === null ? this.#bareData(input, value) : this.#tensorData(input, tensor))
      dims?.push(tensor === null ? this.#bareDims(input) : [...tensor.dims])
      if (input.rowAxis === 0) continue
      const inputRows = tensor === null ? 1 : tensor.dims[0]!
      if (first === null) {
        rows = inputRows
        first = input.name
      } else if (inputRows !== rows) {
        if (this.#limited) throw this.#invalid(`input '${input.name}'`, `${rows} rows, as input '${first}' has`, inputRows)
        ownRows ??= Array.from({ length: index }, () => rows)
      }
      if (ownRows !== null) ownRows[index] = inputRows
    }
    if (this.#maxBatchSize > 0) {
      const oversized = rows > maxRows
      if (oversized && this.#limited) {
        const hint = 'Without maxBatchSize it would run as it is; if no row depends on another, splitOversized: true runs it in parts'
        throw this.#invalid(`input '${first}'`, `at most ${maxRows} rows (maxBatchSize)`, rows, hint)
      }
      if (oversized || ownRows !== null || !this.byRow) {
        return wholeRequest(inputs, data, dims, (index) => ownRows?.[index] ?? rows)
      }
    }
    return { rows, bucketKey: this.#bucketKey(rows, data, dims), whole: false, data, dims }
  }

  #checkNames(feeds: Record<string, unknown>): void {
    let given = 0
    for (const name in feeds) if (feeds[name] !== undefined) given++
    let present = 0
    let missing: InputPlan | null = null
    for (const input of this.#inputs) {
      if (feeds[input.name] !== undefined) present++
      else if (!input.optional) missing ??= input
    }
    if (missing === null && given === present && given > 0 === this.#inputs.length > 0) return
    const names = this.#inputs.map(({ name }) => name)
    const unknown = Object.keys(feeds).filter((name) => !names.includes(name))
    const hint = `The model's inputs are ${this.#names()}`
    if (missing !== null) {
      throw this.#invalid(`input '${missing.name}'`, 'to be given', unknown.length > 0 ? unknown : undefined, hint)
    }
    if (unknown.length > 0) throw this.#invalid(`input '${unknown[0]}'`, 'an input of the model', unknown[0], hint)
    if (given === 0 && this.#inputs.length > 0) throw this.#invalid('feeds', 'at least one input', feeds, hint)
  }

  #names(): string {
    return this.#inputs.map(({ name }) => `'${name}'`).join(', ') || '(none)'
  }

  #tensorData(input: InputPlan, tensor: TensorLike): TensorData | readonly string[] {
    const { location, dims } = tensor
    if (location !== undefined && location !== 'cpu' && location !== 'cpu-pinned') {
      throw this.#invalidInput(input, 'a tensor whose data is on the CPU', location === 'none' ? 'a disposed tensor' : `location '${location}'`)
    }
    if (tensor.type !== input.type) throw this.#invalidInput(input, `type ${input.type}`, tensor.type)
    // ONNX Runtime reports a scalar and an input of any rank alike, as [].
    const anyRank = input.shape.length === 0
    if (!Array.isArray(dims) || (dims.length !== input.shape.length && !anyRank)) {
      throw this.#invalidInput(input, `rank ${input.shape.length}, shape [${input.shape.join(', ')}]`, dims)
    }
    for (let axis = 0; axis < dims.length; axis++) {
      const dim = dims[axis] as number
      const expected = input.shape[axis]
      if (!Number.isSafeInteger(dim) || dim < 0) throw this.#invalidInput(input, 'dims of whole numbers, 0 or more', dims)
      if (typeof expected === 'number' && dim !== expected) throw this.#invalidInput(input, `shape [${input.shape.join(', ')}]`, dims)
    }
    return this.#checkData(input, tensor.data, elementCount(dims), dims)
  }

  /** Data without dims stands for exactly one row, or for the whole input of an unbatched model. */
  #bareData(input: InputPlan, value: unknown): TensorData | readonly string[] {
    if (!ArrayBuffer.isView(value) && !(input.type === 'string' && Array.isArray(value))) {
      throw this.#invalidInput(input, `a Tensor or ${this.#arrayName(input)}`, value)
    }
    this.#bareDims(input)
    return this.#checkData(input, value, input.rowElements, null)
  }

  #bareDims(input: InputPlan): readonly number[] {
    if (input.rowElements === -1) {
      throw this.#invalidInput(input, `a Tensor, since its shape [${input.shape.join(', ')}] is not fixed`, 'data without dims')
    }
    const row = input.shape.slice(input.rowAxis) as number[]
    return input.rowAxis === 1 ? [1, ...row] : row
  }

  #checkData(input: InputPlan, data: unknown, length: number, dims: readonly number[] | null): TensorData | readonly string[] {
    if (input.type === 'string') {
      if (!Array.isArray(data)) throw this.#invalidInput(input, 'an array of strings', data)
      // A copy: unlike a buffer, an array can get anything put in later, and a run with that fails for the whole batch.
      const strings: unknown[] = [...data]
      if (strings.length !== length) throw this.#invalidInput(input, `${length} strings for ${shown(input, dims)}`, strings.length)
      const wrong = strings.findIndex((item) => typeof item !== 'string')
      if (wrong !== -1) throw this.#invalidInput(input, 'a string', strings[wrong], wrong)
      const cut = (strings as string[]).findIndex((item) => item.includes('\0'))
      if (cut !== -1) {
        throw this.#invalidInput(input, 'a string without NUL characters, where onnxruntime-node would cut it', strings[cut], cut)
      }
      return strings as string[]
    }
    const stored = toStorage(input.type, data)
    if (stored === null) throw this.#invalidInput(input, this.#arrayName(input), data)
    if (stored.length !== length) {
      const detached = stored.length === 0 && stored.buffer.byteLength === 0
      throw this.#invalidInput(input, `${length} elements for ${shown(input, dims)}`, detached ? 'an empty or detached buffer' : stored.length)
    }
    const strange = this.#finiteOnly ? firstNonFinite(input.type, stored) : -1
    if (strange !== -1) throw this.#invalidInput(input, 'a finite number (rejectNonFinite)', stored[strange], strange)
    return stored
  }

  #bucketKey(rows: number, data: ParsedFeeds['data'], dims: readonly (readonly number[])[] | null): string {
    const rowAxis = this.#maxBatchSize > 0 ? 1 : 0
    // An empty request has nothing to share a run with.
    let key = rows === 0 ? 'empty:' : ''
    for (let index = 0; index < data.length; index++) {
      if (data[index] === null) {
        key += `-${index};`
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

  #arrayName(input: InputPlan): string {
    if (input.type === 'string') return 'an array of strings'
    const name = storageOf(input.type).name
    return input.type === 'float16' ? `a ${name} of raw half-precision bits (or a Float16Array)` : `a ${name}`
  }

  #invalidInput(input: InputPlan, expected: string, received: unknown, element?: number): InferenceError {
    return this.#invalid(`input '${input.name}'${element === undefined ? '' : `[${element}]`}`, expected, received)
  }

  #invalid(name: string, expected: string, received: unknown, hint?: string): InferenceError {
    return invalidArgument(name, expected, received, { model: this.#model, ...(hint === undefined ? {} : { hint }) })
  }
}

/** What data was checked against, for an error. */
function shown({ shape }: InputPlan, dims: readonly number[] | null): string {
  return dims === null ? `one row of shape [${shape.join(', ')}]` : `dims [${dims.join(', ')}]`
}
