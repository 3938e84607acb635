import type { Clock } from '../base/clock.ts'
import type { Batch } from './batch.ts'
import type { InstanceSet } from './instance-set.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import type { RequestQueue } from './request-queue.ts'
import { changedInput } from '../request/input-reader.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { FollowUps } from './follow-ups.ts'
import type { InFlight } from '../base/keep-alive.ts'
import type { Retries, RunStops } from './failures.ts'
import type { BatchFacts, ObservedRequests } from './observed-requests.ts'

/** What a {@link BatchSupply} takes batches from, and whom it tells. */
export interface SupplySources {
  readonly metadata: ModelMetadata
  readonly queue: RequestQueue<InferRequest>
  readonly retries: Retries
  readonly instances: InstanceSet
  readonly inFlight: InFlight
  readonly stops: RunStops
  readonly observed: ObservedRequests
  readonly clock: Clock
  /** The data of a request was changed since they were checked; it is not run. */
  refuse(request: InferRequest, error: Error): void
}

/** The batches of a model: what comes out of its queue, or is to be run again, until it runs or comes back. */
export class BatchSupply {
  readonly #metadata: ModelMetadata
  readonly #queue: RequestQueue<InferRequest>
  readonly #retries: Retries
  readonly #instances: InstanceSet
  readonly #inFlight: InFlight
  readonly #stops: RunStops
  readonly #clock: Clock
  readonly #observed: ObservedRequests
  readonly #followUps: FollowUps
  readonly #refuse: (request: InferRequest, error: Error) => void
  /** Told that requests or batches came or went; in the middle of things, so it may change nothing there and then. */
  onUpdate: (() => void) | null = null
  #formed = 0
  #runs = 0
  #offerScheduled = false

  constructor({
    metadata,
    queue,
    retries,
    instances,
    inFlight,
    stops,
    observed,
    clock,
    refuse,
  }: SupplySources) {
    this.#metadata = metadata
    this.#queue = queue
    this.#retries = retries
    this.#instances = instances
    this.#inFlight = inFlight
    this.#stops = stops
    this.#clock = clock
    this.#observed = observed
    this.#followUps = new FollowUps(clock)
    this.#refuse = refuse
  }

  /** Requests accepted and not started. */
  get waiting(): number {
    return this.#queue.count + this.#retries.count
  }

  /** Whether requests wait that are not on their way. */
  get hasWaiting(): boolean {
    return this.#queue.hasUnsent || this.#retries.count > 0
  }

  /** Whether what goes first is to be on its worker alone. */
  get nextIsAlone(): boolean {
    return this.#retries.nextIsAlone
  }

  /** Notes that requests or batches came or went. */
  update(): void {
    this.#inFlight.update(this.waiting)
    if (this.onUpdate !== null) this.onUpdate()
  }

  /** A request waits that may not be sent yet. */
  hold(request: InferRequest, nowMs: number): void {
    this.#queue.hold(request, nowMs)
    this.update()
  }

