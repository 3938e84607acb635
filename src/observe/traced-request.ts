import { InferenceError } from '../errors.ts'
import type {
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  SharedAnswer,
} from './request-observer.ts'
import type { ResolvedTraceSettings } from '../options/trace-options.ts'
import { tensorText, tensorTextBytes } from './tensor-text.ts'
import type { TraceAccount } from './trace-account.ts'
import { timestampsRecord, traceRecord } from './trace-text.ts'
import type { TraceWriter } from './trace-writer.ts'

/** What a trace of a request without tensors takes about, as long as it is under way. */
const usualBytes = 1024

/** Where traced requests come from. */
export interface TraceSource {
  readonly account: TraceAccount
  nextId(): number
  nowMs(): number
}

type Moment = readonly [name: string, atMs: number]

/** One trace: notes what becomes of a request, and hands it to the file once that has ended. */
export class TracedRequest implements RequestObservation {
  readonly #id: number
  readonly #source: TraceSource
  readonly #model: ObservedModel
  readonly #facts: RequestFacts
  readonly #settings: ResolvedTraceSettings
  readonly #writer: TraceWriter
  readonly #parentId: number | null
  readonly #runs: ObservedRun[] = []
  #tensors: string[] = []
  #bytes = usualBytes
  #shared: SharedAnswer | null = null
  #passed: readonly Moment[] = []

  private constructor(
    source: TraceSource,
    model: ObservedModel,
    facts: RequestFacts,
    settings: ResolvedTraceSettings,
    writer: TraceWriter,
    parentId: number | null,
  ) {
    this.#id = source.nextId()
    this.#source = source
    this.#model = model
    this.#facts = facts
    this.#settings = settings
    this.#writer = writer
    this.#parentId = parentId
  }

  /** @returns `null` when there is no memory for another trace. */
  static begin(
    source: TraceSource,
    model: ObservedModel,
    facts: RequestFacts,
    settings: ResolvedTraceSettings,
    writer: TraceWriter,
    parentId: number | null = null,
  ): TracedRequest | null {
    source.account.begun++
    if (!source.account.reserve(usualBytes)) {
      source.account.dropped++
      return null
    }
    const trace = new TracedRequest(source, model, facts, settings, writer, parentId)
    trace.#noteInputs()
    return trace
  }

  child(model: ObservedModel, facts: RequestFacts): TracedRequest | null {
    return TracedRequest.begin(this.#source, model, facts, this.#settings, this.#writer, this.#id)
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
    const { account } = this.#source
    const nowMs = this.#source.nowMs() // before what it takes to write it down
    if (succeeded) this.#noteOutputs(answer)
    const error = succeeded ? null : reason instanceof InferenceError ? reason.code : 'cancelled'
    const records = [
      traceRecord(this.#model, this.#facts, {
        id: this.#id,
        parentId: this.#parentId,
        runs: this.#runs,
        shared: this.#shared,
        error,
      }),
    ]
    if (this.#settings.level.includes('TIMESTAMPS'))
      records.push(timestampsRecord(this.#id, this.#moments(succeeded, nowMs)))
    const text = [...records, ...this.#tensors].join(',\n')
    if (this.#bytes === 0 || !account.reserve(text.length - this.#bytes)) {
      account.release(this.#bytes)
      account.dropped++
    } else this.#writer.add(text, text.length, this.#settings.logFrequency)
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
      const outputs = this.#facts.reported ? (answer as { outputs: object }).outputs : (answer as object)
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
    if (!this.#settings.level.includes('TENSORS') || this.#bytes === 0) return
    try {
      const all = tensors()
      const { account } = this.#source
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
    this.#source.account.release(this.#bytes)
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
