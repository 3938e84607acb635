import type {
  ResolvedControl,
  ResolvedSequence,
  SequenceControl,
  SequenceState,
} from '../../options/sequence-config.ts'
import { noOptions, type SequenceId } from '../../options/infer-options.ts'
import { invalidArgument, invalidConfig, listNames, type InferenceError } from '../../errors.ts'
import {
  batchAxisOf,
  shapesFit,
  shownShape,
  type ModelMetadata,
  type ValueMetadata,
} from '../../tensor/metadata.ts'
import { type FeedParser } from '../../request/feeds.ts'
import { ownCopy } from '../../request/bucket-keys.ts'
import {
  elementCount,
  isElementType,
  storageLength,
  storageOf,
  type ElementType,
  type TensorData,
  type TensorLike,
  plainView,
} from '../../tensor/tensor.ts'
import type { StateTensor } from './state-tensors.ts'
import { InferRequest } from '../../request/infer-request.ts'

type Data = TensorData | readonly string[]

/** A control input and its values. */
interface ControlInput {
  readonly index: number
  readonly kind: SequenceControl['kind']
  readonly no: Data
  readonly yes: Data
}

/** The inputs that a sequence fills in, and the outputs that it keeps. */
export class SequenceInputs {
  readonly controls: readonly ControlInput[]
  /** Indices of the state inputs, and of the state outputs. */
  readonly stateInputs: readonly number[]
  readonly stateOutputs: readonly number[]
  readonly stateTypes: readonly ElementType[]
  readonly initial: readonly StateTensor[]
  /** By name: the placeholder, one row, of each filled input until the request's turn. */
  readonly filled: Readonly<Record<string, TensorLike>>
  readonly #metadata: ModelMetadata
  readonly #parser: FeedParser
  readonly #correlation: ValueMetadata | null

  /**
   * @throws InferenceError `ERR_MODEL_CONFIG` for an input or output that the model lacks, or has in another
   * form.
   */
  constructor(metadata: ModelMetadata, { controls, state }: ResolvedSequence, parser: FeedParser) {
    this.#metadata = metadata
    this.#parser = parser
    const { inputs, outputs } = metadata
    const wrong = (option: string, expected: string, received: string) =>
      invalidConfig(metadata.name, option, expected, received)
    const filled: Record<string, TensorLike> = {}
    this.controls = controls.map((control, at) => {
      const { no, yes } = checkControl(metadata, control, `sequence.controls[${at}]`)
      filled[control.input] = no
      return {
        index: inputs.findIndex(({ name }) => name === control.input),
        kind: control.kind,
        no: no.data as Data,
        yes: yes.data as Data,
      }
    })
    this.#correlation =
      inputs[this.controls.find(({ kind }) => kind === 'correlationId')?.index ?? -1] ?? null
    this.initial = state.map((each, at) => {
      const { input, output, initial } = each
      const value = named(metadata.name, inputs, input, `sequence.state[${at}].input`)
      const given = named(metadata.name, outputs, output, `sequence.state[${at}].output`)
      for (const tensor of [value, given]) checkState(metadata, each, tensor, `sequence.state[${at}]`)
      if (given.type !== value.type)
        throw wrong(
          `sequence.state[${at}].output`,
          `an output of type ${value.type}, as '${input}' has it`,
          `'${output}' of type ${given.type}`,
        )
      if (!shapesFit(given.shape, value.shape))
        throw wrong(
          `sequence.state[${at}].output`,
          `an output of shape ${shownShape(value.shape)}, as '${input}' takes it`,
          `'${output}' of shape ${shownShape(given.shape)}`,
        )
      const tensor =
        initial === undefined
          ? oneRow(value, metadata.maxBatchSize > 0, 0)
          : readRow(metadata, parser, value, initial, `sequence.state[${at}].initial`)
      filled[input] = tensor
      return { data: tensor.data as Data, dims: tensor.dims }
    })
    this.filled = filled
    this.stateInputs = state.map(({ input }) => inputs.findIndex(({ name }) => name === input))
    this.stateOutputs = state.map(({ output }) => outputs.findIndex(({ name }) => name === output))
    this.stateTypes = this.stateInputs.map((index) => inputs[index]!.type as ElementType)
  }

