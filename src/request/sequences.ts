import type { AnswerOptions } from '../config/check-infer-options.ts'
import type { ReportedOutputs } from '../config/infer-options.ts'
import type { AnyOutputs, Feeds } from '../config/model-signature.ts'
import type { ResolvedControl, ResolvedSequence, SequenceControl, SequenceOptions, SequenceState } from '../config/sequence-config.ts'
import { listNames } from '../describe.ts'
import { invalidArgument } from '../errors.ts'
import type { ModelMetadata, ValueMetadata } from '../metadata.ts'
import { elementCount, isElementType, isRawType, makeTensor, storageLength, storageOf, type ElementType, type TensorData, type TensorLike } from '../tensor.ts'
import type { OutputValue } from '../values.ts'
import type { Answer } from './infer-request.ts'

/** What is kept of a sequence between its requests. */
interface Sequence {
  /** When the one before is answered. */
  turn: Promise<unknown>
  waiting: number
  usedAtMs: number
  /** By input. */
  states: Record<string, unknown>
}

/** A control input with the tensors that it is given. */
interface PreparedControl {
  readonly input: ValueMetadata
  readonly kind: SequenceControl['kind']
  readonly no: TensorLike | null
  readonly yes: TensorLike | null
}

/**
 * The sequences that requests of one model belong to. Requests of a sequence run one after the other, in the order of their
 * calls, whatever batches they come to with those of other sequences; each gets its control inputs and the state that the
 * one before has left.
 */
export class Sequences {
  readonly #model: string
  readonly #maxIdleMs: number
  readonly #controls: readonly PreparedControl[]
  readonly #states: readonly SequenceState[]
  readonly #initial: Readonly<Record<string, unknown>>
  readonly #outputs: readonly string[]
  /** The least recently used first. */
  readonly #known = new Map<string, Sequence>()
  /** Requests that are not answered. */
  #accepted = 0
  #onDrained: (() => void) | null = null

  /** @throws InferenceError `ERR_MODEL_CONFIG` for an input or output that the model has not, or not in that form. */
  constructor(metadata: ModelMetadata, { maxIdleMs, controls, states }: ResolvedSequence) {
    this.#model = metadata.name
    this.#maxIdleMs = maxIdleMs
    this.#controls = controls.map((control, index) => prepared(metadata, control, `sequence.controls[${index}]`))
    this.#states = states
    this.#outputs = metadata.outputs.map(({ name }) => name)
    const initial: Record<string, unknown> = {}
    for (const [index, state] of states.entries()) {
      const { input, output, initial: given } = state
      const value = named(metadata.name, metadata.inputs, input, `sequence.states[${index}].input`)
      const result = named(metadata.name, metadata.outputs, output, `sequence.states[${index}].output`)
      for (const each of [value, result]) checkState(metadata, state, each, `sequence.states[${index}]`)
      initial[input] = given ?? filled(value, metadata.maxBatchSize > 0, 0)
    }
    this.#initial = initial
  }

