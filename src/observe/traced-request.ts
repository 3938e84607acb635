import type { Clock } from '../base/clock.ts'
import { InferenceError } from '../errors.ts'
import type { ResolvedTraceSettings } from '../options/trace-options.ts'
import { unpacked } from '../tensor/elements.ts'
import { fromSmallFloat, isSmallFloat } from '../tensor/small-floats.ts'
import { elementCount, isElementType, isPacked, type ElementType } from '../tensor/tensor.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  SharedAnswer,
} from './request-observer.ts'
import type { TraceAccount, TraceWriter } from './trace-writer.ts'

/** What a trace of a request without tensors takes about, as long as it is under way. */
const usualBytes = 1024

/** Of all traces of this process. */
let lastId = 0

/** How the requests of one caller's request are traced. */
interface Tracing {
  readonly account: TraceAccount
  readonly clock: Pick<Clock, 'nowMs'>
  readonly settings: ResolvedTraceSettings
  readonly writer: TraceWriter
}

type Moment = readonly [name: string, atMs: number]

/** One trace: notes what becomes of a request, and hands it to the file once that has ended. */
export class TracedRequest implements RequestObservation {
  readonly #id = ++lastId
  readonly #tracing: Tracing
  readonly #model: ObservedModel
  readonly #facts: RequestFacts
  readonly #parentId: number | null
  readonly #runs: ObservedRun[] = []
  #tensors: string[] = []
  #bytes = usualBytes
  #shared: SharedAnswer | null = null
  #passed: readonly Moment[] = []

  private constructor(tracing: Tracing, model: ObservedModel, facts: RequestFacts, parentId: number | null) {
    this.#tracing = tracing
    this.#model = model
    this.#facts = facts
    this.#parentId = parentId
  }

  /** @returns `null` when there is no memory for another trace. */
  static begin(
    tracing: Tracing,
    model: ObservedModel,
    facts: RequestFacts,
    parentId: number | null = null,
  ): TracedRequest | null {
    const { account } = tracing
    account.begun++
    if (!account.reserve(usualBytes)) {
      account.dropped++
      return null
    }
    const trace = new TracedRequest(tracing, model, facts, parentId)
    trace.#noteInputs()
    return trace
  }