  /** Type of the correlation id's input; `null` if the model has none. */
  get correlationType(): ElementType | null {
    return this.#correlation === null ? null : (this.#correlation.type as ElementType)
  }

  /**
   * The correlation id as data for its input; `null` if there is no such input.
   *
   * @throws InferenceError `ERR_INVALID_ARG`.
   */
  correlation(id: SequenceId): Data | null {
    if (this.#correlation === null) return null
    const { name } = this.#correlation
    const type = this.#correlation.type as ElementType
    const wrongId = (expected: string) =>
      invalidArgument('options.sequenceId', expected, id, { model: this.#metadata.name })
    if (type === 'string') {
      try {
        return this.#parser.readOption('options.sequenceId', name, {
          ...this.filled[name]!,
          data: [String(id)],
        }).data as Data
      } catch (error) {
        throw wrongId(String((error as InferenceError).expected))
      }
    }
    if (typeof id === 'string') throw wrongId(`a number, as input '${name}' (${type}) takes`)
    const data = new (storageOf(type))(1)
    const value = type.endsWith('64') ? BigInt(id) : Number(id)
    ;(data as { fill(value: unknown): void }).fill(value)
    if (String(data[0]) !== String(value)) throw wrongId(`a number of type ${type}, as input '${name}' takes`)
    return data
  }
}

function checkControl(
  metadata: ModelMetadata,
  { input: name, kind, type: said, values }: ResolvedControl,
  option: string,
): { no: TensorLike; yes: TensorLike } {
  const { name: model, maxBatchSize } = metadata
  const input = named(model, metadata.inputs, name, `${option}.input`)
  const { type, shape } = input
  const wrong = (field: string, expected: string, received: unknown) =>
    invalidConfig(model, `${option}.${field}`, expected, received)
  const types =
    kind === 'correlationId' ? ['uint64', 'int64', 'uint32', 'int32', 'string'] : ['int32', 'float32', 'bool']
  if (!types.includes(type))
    throw wrong('input', `an input of type ${types.join(', ')}`, `'${name}' of type ${type}`)
  if (said !== undefined && said !== type) throw notAsModel(model, `${option}.type`, name, type, said)
  const batched = maxBatchSize > 0
  checkOwn(metadata, input, option)
  if (
    shape.some(
      (dim, axis) =>
        dim !== 1 && (typeof dim === 'number' || (batched && axis !== batchAxisOf(input) && dim === '')),
    )
  ) {
    throw wrong('input', 'an input of one element per request', `'${name}' of shape [${shape.join(', ')}]`)
  }
  const [no, yes] = (kind === 'correlationId' ? [0, 0] : values).map((value) =>
    oneRow(input, batched, value),
  ) as [TensorLike, TensorLike]
  const isOther = (value: number, { data }: TensorLike) =>
    type !== 'float32' && ((data as Int32Array)[0] !== value || (type === 'bool' && value > 1))
  if (kind !== 'correlationId' && (isOther(values[0], no) || isOther(values[1], yes)))
    throw wrong('values', `two values of type ${type}, as '${name}' takes`, values)
  return { no, yes }
}

/** Checks that each sequence has its own row of the input. */
function checkOwn({ name: model, maxBatchSize }: ModelMetadata, input: ValueMetadata, option: string): void {
  if (maxBatchSize === 0 || batchAxisOf(input) !== -1) return
  const hint = 'Say where its rows are by batchAxis, or load the model with maxBatchSize: 0'
  throw invalidConfig(
    model,
    `${option}.input`,
    'an input that rows of a batch do not share',
    input.name,
    hint,
  )
}

/** The initial value of a state: a copy, as the caller may overwrite the original. */
function readRow(
  { name: model, maxBatchSize }: ModelMetadata,
  parser: FeedParser,
  input: ValueMetadata,
  given: unknown,
  option: string,
): TensorLike {
  const { type, dims, data } = parser.readOption(option, input.name, given)
  const rows = maxBatchSize > 0 ? dims[batchAxisOf(input)] : 1
  if (rows !== 1)
    throw invalidConfig(model, option, `one row of '${input.name}'`, `dims [${dims.join(', ')}]`)
  return { type, dims, data: ownCopy(data as Data) as Data }
}

/** Checks that the configuration of a state fits both of its tensors. */
function checkState(
  metadata: ModelMetadata,
  { type, dims }: Pick<SequenceState, 'type' | 'dims'>,
  value: ValueMetadata,
  option: string,
): void {
  const { name: model, maxBatchSize } = metadata
  checkOwn(metadata, value, option)
  if (type !== undefined && type !== value.type)
    throw notAsModel(model, `${option}.type`, value.name, value.type, type)
  const own = value.shape.filter((_, axis) => maxBatchSize === 0 || axis !== batchAxisOf(value))
  if (
    dims === undefined ||
    (dims.length === own.length && own.every((dim, axis) => typeof dim !== 'number' || dim === dims[axis]))
  )
    return
  throw notAsModel(
    model,
    `${option}.dims`,
    value.name,
    `[${own.map((dim) => (typeof dim === 'number' ? dim : -1)).join(', ')}]`,
    dims,
  )
}

function notAsModel(
  model: string,
  option: string,
  name: string,
  expected: string,
  received: unknown,
): InferenceError {
  return invalidConfig(model, option, `${expected}, as '${name}' has it in the model`, received)
}

function named(model: string, values: readonly ValueMetadata[], name: string, option: string): ValueMetadata {
  const value = values.find((each) => each.name === name)
  if (value !== undefined && isElementType(value.type)) return value
  throw invalidConfig(
    model,
    option,
    `one of the tensors of the model (${listNames(values.map((each) => each.name))})`,
    name,
  )
}

/** One row of a value; variable dimensions are 1. */
function oneRow(value: ValueMetadata, batched: boolean, fill: number): TensorLike {
  const { shape } = value
  const type = value.type as ElementType
  const dims = shape.map((dim, axis) =>
    typeof dim === 'number' && !(batched && axis === batchAxisOf(value)) ? dim : 1,
  )
  const count = elementCount(dims)
  if (type === 'string') return { type, dims, data: Array<string>(count).fill('') }
  const data = new (storageOf(type))(storageLength(type, count))
  if (fill !== 0) (data as Float32Array).fill(fill)
  return { type, dims, data }
}

/** Rows kept for other batches. */
const mostKept = 64

/** Fills the slots of sequences without a request: zeros, with false controls and no correlation id. */
export class EmptyRows {
  readonly #metadata: ModelMetadata
  readonly #inputs: SequenceInputs
  readonly #byKey = new Map<string, InferRequest>()

