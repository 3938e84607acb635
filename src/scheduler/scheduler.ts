import { RequestQueue, type QueueOwner } from '../queue/request-queue.ts'
import type { QueueExit } from '../queue/waiting-request.ts'
import { PriorityLevels } from '../queue/priority-levels.ts'
import type { RunTimes } from '../latency/run-times.ts'
import { ModelStats, type RejectionReason } from '../observability/model-stats.ts'
import { Admission } from './admission.ts'
import type { Batch } from '../instance/batch.ts'
import type { FinishedBatch } from '../instance/finished-batch.ts'
import type { CheckedOptions } from '../config/check-infer-options.ts'
import { InFlight } from './in-flight.ts'
import type { ModelMetadata } from '../metadata.ts'
import type { InstanceOwner, ModelInstance } from '../instance/model-instance.ts'
import type { Padding } from '../request/padding.ts'
import { RequestErrors } from './request-errors.ts'
import type { InferRequest } from '../request/infer-request.ts'
import { batchLimits, type ResolvedConfig } from '../config/resolve-model-config.ts'
import { Answers } from './answers.ts'
import { Retries } from './retries.ts'
import { SplitRequest } from './split-request.ts'
import { offerToAll } from './offer.ts'
import { indivisibleOutput } from '../instance/scatter.ts'
import type { SchedulerHost } from '../instance/scheduler-host.ts'
import { Estimator } from '../latency/estimator.ts'
import { noteSurprises, warnNotBatchable } from './surprises.ts'

const maxCrashes = 3 // in a row, with this model in flight, after which it is given up

/** The options of a call that the scheduler acts on. */
export type SubmitOptions = Pick<CheckedOptions, 'timeoutMs' | 'deadlineMs' | 'signal'>

/** The queue of a model and its instances: forms batches, hands them out, settles every request exactly once. */
export class Scheduler implements InstanceOwner, QueueOwner<InferRequest> {
  readonly metadata: ModelMetadata
  readonly padding: Padding | null
  readonly levels: PriorityLevels
  readonly stats = new ModelStats()
  readonly times: Estimator
  readonly unpredictableOutputs = new Set<number>()
  readonly instances: ModelInstance[] = []
  readonly host: SchedulerHost
  readonly #queue: RequestQueue<InferRequest>
  readonly #config: ResolvedConfig
  readonly #errors: RequestErrors
  readonly #admission: Admission
  readonly #answers: Answers
  readonly #retries = new Retries()
  readonly #inFlight: InFlight
  #rejectWaiting: [why: RejectionReason, error: (request: InferRequest) => Error]
  #batchId = 0
  #flushScheduled = false
  #crashes = 0
  #runsSingly = false

