import { InferenceError } from '../../errors.ts'
import type {
  ObservedBatch,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
  RequestObserver,
} from '../request-observer.ts'
import type { Clock } from '../../base/clock.ts'
import type { Arrival, ArrivalRun } from './arrival.ts'
import type { ArrivalOrder, OpenArrival } from './arrival-order.ts'
import { RecentAnswers } from './recent-answers.ts'
import { recordedConfig } from './recorded-config.ts'

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
    this.#firstAtMs ??= facts.atMs
    const arrival = arrivalOf(model, facts, this.#firstAtMs)
    const isFirst = model.batching !== null && !this.#known.has(model)
    if (isFirst) this.#known.add(model)
    const afterAnswerUs = this.#answers.followedUs(facts.atMs)
    const more = {
      ...(afterAnswerUs === null ? {} : { afterAnswerUs }),
      ...(isFirst ? { config: recordedConfig(model.batching!) } : {}),
    }
    const open = this.#order.came({ ...arrival, ...more })
    return new RecordedRequest(this, model, open, facts.atMs)
  }

  batchBegan(): void {}

  batchEnded(): void {}

  /** A batch has run in which a request had a part: noted with the first one that is told of it. */
  ran({ end }: OpenArrival, batch: ObservedBatch): void {
    if (batch === this.#lastBatch || batch.moments === null) return
    this.#lastBatch = batch
    ;(end.runs ??= []).push(runOf(batch, batch.moments, this.#firstAtMs!))
  }

  decoded({ end }: OpenArrival, atMs: number): void {
    end.decodedUs = us(this.#clock.nowMs() - atMs)
  }

  ended(open: OpenArrival, atMs: number, succeeded: boolean, reason: unknown): void {
    const nowMs = this.#clock.nowMs()
    const tookUs = us(nowMs - atMs)
    this.#answers.given(nowMs)
    // Whatever else a request fails for is an error of the engine's.
    if (!succeeded && !(reason instanceof InferenceError)) open.end.cancelledUs = tookUs
    this.#order.ended(open, succeeded ? tookUs : null)
  }
}

class RecordedRequest implements RequestObservation {
  readonly #recorder: ArrivalRecorder
  readonly #model: ObservedModel
  readonly #open: OpenArrival
  readonly #atMs: number

  constructor(recorder: ArrivalRecorder, model: ObservedModel, open: OpenArrival, atMs: number) {
    this.#recorder = recorder
    this.#model = model
    this.#open = open
    this.#atMs = atMs
  }

  /** What is run for it is no request of a caller's; where that is the model's own, for several callers at once, its runs are. */
  child(model: ObservedModel): RequestObservation | null {
    if (model !== this.#model) return null
    return {
      child: () => null,
      decoded: () => this.decoded(),
      ran: (run) => this.ran(run),
      shared: () => {},
      passed: () => {},
      ended: () => {},
    }
  }

  decoded(): void {
    this.#recorder.decoded(this.#open, this.#atMs)
  }

  ran({ batch }: ObservedRun): void {
    this.#recorder.ran(this.#open, batch)
  }

  shared(): void {
    this.#open.end.shared = true
  }

  passed(): void {}

  ended(succeeded: boolean, reason: unknown): void {
    this.#recorder.ended(this.#open, this.#atMs, succeeded, reason)
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
    wakeUs: us(scatterAtMs - inferEndMs), scatterUs: us(doneAtMs - scatterAtMs), ...(inline ? { inline } : {}),
  } // prettier-ignore
}

function arrivalOf(
  model: ObservedModel,
  { atMs, rows, dims, options }: RequestFacts,
  firstAtMs: number,
): Arrival {
  const { priority, timeoutMs, deadlineMs, sequence } = options
  const free = dims === null ? undefined : freeDims(model, dims)
  return {
    atUs: us(atMs - firstAtMs),
    rows: Math.max(1, rows),
    model: model.name,
    ...(free === undefined ? {} : { dims: free }),
    ...(priority === undefined ? {} : { priority }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
    ...(sequence === undefined
      ? {}
      : { sequenceId: typeof sequence.id === 'bigint' ? String(sequence.id) : sequence.id }),
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
