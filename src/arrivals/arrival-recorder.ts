import type { ObservedModel, ObservedRun, RequestFacts, RequestObservation, RequestObserver } from '../observability/request-observer.ts'
import type { Clock } from '../clock.ts'
import type { Arrival, ArrivalRun } from './arrival.ts'
import type { ArrivalOrder, OpenArrival } from './arrival-order.ts'

/** Notes what requests come, and what becomes of them. */
export class ArrivalRecorder implements RequestObserver {
  readonly #order: ArrivalOrder
  readonly #clock: Clock
  readonly #models: ReadonlySet<string> | null
  #firstAtMs: number | null = null

  /** @param models of which requests are recorded; `null` for all. */
  constructor(order: ArrivalOrder, clock: Clock, models: ReadonlySet<string> | null) {
    this.#order = order
    this.#clock = clock
    this.#models = models
  }

  begun(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    if (this.#models !== null && !this.#models.has(model.name)) return null
    this.#firstAtMs ??= facts.atMs
    return new RecordedRequest(this.#order, this.#clock, this.#firstAtMs, facts.atMs, this.#order.came(arrivalOf(model, facts, this.#firstAtMs)))
  }

  batchBegan(): void {}

  batchEnded(): void {}
}

class RecordedRequest implements RequestObservation {
  readonly #order: ArrivalOrder
  readonly #clock: Clock
  readonly #firstAtMs: number
  readonly #atMs: number
  readonly #open: OpenArrival

  constructor(order: ArrivalOrder, clock: Clock, firstAtMs: number, atMs: number, open: OpenArrival) {
    this.#order = order
    this.#clock = clock
    this.#firstAtMs = firstAtMs
    this.#atMs = atMs
    this.#open = open
  }

  /** What a request has run for it is no request of a caller's. */
  child(): null {
    return null
  }

  ran({ batch, position, part }: ObservedRun): void {
    if (position !== 0 || batch.moments === null || (part ?? 0) !== 0) return
    const { takenAtMs, gatheredAtMs, startMs, inferEndMs, scatterAtMs, doneAtMs } = batch.moments
    this.#open.run = {
      takenAtUs: us(takenAtMs - this.#firstAtMs), rows: batch.rows, requests: batch.requestCount, instance: batch.instance,
      gatherUs: us(gatheredAtMs - takenAtMs), handOverUs: us(startMs - gatheredAtMs), runUs: us(inferEndMs - startMs),
      wakeUs: us(scatterAtMs - inferEndMs), scatterUs: us(doneAtMs - scatterAtMs), ...(batch.inline ? { inline: true } : {}),
    } satisfies ArrivalRun // prettier-ignore
  }

  shared(): void {}

  passed(): void {}

  ended(succeeded: boolean): void {
    this.#order.ended(this.#open, succeeded ? us(this.#clock.nowMs() - this.#atMs) : null)
  }
}

function arrivalOf(model: ObservedModel, { atMs, rows, dims, priority, timeoutMs, deadlineMs, sequenceId }: RequestFacts, firstAtMs: number): Arrival {
  const free = dims === null ? undefined : freeDims(model, dims)
  return {
    atUs: us(atMs - firstAtMs),
    rows: Math.max(1, rows),
    model: model.name,
    ...(free === undefined ? {} : { dims: free }),
    ...(priority === undefined ? {} : { priority }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
    ...(sequenceId === undefined ? {} : { sequenceId: typeof sequenceId === 'bigint' ? String(sequenceId) : sequenceId }),
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