  /**
   * Runs a request of a sequence when its turn has come.
   *
   * @param run the request with these feeds and outputs.
   * @throws InferenceError `ERR_INVALID_ARG` for one that does not begin a sequence and belongs to none.
   */
  infer(
    feeds: Feeds,
    options: SequenceOptions,
    { outputs, report }: AnswerOptions,
    nowMs: () => number,
    run: (feeds: Feeds, outputs: readonly number[] | null) => Promise<Answer>,
  ): Promise<Answer> {
    const id = typeof options.id === 'string' ? `'${options.id}` : String(options.id)
    this.#forgetIdle(nowMs())
    const sequence = this.#sequence(id, options)
    sequence.waiting++
    this.#accepted++
    this.#use(id, sequence, nowMs())
    if (options.end === true) this.#known.delete(id)
    const isStart = options.start === true
    const answer = sequence.turn.then(async () => {
      try {
        if (isStart) sequence.states = { ...this.#initial }
        return await this.#run(sequence, feeds, options, outputs, report, run)
      } finally {
        sequence.waiting--
        if (this.#known.get(id) === sequence) this.#use(id, sequence, nowMs())
        if (--this.#accepted === 0) this.#onDrained?.()
      }
    })
    sequence.turn = answer.catch(() => {}) // its caller is told
    return answer
  }

  /** Whether it gives an input its value. */
  fills(name: string): boolean {
    return this.#states.some(({ input }) => input === name) || this.#controls.some(({ input }) => input.name === name)
  }

  /** Resolves when all requests are answered, those included that waited for their turn. */
  drained(): Promise<void> {
    return this.#accepted === 0 ? Promise.resolve() : new Promise((resolve) => (this.#onDrained = resolve))
  }

  #sequence(id: string, { start, id: given }: SequenceOptions): Sequence {
    const known = this.#known.get(id)
    if (known !== undefined && start !== true) return known
    if (start === true) return { turn: known?.turn ?? Promise.resolve(), waiting: 0, usedAtMs: 0, states: {} }
    const hint = `Sequence ${String(given)} has not begun, has ended, or was without a request for more than ${this.#maxIdleMs} ms`
    throw invalidArgument('options.sequence.start', 'true for the first request of a sequence', start, { model: this.#model, hint })
  }

  async #run(
    sequence: Sequence,
    feeds: Feeds,
    options: SequenceOptions,
    outputs: readonly number[] | null,
    reported: boolean,
    run: (feeds: Feeds, outputs: readonly number[] | null) => Promise<Answer>,
  ): Promise<Answer> {
    const all: Record<string, unknown> = { ...feeds, ...sequence.states }
    for (const control of this.#controls) all[control.input.name] = this.#controlValue(control, options)
    const places = this.#states.map(({ output }) => this.#outputs.indexOf(output))
    const answer = await run(all as Feeds, outputs === null ? null : [...new Set([...outputs, ...places])])
    const values = (reported ? (answer as ReportedOutputs<AnyOutputs>).outputs : answer) as AnyOutputs
    for (const [index, { input, output }] of this.#states.entries()) {
      sequence.states[input] = values[output]
      if (outputs?.includes(places[index]!) === true) values[output] = copyOf(values[output]!)
      else delete values[output]
    }
    return answer
  }

  #controlValue({ kind, yes, no, input }: PreparedControl, { id, start, end }: SequenceOptions): TensorLike {
    if (kind === 'ready') return yes!
    if (kind !== 'correlationId') return (kind === 'start' ? start : end) === true ? yes! : no!
    const type = input.type as ElementType
    const dims = input.shape.map((dim) => (typeof dim === 'number' ? dim : 1))
    if (type === 'string') return { type, dims, data: [String(id)] }
    if (typeof id === 'string') {
      throw invalidArgument('options.sequence.id', `a number, as input '${input.name}' (${type}) takes`, id, { model: this.#model })
    }
    const data = new (storageOf(type))(1)
    const value = type.endsWith('64') ? BigInt(id) : Number(id)
    ;(data as { fill(value: unknown): void }).fill(value)
    if (String(data[0]) === String(value)) return { type, dims, data }
    throw invalidArgument('options.sequence.id', `a number of type ${type}, as input '${input.name}' takes`, id, { model: this.#model })
  }

  #use(id: string, sequence: Sequence, nowMs: number): void {
    sequence.usedAtMs = nowMs
    this.#known.delete(id)
    this.#known.set(id, sequence)
  }

  #forgetIdle(nowMs: number): void {
    for (const [id, { usedAtMs, waiting }] of this.#known) {
      if (nowMs - usedAtMs <= this.#maxIdleMs) return
      if (waiting === 0) this.#known.delete(id)
    }
  }
}

function prepared(metadata: ModelMetadata, { input: name, kind, type: said, values }: ResolvedControl, option: string): PreparedControl {
  const { name: model, maxBatchSize } = metadata
  const input = named(model, metadata.inputs, name, `${option}.input`)
  const { type, shape } = input
  const wrong = (expected: string, received: string) => invalidArgument(`${option}.input`, expected, received, { code: 'ERR_MODEL_CONFIG', model })
  const types = kind === 'correlationId' ? ['uint64', 'int64', 'uint32', 'int32', 'string'] : ['int32', 'float32', 'bool']
  if (!types.includes(type)) throw wrong(`an input of type ${types.join(', ')}`, `'${name}' of type ${type}`)
  if (said !== undefined && said !== type) throw notAsModel(model, `${option}.type`, name, type, said)
  if (shape.slice(maxBatchSize > 0 ? 1 : 0).some((dim) => dim !== 1 && typeof dim === 'number')) {
    throw wrong('an input of one element per request', `'${name}' of shape [${shape.join(', ')}]`)
  }
  if (kind === 'correlationId') return { input, kind, no: null, yes: null }
  const batched = maxBatchSize > 0
  return { input, kind, no: filled(input, batched, values[0]), yes: filled(input, batched, values[1]) }
}

/** What is said of a state fits both of its tensors. */
function checkState({ name: model, maxBatchSize }: ModelMetadata, { type, dims }: SequenceState, value: ValueMetadata, option: string): void {
  if (type !== undefined && type !== value.type) throw notAsModel(model, `${option}.type`, value.name, value.type, type)
  const own = value.shape.slice(maxBatchSize > 0 ? 1 : 0)
  if (dims === undefined || (dims.length === own.length && own.every((dim, axis) => typeof dim !== 'number' || dim === dims[axis]))) return
  throw notAsModel(model, `${option}.dims`, value.name, `[${own.map((dim) => (typeof dim === 'number' ? dim : -1)).join(', ')}]`, dims)
}

function notAsModel(model: string, option: string, name: string, expected: string, received: unknown): Error {
  return invalidArgument(option, `${expected}, as '${name}' has it in the model`, received, { code: 'ERR_MODEL_CONFIG', model })
}

function named(model: string, values: readonly ValueMetadata[], name: string, option: string): ValueMetadata {
  const value = values.find((each) => each.name === name)
  if (value !== undefined && isElementType(value.type)) return value
  throw invalidArgument(option, `one of the tensors of the model (${listNames(values.map((each) => each.name))})`, name, { code: 'ERR_MODEL_CONFIG', model })
}

/** One row of a value; each variable dimension is 1. */
function filled({ type, shape }: ValueMetadata, batched: boolean, value: number): TensorLike {
  const dims = shape.map((dim, axis) => (typeof dim === 'number' && !(batched && axis === 0) ? dim : 1))
  const count = elementCount(dims)
  if (type === 'string') return { type, dims, data: Array<string>(count).fill('') }
  const data = new (storageOf(type as ElementType))(storageLength(type as ElementType, count))
  if (value !== 0) (data as Float32Array).fill(value)
  return { type, dims, data }
}

/** The caller may change its own. */
function copyOf(value: OutputValue): OutputValue {
  const { type, dims, data } = value as { type: ElementType; dims: readonly number[]; data: TensorData | string[] }
  const own = Array.isArray(data) ? [...data] : (data.slice() as TensorData)
  return isRawType(type) ? ({ type, dims, data: own } as OutputValue) : makeTensor(type, own, dims)
}