  constructor(metadata: ModelMetadata, inputs: SequenceInputs) {
    this.#metadata = metadata
    this.#inputs = inputs
  }

  /** An empty row for a run together with this request. */
  like(request: InferRequest): InferRequest {
    const { bucketKey } = request
    let row = this.#byKey.get(bucketKey)
    if (row !== undefined) return row
    if (this.#byKey.size >= mostKept) this.#byKey.clear()
    this.#byKey.set(bucketKey, (row = this.#make(request)))
    return row
  }

  #make({ data, dims, bucketKey, level }: InferRequest): InferRequest {
    const empty = data.map((values, index) => {
      const control = this.#inputs.controls.find((each) => each.index === index)
      if (control !== undefined) return control.no
      if (batchAxisOf(this.#metadata.inputs[index]!) === -1) return values
      if (Array.isArray(values)) return values.map(() => '')
      return ArrayBuffer.isView(values) ? zeros(values as TensorData) : values
    })
    const noop = () => {}
    const options = { ...noOptions, outputs: [] }
    const row = new InferRequest(
      { rows: 1, bucketKey, whole: false, data: empty, dims: dims && [...dims] },
      level,
      options,
      noop,
      noop,
    )
    row.settled = true
    return row
  }
}

function zeros(values: TensorData): TensorData {
  const { constructor, length } = plainView(values)
  return new (constructor as new (length: number) => TensorData)(length)
}