  child(model: ObservedModel, facts: RequestFacts): TracedRequest | null {
    return TracedRequest.begin(this.#tracing, model, facts, this.#id)
  }

  decoded(decoded: ReadonlyMap<number, unknown>): void {
    this.#noteInputs(this.#model.metadata.inputs.map((_, index) => decoded.get(index)))
  }

  ran(run: ObservedRun): void {
    this.#runs.push(run)
  }

  shared(answer: SharedAnswer): void {
    this.#shared = answer
  }

  passed(begunAtMs: number, doneAtMs: number): void {
    this.#passed = [['COMPUTE_START', begunAtMs], ['COMPUTE_INPUT_END', begunAtMs], ['COMPUTE_OUTPUT_START', doneAtMs], ['COMPUTE_END', doneAtMs], ['INFER_RESPONSE_COMPLETE', doneAtMs]] // prettier-ignore
  }

  ended(succeeded: boolean, reason: unknown, answer: unknown): void {
    const { account, clock, settings, writer } = this.#tracing
    const nowMs = clock.nowMs() // before what it takes to write it down
    if (succeeded) this.#noteOutputs(answer)
    const error = succeeded ? null : reason instanceof InferenceError ? reason.code : 'cancelled'
    const records = [this.#traceRecord(error)]
    if (settings.level.includes('TIMESTAMPS'))
      records.push(timestampsRecord(this.#id, this.#moments(succeeded, nowMs)))
    const text = [...records, ...this.#tensors].join(',\n')
    if (this.#bytes === 0 || !account.reserve(text.length - this.#bytes)) {
      account.release(this.#bytes)
      account.dropped++
    } else writer.add(text, text.length, settings.logFrequency)
  }

  /**
   * The first record of a trace: Triton's fields, and fields of ours that identify the request and its batches.
   *
   * @param error a code, or `'cancelled'`; `null` for a request that was answered.
   */
  #traceRecord(error: string | null): string {
    const { name, version, metadata } = this.#model
    const { rows, dims: givenDims, options } = this.#facts
    const { requestId, priority, timeoutMs, deadlineMs, sequence } = options
    let text = `{"id":${this.#id},"model_name":${JSON.stringify(name)},"model_version":${version}`
    if (requestId !== undefined) text += `,"request_id":${JSON.stringify(requestId)}`
    if (this.#parentId !== null) text += `,"parent_id":${this.#parentId}`
    text += `,"rows":${rows}`
    if (priority !== undefined) text += `,"priority":${priority}`
    if (timeoutMs !== undefined) text += `,"timeout_ms":${timeoutMs}`
    if (deadlineMs !== undefined) text += `,"deadline_ms":${deadlineMs}`
    if (sequence !== undefined)
      text += `,"sequence_id":${typeof sequence.id === 'number' ? sequence.id : JSON.stringify(String(sequence.id))}`
    const dims = openDims(metadata.inputs, givenDims)
    if (dims !== null) text += `,"dims":${JSON.stringify(dims)}`
    if (error !== null) text += `,"error":${JSON.stringify(error)}`
    if (this.#shared !== null) text += `,"shared":"${this.#shared.how}","batch_id":${this.#shared.batchId}`
    if (this.#runs.length > 0) text += `,"batches":[${this.#runs.map(batchText).join(',')}]`
    return `${text}}`
  }

  #moments(succeeded: boolean, nowMs: number): Moment[] {
    const { atMs } = this.#facts
    const [first] = this.#runs
    const last = this.#runs.at(-1)
    const runs = this.#runs.filter(({ batch }) => batch.moments !== null)
    const isWhole = last !== undefined && last.isLast
    // As the statistics have it; what a cache was asked before belongs to the request.
    const startMs = first !== undefined && (isWhole || first.part !== null) ? first.queuedAtMs : atMs
    const moments: Moment[] = [
      ['REQUEST_START', startMs],
      ['QUEUE_START', startMs],
    ]
    if (this.#shared !== null) moments.push(['COMPUTE_START', this.#shared.begunAtMs])
    else if (runs.length > 0) moments.push(...momentsOf(runs))
    moments.push(...this.#passed)
    const endMs = this.#passed.at(-1)?.[1] ?? (succeeded && isWhole ? last.batch.moments!.doneAtMs : nowMs)
    return [...moments, ['REQUEST_END', endMs]]
  }

  #noteInputs(data = this.#facts.data): void {
    const { dims, rows } = this.#facts
    this.#noteTensors('TENSOR_QUEUE_INPUT', () => this.#model.metadata.inputs.flatMap(({ name, type, shape }, index) => {
      const given = data[index]
      return given == null ? [] : [{ name, type, dims: dims?.[index] ?? shape.map((dim) => (typeof dim === 'number' ? dim : rows)), data: given }]
    })) // prettier-ignore
  }

  #noteOutputs(answer: unknown): void {
    this.#noteTensors('TENSOR_BACKEND_OUTPUT', () => {
      const outputs = this.#facts.options.report
        ? (answer as { outputs: object }).outputs
        : (answer as object)
      return Object.entries(outputs).flatMap(([name, value]) =>
        value === null ? [] : [{ name, ...shownOf(value, this.#typeOf(name)) }],
      )
    })
  }

  #typeOf(output: string): string {
    return this.#model.metadata.outputs.find(({ name }) => name === output)?.type ?? ''
  }

  #noteTensors(
    activity: string,
    tensors: () => readonly {
      readonly name: string
      readonly type: string
      readonly dims: readonly number[]
      readonly data: unknown
    }[],
  ): void {
    const { account, settings } = this.#tracing
    if (!settings.level.includes('TENSORS') || this.#bytes === 0) return
    try {
      const all = tensors()
      const roughBytes = all.reduce((sum, { data }) => sum + tensorTextBytes(data), 0)
      if (!account.reserve(roughBytes)) return this.#giveUp()
      account.release(roughBytes)
      const texts = all.map(
        ({ name, type, dims, data }) =>
          `{"id":${this.#id},"activity":"${activity}","tensor":${tensorText(name, type, dims, data)}}`,
      )
      const bytes = texts.reduce((sum, text) => sum + text.length, 0)
      if (!account.reserve(bytes)) return this.#giveUp()
      this.#bytes += bytes
      this.#tensors.push(...texts)
    } catch {
      this.#giveUp() // its memory is gone, say
    }
  }

  /** Goes on without memory; it is dropped in the end. */
  #giveUp(): void {
    this.#tracing.account.release(this.#bytes)
    this.#bytes = 0
    this.#tensors = []
  }
}

/** Of a request that was split, from the first of its parts to the last. */
function momentsOf(runs: readonly ObservedRun[]): Moment[] {
  const answered = runs.some(({ part }) => part !== null) ? runs : runs.slice(-1)
  const begunAtMs = Math.min(...answered.map((run) => run.begunAtMs))
  const doneAtMs = Math.max(...answered.map(({ batch }) => batch.moments!.doneAtMs))
  const [only] = answered
  const { inferStartMs, scatterAtMs } = only!.batch.moments!
  const between: Moment[] =
    answered.length > 1
      ? []
      : [
          ['COMPUTE_INPUT_END', inferStartMs],
          ['COMPUTE_OUTPUT_START', scatterAtMs],
        ]
  return [
    ['COMPUTE_START', begunAtMs],
    ...between,
    ['COMPUTE_END', doneAtMs],
    ['INFER_RESPONSE_COMPLETE', doneAtMs],
  ]
}

/** An output as a tensor, or what it is instead. */
function shownOf(value: unknown, type: string): { type: string; dims: readonly number[]; data: unknown } {
  const tensor = value as { type?: string; dims?: readonly number[]; data?: unknown }
  return Array.isArray(tensor.dims)
    ? { type: tensor.type!, dims: tensor.dims, data: tensor.data }
    : { type, dims: [], data: value }
}

/** From the engine's clock to that of `CLOCK_MONOTONIC`, by which other tools of the machine go, in nanoseconds. */
const originNs = Number(process.hrtime.bigint()) - Math.round(performance.now() * 1e6)

function nanoseconds(atMs: number): number {
  return Math.round(atMs * 1e6) + originNs
}

/** The record of its timestamps, in their order; none is before another that comes first on the way. */
function timestampsRecord(id: number, moments: readonly Moment[]): string {
  let lastNs = 0
  const shown = moments.map(([name, atMs]) => {
    lastNs = Math.max(lastNs, nanoseconds(atMs))
    return `{"name":"${name}","ns":${lastNs}}`
  })
  return `{"id":${id},"timestamps":[${shown.join(',')}]}`
}

function batchText({ batch, position, rows, part }: ObservedRun): string {
  return `{${sharedText(batch)},"position":${position}${part === null ? '' : `,"part":${part},"part_rows":${rows}`}}`
}

let lastBatch: ObservedBatch | null = null
let lastText = ''

/** What all requests of a batch say of it, and mostly one after the other. */
function sharedText(batch: ObservedBatch): string {
  if (batch === lastBatch) return lastText
  const { id, instance, worker, reason, rows, inline, isRerun, requestCount, moments, error } = batch
  let text = `"id":${id},"instance":${JSON.stringify(instance)},"worker":${JSON.stringify(worker)},"reason":"${reason}","rows":${rows},"requests":${requestCount}`
  if (inline) text += ',"inline":true'
  if (isRerun) text += ',"rerun":true'
  if (error !== null) text += `,"error":${JSON.stringify(error)}`
  if (moments !== null) {
    const { takenAtMs, gatheredAtMs, startMs, inferStartMs, inferEndMs, scatterAtMs, doneAtMs } = moments
    text += `,"taken_ns":${nanoseconds(takenAtMs)},"gathered_ns":${nanoseconds(gatheredAtMs)},"start_ns":${nanoseconds(startMs)},"infer_start_ns":${nanoseconds(inferStartMs)}`
    text += `,"infer_end_ns":${nanoseconds(inferEndMs)},"output_start_ns":${nanoseconds(scatterAtMs)},"output_end_ns":${nanoseconds(doneAtMs)}`
  }
  lastBatch = batch
  return (lastText = text)
}

/** Dims of the inputs that the model leaves open beyond the rows, by name; `null` for none. */
function openDims(
  inputs: ObservedModel['metadata']['inputs'],
  dims: RequestFacts['dims'],
): Record<string, readonly number[]> | null {
  if (dims === null) return null
  const open = inputs.flatMap(({ name, shape, batchAxis = 0 }, index) =>
    shape.some((dim, axis) => typeof dim === 'string' && axis !== batchAxis) && dims[index]
      ? [[name, dims[index]] as const]
      : [],
  )
  return open.length === 0 ? null : Object.fromEntries(open)
}

/** Triton's names of types of elements; others are the type's own in capitals. */
const tritonTypes: Partial<Record<ElementType, string>> = {
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  bfloat16: 'BF16',
  string: 'BYTES',
}

/** The `"tensor"` of a record: data as text, elements with commas between, strings each as JSON has them. */
function tensorText(name: string, type: string, dims: readonly number[], data: unknown): string {
  const isTensor = isElementType(type) && (ArrayBuffer.isView(data) || Array.isArray(data))
  const dtype = isElementType(type) ? (tritonTypes[type] ?? type.toUpperCase()) : type
  const text = isTensor ? elementsText(type, dims, data) : JSON.stringify(data, jsonValue)
  return `{"name":${JSON.stringify(name)},"data":${JSON.stringify(text)},"shape":"${isTensor ? dims.join(',') : ''}","dtype":"${dtype}"}`
}

/** Roughly how long that text is, without making it. */
function tensorTextBytes(data: unknown): number {
  if (ArrayBuffer.isView(data)) return (data as Uint8Array).length * 8
  if (!Array.isArray(data)) return 0
  return data.reduce<number>(
    (sum, item) => sum + (typeof item === 'string' ? item.length : 0),
    data.length * 3,
  )
}

function elementsText(
  type: ElementType,
  dims: readonly number[],
  data: ArrayBufferView | readonly unknown[],
): string {
  if (Array.isArray(data)) return data.map((item) => JSON.stringify(item)).join(',')
  if (isPacked(type)) return unpacked(type, data as Uint8Array, elementCount(dims)).join(',')
  const hasBits = isSmallFloat(type) && (data instanceof Uint16Array || data instanceof Uint8Array) // newer Node has numbers
  const numbers = hasBits
    ? Float64Array.from(data, (bits) => fromSmallFloat(type, bits))
    : (data as Float32Array | BigInt64Array)
  const hasZeros = type.includes('float') && (numbers as Float32Array).includes(0)
  return hasZeros
    ? Array.from(numbers as Float32Array, numberText).join(',')
    : (numbers as Float32Array).join(',')
}

/** As JavaScript has it, with the sign of a zero. */
function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

/** What is no tensor: numbers that JSON has not as text, arrays and maps of any kind as JSON's. */
function jsonValue(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (value instanceof Map) return Object.fromEntries(value)
  return ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value
}