  /** A request waits to be sent; `full` when its bucket holds a full batch now. */
  accepted(request: InferRequest, full: boolean): void {
    this.update()
    if (this.#instances.isOvertakenBy(request)) this.#instances.takeBackAhead()
    // A full batch starts at once; otherwise whoever calls in the same turn may still join.
    if (full) this.#instances.offer()
    else this.offerSoon()
  }

  /** When the request came that has waited longest, in a batch handed ahead or in none; `Infinity` for none. */
  get oldestAtMs(): number {
    return Math.min(this.#queue.oldestAtMs, this.#instances.oldestAheadMs)
  }

  /**
   * The next batch for an instance, or `null`.
   *
   * @param startsInMs when a busy instance will be able to start it.
   */
  take(idle: boolean, startsInMs: number): Batch | null {
    // What waits to be run again goes first, as soon as an instance is idle.
    if (this.#retries.count > 0 && !idle) return null
    // From here on it is in flight: refusing some of its requests must not let the model look drained.
    if (idle) this.#inFlight.running++
    const batch = this.#retry() ?? this.#form(idle, startsInMs)
    if (batch !== null) {
      if (idle) this.#begins(batch)
      return batch
    }
    if (idle) this.#inFlight.running--
    this.update()
    return null
  }

  #retry(): Batch | null {
    for (let retry = this.#retries.take(); retry !== null; retry = this.#retries.take()) {
      const requests = this.#unchanged(retry.requests)
      if (requests.length > 0)
        return {
          ...retry,
          requests,
          formed: ++this.#formed,
          id: ++this.#runs,
          place: null,
          isRerun: true,
          ahead: false,
          limited: false,
          rerun: null,
        }
    }
    return null
  }

  #form(idle: boolean, startsInMs: number): Batch | null {
    // An instance that is idle takes what was handed ahead to a busy one.
    if (idle && this.#instances.size > 1) this.#instances.takeBackAhead()
    for (
      let formed = this.#queue.take(idle, startsInMs);
      formed !== null;
      formed = this.#queue.take(idle, startsInMs)
    ) {
      const requests = this.#unchanged(formed.entries)
      if (requests.length === 0) continue
      const id = idle ? ++this.#runs : 0
      return {
        formed: ++this.#formed,
        id,
        place: null,
        requests,
        reason: formed.reason,
        alone: false,
        isRerun: false,
        ahead: !idle,
        limited: false,
        rerun: null,
      }
    }
    return null
  }

  /** A batch that was handed ahead is reckoned to run from now on. */
  started(batch: Batch): void {
    batch.ahead = false
    batch.id = ++this.#runs
    this.#inFlight.running++
    this.#queue.started(batch.requests)
    this.#begins(batch)
  }

  #begins(batch: Batch): void {
    this.#stops.started(batch)
    if (this.#observed.by.observer !== null) this.#observed.batchBegan(batch)
  }

  /**
   * A batch that had started runs no more, however it ended.
   *
   * @param error why it failed; `null` where it has run.
   */
  ended(batch: BatchFacts, error: string | null): void {
    this.#inFlight.running--
    this.#stops.ended(batch)
    if (error !== null && this.#observed.by.observer !== null)
      this.#observed.batchFailed(batch, error, this.#clock.nowMs())
  }

  /** A batch comes back that has not started, from a thread that has ended or by being asked for. */
  takenBack(batch: Batch, threadEnded: boolean): void {
    if (threadEnded) this.offerSoon() // to others
    for (const request of batch.requests) request.attempts--
    // One that was settled while it was ahead is still in the queue's account, and is taken out of it now.
    const waiting = batch.ahead ? batch.requests : batch.requests.filter(({ settled }) => !settled)
    if (!batch.ahead) this.ended(batch, 'its thread ended before it had begun')
    batch.ahead = false
    if (batch.isRerun) this.#retries.putBack({ ...batch, requests: waiting })
    else this.#queue.putBack(waiting)
    this.update()
  }

  /** Has requests wait again, and from now on runs each by itself. */
  runSingly(requests: readonly InferRequest[]): void {
    this.#queue.stopJoining()
    for (const { turn } of requests) turn?.leaveSlot()
    this.#queue.requeue(requests.filter(({ settled }) => !settled))
  }

  /** Answers have been given at `nowMs`, by this model or one before it in a pipeline. */
  answered(nowMs: number): void {
    this.#followUps.answered(nowMs)
    this.update()
  }

  /** Batches are to have another size than before. */
  resized(): void {
    this.#queue.resize()
    this.offerSoon()
  }

  /** Offers what waits to the instances. */
  readonly offer = (): void => {
    this.#offerScheduled = false
    this.#instances.offer()
  }

  /** The same when no more is to be expected soon: whoever calls until then may still join. */
  offerSoon(): void {
    if (this.#offerScheduled) return
    this.#offerScheduled = true
    this.#followUps.whenComplete(this.offer)
  }

  /** Rejects requests whose data was changed since they were checked, and gives the others. */
  #unchanged(requests: readonly InferRequest[]): readonly InferRequest[] {
    let refused = 0
    for (const request of requests) {
      const error = changedInput(this.#metadata, request)
      if (error === null) continue
      refused++
      this.#queue.started([request])
      this.#refuse(request, error)
    }
    return refused === 0 ? requests : requests.filter(({ settled }) => !settled)
  }
}
