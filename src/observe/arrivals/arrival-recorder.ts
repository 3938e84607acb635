import type { Clock } from '../../base/clock.ts'
import { InferenceError } from '../../errors.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from '../request-observer.ts'
import { recordedConfig, type Arrival, type ArrivalRun } from './arrival.ts'

/** Notes what requests come, and what becomes of them. */
export class ArrivalRecorder implements RequestObserver {
  readonly #order: ArrivalOrder
  readonly #clock: Clock
  readonly #models: ReadonlySet<string> | null
  /** Those whose configuration is recorded. */
  readonly #known = new WeakSet<ObservedModel>()
  #firstAtMs: number | null = null
  readonly #answers = new RecentAnswers()
  #lastBatch: ObservedBatch | null = null

  /** @param models of which requests are recorded; `null` for all. */
  constructor(order: ArrivalOrder, clock: Clock, models: ReadonlySet<string> | null) {
    this.#order = order
    this.#clock = clock
    this.#models = models
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    if (this.#models !== null && !this.#models.has(model.name)) return null
    const { atMs } = facts // what is kept must not keep the data of the request
    this.#firstAtMs ??= atMs
    const arrival = arrivalOf(model, facts, this.#firstAtMs)
    const isFirst = model.batching !== null && !this.#known.has(model)
    if (isFirst) this.#known.add(model)
    const open = this.#order.came({
      ...arrival,
      afterAnswerUs: this.#answers.followedUs(atMs),
      config: isFirst ? recordedConfig(model.batching!) : undefined,
    })
    const runs = {
      decoded: () => void (open.end.decodedUs = us(this.#clock.nowMs() - atMs)),
      ran: ({ batch }: ObservedRun) => this.#ran(open, batch),
      passed: () => {},
    }
    return {
      ...runs,
      // What is run for it is no request of a caller's; where that is the model's own, for several callers at once, its runs are.
      child: (of) =>
        of === model ? { ...runs, child: () => null, shared: () => {}, ended: () => {} } : null,
      shared: () => void (open.end.shared = true),
      ended: (succeeded, reason) => this.#ended(open, atMs, succeeded, reason),
    }
  }

  batchBegan(): void {}

  batchEnded(): void {}

  /** A batch has run in which a request had a part: noted with the first one that is told of it. */
  #ran({ end }: OpenArrival, batch: ObservedBatch): void {
    if (batch === this.#lastBatch || batch.moments === null) return
    this.#lastBatch = batch
    ;(end.runs ??= []).push(runOf(batch, batch.moments, this.#firstAtMs!))
  }

  #ended(open: OpenArrival, atMs: number, succeeded: boolean, reason: unknown): void {
    const nowMs = this.#clock.nowMs()
    const tookUs = us(nowMs - atMs)
    this.#answers.given(nowMs)
    // Whatever else a request fails for is an error of the engine's.
    if (!succeeded && !(reason instanceof InferenceError)) open.end.cancelledUs = tookUs
    this.#order.ended(open, succeeded ? tookUs : null)
  }
}

function runOf(
  { rows, requestCount, instance, inline, reason }: ObservedBatch,
  moments: NonNullable<ObservedBatch['moments']>,
  firstAtMs: number,
): ArrivalRun {
  const { takenAtMs, gatheredAtMs, startMs, inferEndMs, scatterAtMs, doneAtMs } = moments
  return {
    takenAtUs: us(takenAtMs - firstAtMs), rows, requests: requestCount, instance, reason,
    gatherUs: us(gatheredAtMs - takenAtMs), handOverUs: us(startMs - gatheredAtMs), runUs: us(inferEndMs - startMs),
    wakeUs: us(scatterAtMs - inferEndMs), scatterUs: us(doneAtMs - scatterAtMs), inline: inline || undefined,
  } // prettier-ignore
}

/** What is `undefined` of it is not in the file. */
function arrivalOf(
  model: ObservedModel,
  { atMs, rows, dims, options }: RequestFacts,
  firstAtMs: number,
): Arrival {
  const { priority, timeoutMs, deadlineMs, sequence } = options
  return {
    atUs: us(atMs - firstAtMs),
    rows: Math.max(1, rows),
    model: model.name,
    dims: dims === null ? undefined : freeDims(model, dims),
    priority,
    timeoutMs,
    deadlineMs,
    sequenceId: typeof sequence?.id === 'bigint' ? String(sequence.id) : sequence?.id,
  }
}

/** Of inputs that were given, and have another dimension than the rows that the model leaves open. */
function freeDims({ metadata }: ObservedModel, dims: readonly (readonly number[])[]): Arrival['dims'] {
  const free = metadata.inputs.flatMap(({ name, shape }, index) => {
    const given = dims[index] ?? []
    const isFree = given.length > 0 && shape.some((dim, axis) => axis > 0 && typeof dim !== 'number')
    return isFree ? [[name, [...given]] as const] : []
  })
  return free.length === 0 ? undefined : Object.fromEntries(free)
}

/** Microseconds to a tenth; the clock may have gone nowhere between two looks. */
function us(ms: number): number {
  return Math.max(0, Math.round(ms * 10_000) / 10)
}

/** What becomes of a request. */
interface ArrivalEnd {
  latencyUs?: number
  decodedUs?: number
  cancelledUs?: number
  shared?: true
  runs?: ArrivalRun[]
}

/** A request that has come, and may be on its way still. */
export interface OpenArrival {
  readonly arrival: Arrival
  settled: boolean
  /** As much of it as is known. */
  readonly end: ArrivalEnd
}

/** So many requests may be on their way until the oldest is written without its latency. */
const mostOpen = 1 << 16

/** Puts requests, which are answered in any order, in the order in which they came. */
export class ArrivalOrder {
  readonly #write: (arrival: Arrival) => void
  #open: OpenArrival[] = []
  #head = 0

  /** @param write takes the requests, each once its latency is known or it is to be known no more. */
  constructor(write: (arrival: Arrival) => void) {
    this.#write = write
  }

  came(arrival: Arrival): OpenArrival {
    const open = { arrival, settled: false, end: {} }
    this.#open.push(open)
    if (this.#open.length - this.#head > mostOpen) this.#writeOldest()
    return open
  }

  /** @param latencyUs `null` for a request that was not answered. */
  ended(open: OpenArrival, latencyUs: number | null): void {
    if (latencyUs !== null) open.end.latencyUs = latencyUs
    open.settled = true
    while (this.#head < this.#open.length && this.#open[this.#head]!.settled) this.#writeOldest()
  }

  /** Writes all there are, those without their latency that are on their way. */
  end(): void {
    while (this.#head < this.#open.length) this.#writeOldest()
  }

  #writeOldest(): void {
    const { arrival, end } = this.#open[this.#head++]!
    this.#write({ ...arrival, ...end })
    if (this.#head < 1024 || this.#head * 2 < this.#open.length) return
    this.#open = this.#open.slice(this.#head)
    this.#head = 0
  }
}

const resolved = Promise.resolve()

/** Answers after which the event loop has not gone on: what is called now, follows from them. */
class RecentAnswers {
  /** When they were given, those that nothing has followed from; ascending. */
  #givenMs: number[] = []
  #looks = 0

  given(nowMs: number): void {
    this.#givenMs.push(nowMs)
    this.#looks++
    void resolved.then(this.#afterPromises)
  }

  /** How long ago the answer was given, in microseconds, from which a call follows that is made now; `undefined` for none. */
  followedUs(nowMs: number): number | undefined {
    const givenMs = this.#givenMs.shift()
    return givenMs === undefined ? undefined : us(nowMs - givenMs)
  }

  // All promises that can run have run before the next tick.
  readonly #afterPromises = (): void => process.nextTick(this.#look)

  readonly #look = (): void => {
    if (--this.#looks === 0) this.#givenMs = []
  }
}