  /**
   * @param runTimes what runs took so far, from a calibration.
   * @param instances how many there will be.
   */
  constructor(
    metadata: ModelMetadata,
    padding: Padding | null,
    config: ResolvedConfig,
    runTimes: RunTimes,
    instances: number,
    host: SchedulerHost,
  ) {
    this.metadata = metadata
    this.padding = padding
    this.levels = new PriorityLevels(config.levels)
    this.#config = config
    this.host = host
    this.#inFlight = new InFlight(host.keepAlive)
    this.#errors = new RequestErrors(metadata.name)
    this.#rejectWaiting = ['closed', (request) => this.#errors.closed(request)]
    const { holdUntilQueued, latencyTargetMs, weight, preserveOrdering, rejectNonFinite } = config
    const limits = batchLimits(config, metadata.maxBatchSize)
    this.times = new Estimator(runTimes, limits, latencyTargetMs, instances, weight)
    this.#admission = new Admission(this.times, this.#errors, this.stats)
    this.#queue = new RequestQueue<InferRequest>({ ...limits, holdUntilQueued }, host.clock, this, runTimes, this.times.target)
    this.#answers = new Answers(metadata, padding, this.stats, this.#errors, host.clock, {
      preserveOrdering,
      finiteOnly: rejectNonFinite === 'outputs',
    })
  }

  /** Accepts a request, or rejects it at once: its level is full, its deadline out of reach. */
  submit(request: InferRequest, { timeoutMs, deadlineMs = this.#config.latencyTargetMs, signal }: SubmitOptions): void {
    if (signal?.aborted) return void request.fail(signal.reason)
    const nowMs = this.host.clock.nowMs()
    const refusal = this.#admission.refusal(request, deadlineMs, this.#queue.rows, this.instances, nowMs)
    if (refusal !== null) return void request.fail(refusal)
    if (deadlineMs > 0) request.deadlineAtMs = nowMs + deadlineMs
    if (signal !== undefined) request.listen(signal, () => this.#abort(request, signal))
    const waitMs = request.level.timeoutFor(timeoutMs)
    if (waitMs > 0) request.timeoutAtMs = nowMs + waitMs
    this.#answers.accept(request)
    const full =
      request instanceof SplitRequest
        ? request.enqueue(this.#queue, nowMs, (part) => this.#withdraw(part))
        : this.#queue.enqueue(request, nowMs)
    this.#inFlight.update(this.waiting)
    // A full batch starts at once; otherwise whoever calls in the same turn of the event loop may still join.
    if (full) offerToAll(this.instances)
    else if (!this.#flushScheduled) {
      this.#flushScheduled = true
      process.nextTick(this.#flush)
    }
  }

  /** Resolves when nothing waits and nothing runs. */
  drained(): Promise<void> {
    this.#queue.drain()
    offerToAll(this.instances)
    return this.#inFlight.drained()
  }

  /** Rejects what waits; what runs goes on. */
  rejectWaiting(): void {
    const [why, error] = this.#rejectWaiting
    for (const request of this.#retries.clear()) this.#answers.reject(request, why, error(request))
    this.#queue.clear('closed')
    this.#inFlight.update(this.waiting)
  }

  /** Rejects what waits with `reason` and lets go of all instances. */
  giveUp(reason: string): void {
    this.host.gaveUp(reason)
    this.#rejectWaiting = ['crashed', (request) => this.#errors.crashed(request, reason)]
    this.rejectWaiting()
    for (const instance of this.instances.splice(0)) instance.worker.part(instance)
  }

  /** Requests accepted and not started. */
  get waiting(): number {
    return this.#queue.count + this.#retries.count
  }

  /** Batches handed to instances. */
  get running(): number {
    return this.#inFlight.running
  }

  /** In how many milliseconds a request would be answered that came now; 0 when no run like it was seen. */
  estimatedAnswerMs(bucketKey: string, rows: number): number {
    return this.times.estimatedAnswerMs(bucketKey, rows, this.#queue.rows, this.instances, this.host.clock.nowMs())
  }

  take(idle: boolean, startsInMs: number): Batch | null {
    const batch = this.#next(idle, startsInMs)
    if (batch !== null) this.#inFlight.running++
    return batch
  }

  #next(idle: boolean, startsInMs: number): Batch | null {
    const retry = this.#retries.take(idle)
    if (retry !== null) {
      this.stats.closed(retry.reason, true)
      return { ...retry, id: ++this.#batchId }
    }
    if (this.#retries.count > 0) return null // what waits there goes first, as soon as an instance is idle
    const formed = this.#queue.take(idle, startsInMs)
    if (formed === null) return null
    this.stats.closed(formed.reason, false)
    return { id: ++this.#batchId, requests: formed.entries, reason: formed.reason, alone: false }
  }

  withdrawn(): void {
    this.#inFlight.running--
    this.#inFlight.update(this.waiting)
  }

  finished(batch: FinishedBatch): void {
    this.#inFlight.running--
    this.#crashes = 0
    if (this.times.observe(batch, this.host.clock.nowMs())) this.#queue.resize(batch.requests[0]!.bucketKey)
    const indivisible = indivisibleOutput(this.metadata, batch)
    if (indivisible === null) {
      noteSurprises(batch, this.unpredictableOutputs, this.instances)
      this.#answers.answer(batch)
    } else this.#runSingly(batch, indivisible)
    this.#inFlight.update(this.waiting)
  }

  failed(batch: Batch, message: string): void {
    this.#inFlight.running--
    this.#crashes = 0
    if (batch.requests.length > 1) this.#retries.bisect(batch)
    else for (const request of batch.requests) this.#answers.failed(request, this.#errors.failedRun(request, message))
    this.#inFlight.update(this.waiting)
    offerToAll(this.instances)
  }

  refused(request: InferRequest, reason: Error): void {
    this.#answers.reject(request, 'changed', reason)
    this.#inFlight.update(this.waiting)
  }

  crashed(batches: readonly Batch[], reason: string): void {
    if (batches.length === 0) return
    this.#inFlight.running -= batches.length
    for (const batch of batches) {
      const lost = this.#config.rerunAfterCrash ? this.#retries.afterCrash(batch) : batch.requests
      for (const request of lost) this.#answers.failed(request, this.#errors.crashed(request, reason), 'crashed')
    }
    if (!batches.every(({ alone }) => alone)) this.#crashes++ // a suspect that runs alone says nothing new of the model
    if (this.#crashes >= maxCrashes) this.giveUp(`its worker died ${maxCrashes} times in a row, last of: ${reason}`)
    this.#inFlight.update(this.waiting)
    offerToAll(this.instances)
  }

  lost(instance: ModelInstance, reason: string): void {
    instance.worker.part(instance)
    this.instances.splice(this.instances.indexOf(instance), 1)
    if (this.instances.length === 0) this.giveUp(reason)
  }

  dropped(request: InferRequest, why: QueueExit): void {
    if (why === 'timeout') this.#answers.reject(request, 'timeout', this.#errors.timedOut(request))
    else if (why === 'deadline') this.#answers.reject(request, 'deadline', this.#admission.hopeless(request, this.host.clock.nowMs()))
    else if (why === 'closed') this.#answers.reject(request, this.#rejectWaiting[0], this.#rejectWaiting[1](request))
    this.#inFlight.update(this.waiting)
  }

  wake(): void {
    offerToAll(this.instances)
  }

  readonly #flush = (): void => {
    this.#flushScheduled = false
    offerToAll(this.instances)
  }

  /** An output has another number of rows than the batch: the model cannot be batched after all. */
  #runSingly({ requests }: FinishedBatch, output: string): void {
    if (!this.#runsSingly) warnNotBatchable(this.metadata.name, output) // other batches may have been on their way
    this.#runsSingly = true
    this.#queue.stopJoining()
    this.#queue.requeue(requests.filter(({ settled }) => !settled))
  }

  #abort(request: InferRequest, signal: AbortSignal): void {
    this.#answers.reject(request, 'cancelled', signal.reason)
    this.#withdraw(request)
  }

  #withdraw(request: InferRequest): void {
    if (!this.#queue.cancel(request, 'cancelled')) this.#retries.cancel(request)
    this.#inFlight.update(this.waiting)
  }
}
