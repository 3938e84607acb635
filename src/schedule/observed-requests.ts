import type { CheckedOptions } from '../options/infer-options.ts'
import { batchLimits, type ResolvedConfig } from '../options/model-config.ts'
import type { Batch, FinishedBatch } from './batch.ts'
import type { BatchTimes } from '../observe/model-counts.ts'
import type {
  BatchMoments,
  ObservedBatch,
  ObservedBatching,
  ObservedModel,
  ObservedRun,
  RequestFacts,
  RequestObservation,
} from '../observe/request-observer.ts'
import { Asker, Observers } from '../observe/observers.ts'
import type { InferRequest, ParsedFeeds } from '../request/infer-request.ts'
import type { Preparation } from '../request/participants.ts'
import type { Joining } from './joining.ts'
import { RequestPart, wholeOf } from './split-request.ts'

/** What a batch is, whether it has run or not. */
export type BatchFacts = Pick<Batch, 'id' | 'requests' | 'reason' | 'isRerun' | 'place'>

/** Without observers. */
const unobserved = new Observers()
const noTimes: BatchTimes = { inputMs: 0, inferMs: 0, outputMs: 0 }

/** Reports the requests and batches of one model to the observers of the engine. To be called only while there are any. */
export class ObservedRequests {
  /** Asked for each request: nothing below is called while its `observer` is `null`. */
  readonly by: Observers
  readonly #model: ObservedModel
  readonly #isOrdered: boolean

  /** @param isOrdered whether answers wait for each other. */
  constructor(model: ObservedModel, by: Observers = unobserved, isOrdered = false) {
    this.#model = model
    this.by = by
    this.#isOrdered = isOrdered
  }

  /**
   * A request has been made, and is about to be submitted.
   *
   * @param parent observes what it is part of, `null` for no observer; left out for one of a caller, or of a function that is run for another.
   */
  begun(
    request: InferRequest,
    options: CheckedOptions,
    nowMs: number,
    parent: RequestObservation | null | undefined = this.by.parent,
  ): void {
    if (parent === null) return
    const facts = factsOf(request, options, nowMs)
    const observation =
      parent === undefined ? this.by.observer!.begun(this.#model, facts) : parent.child(this.#model, facts)
    if (observation !== null) request.observe(observation)
  }

  /** For whom a batch is run: the first of its requests that is observed; `null` without observers. */
  askerOf({ requests }: BatchFacts): Asker | null {
    if (this.by.observer === null) return null
    const observed = requests.find((request) => wholeOf(request).observation !== null)
    return new Asker(this.by, observed === undefined ? null : wholeOf(observed).observation)
  }

  /** A batch is about to run. */
  batchBegan(batch: Batch): void {
    this.by.observer!.batchBegan?.(this.#batch(batch, rowsOf(batch), null, null))
  }

  /** A batch has run, and its requests are about to be answered. */
  batchRan(batch: FinishedBatch, moments: BatchMoments, begunAtMs: number, times: BatchTimes): void {
    this.#tell(batch.requests, this.#batch(batch, batch.rows, moments, null), begunAtMs, times)
  }

  /** A batch has failed; its requests are rejected, or run again. */
  batchFailed(batch: BatchFacts, error: string, nowMs: number): void {
    this.#tell(batch.requests, this.#batch(batch, rowsOf(batch), null, error), nowMs, noTimes)
  }

  #tell(requests: readonly InferRequest[], batch: ObservedBatch, begunAtMs: number, times: BatchTimes): void {
    let position = 0
    for (const request of requests) {
      const whole = wholeOf(request)
      const { observation } = whole
      if (observation !== null && !request.settled)
        observation.ran(this.#run(request, whole, batch, position, begunAtMs, times))
      position += request.rows
    }
    this.by.observer?.batchEnded?.(batch)
  }

  #run(
    request: InferRequest,
    whole: InferRequest,
    batch: ObservedBatch,
    position: number,
    begunAtMs: number,
    times: BatchTimes,
  ): ObservedRun {
    const part = request instanceof RequestPart ? request.index : null
    const isLast = part === null && !this.#isOrdered && whole.follower !== null
    return {
      batch,
      position,
      rows: request.rows,
      queuedAtMs: request.enqueuedAtMs,
      begunAtMs,
      times,
      part,
      isLast,
    }
  }

  #batch(
    batch: BatchFacts | FinishedBatch,
    rows: number,
    moments: BatchMoments | null,
    error: string | null,
  ): ObservedBatch {
    const { id, requests, reason, isRerun, place } = batch
    return {
      model: this.#model, id, rows, requestCount: requests.length, reason, isRerun, instance: place?.name ?? '', worker: place?.worker.name ?? '',
      inline: 'inline' in batch && batch.inline, moments, error,
    } // prettier-ignore
  }
}

/** What a request is, for observers. */
export function factsOf(
  {
    rows,
    data,
    dims,
    preparation,
  }: Pick<ParsedFeeds, 'rows' | 'data' | 'dims'> & { readonly preparation?: Preparation | null },
  options: CheckedOptions,
  atMs: number,
): RequestFacts {
  const given = preparation
    ? data.map((values, index) => (preparation.sources.has(index) ? null : values))
    : data
  return { atMs, rows, options, data: given, dims }
}

/** How a model's requests become batches, for observers. */
export function batchingOf(
  config: ResolvedConfig,
  { largestBatch }: Joining,
  instances: number,
): ObservedBatching {
  const { levels, latencyTargetMs } = config
  return { limits: batchLimits(config, largestBatch), levels, latencyTargetMs, instances }
}

function rowsOf({ requests }: BatchFacts): number {
  return requests.reduce((rows, request) => rows + request.rows, 0)
}
