import { LatencyTarget } from '../batching/latency-target.ts'
import { Batcher, type BatcherHost } from '../batching/batcher.ts'
import { estimatedAnswerMs } from '../batching/admission.ts'
import { fullBatchRows, type BatchLimits } from '../batching/batch-policy.ts'
import type { QueueExit } from '../batching/entry.ts'
import { QueueLevels } from '../batching/queue-level.ts'
import { RunTimes } from '../batching/run-times.ts'
import { ModelStats, type RejectionReason } from '../observability/model-stats.ts'
import { Throughput } from '../observability/throughput.ts'
import type { StagingBuffer } from '../staging/staging-pool.ts'
import type { Batch, FinishedBatch } from './batch.ts'
import type { ModelMetadata } from './metadata.ts'
import type { InstanceOwner, ModelInstance } from './model-instance.ts'
import type { Padding } from './padding.ts'
import { Rejections } from './rejections.ts'
import type { InferRequest } from './request.ts'
import type { ResolvedConfig } from './resolve-config.ts'
import { Responses } from './responses.ts'
import { Retries } from './retries.ts'
import { indivisibleOutput } from './scatter.ts'
import type { SchedulerHost } from './scheduler-host.ts'

/** Deaths in a row, with this model in flight, after which it is given up. */
const maxCrashes = 3
/** Runs after which a latency target looks at its choice of batch size again. */
const reviewEveryRuns = 8

/** The options of a call that the scheduler acts on. */
export interface SubmitOptions {
  readonly timeoutMs?: number | undefined
  readonly deadlineMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** The queue of a model and its instances: forms batches, hands them out, settles every request exactly once. */
export class ModelScheduler implements InstanceOwner, BatcherHost<InferRequest> {
  readonly metadata: ModelMetadata
  readonly padding: Padding | null
  readonly levels: QueueLevels
  readonly stats = new ModelStats()
  readonly throughput = new Throughput()
  readonly runTimes: RunTimes
  readonly unpredictableOutputs = new Set<number>()
  readonly instances: ModelInstance[] = []
  readonly #host: SchedulerHost
  readonly #batcher: Batcher<InferRequest>
  readonly #target: LatencyTarget | null
  readonly #limits: BatchLimits
  readonly #config: ResolvedConfig
  readonly #rejections: Rejections
  readonly #responses: Responses
  readonly #retries = new Retries()
  readonly #onDrained: (() => void)[] = []
  #rejectWaiting: [why: RejectionReason, error: (request: InferRequest) => Error]
  #batchId = 0
  #running = 0
  #busy = false
  #flushScheduled = false
  #crashes = 0
  #runsSingly = false

  /** @param runTimes what runs took so far, from a calibration. */
  constructor(metadata: ModelMetadata, padding: Padding | null, config: ResolvedConfig, runTimes: RunTimes, host: SchedulerHost) {
    this.metadata = metadata
    this.padding = padding
    this.runTimes = runTimes
    this.levels = new QueueLevels(config.levels)
    this.#config = config
    this.#host = host
    this.#rejections = new Rejections(metadata.name)
    this.#rejectWaiting = ['closed', (request) => this.#rejections.closed(request)]
    const { preferredBatchSizes, maxQueueDelayMs, holdUntilQueued, latencyTargetMs, preserveOrdering, rejectNonFinite } = config
    const joinRequests = config.joinRequests && metadata.maxBatchSize > 0
    const maxBatchSize = Math.max(1, metadata.maxBatchSize)
    this.#limits = { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, joinRequests }
    this.#target = latencyTargetMs > 0 && joinRequests ? new LatencyTarget(this.#limits, latencyTargetMs, runTimes) : null
    this.#batcher = new Batcher<InferRequest>({ ...this.#limits, holdUntilQueued }, host.clock, this, runTimes, this.#target)
    this.#responses = new Responses(metadata, padding, this.stats, this.#rejections, host.clock, {
      preserveOrdering,
      finiteOnly: rejectNonFinite === 'outputs',
    })
  }

  /** Accepts a request, or rejects it at once when it cannot be served: its level is full, its deadline out of reach. */
  submit(request: InferRequest, { timeoutMs, deadlineMs = this.#config.latencyTargetMs, signal }: SubmitOptions): void {
    if (signal?.aborted) return void request.fail(signal.reason)
    if (request.level.full) return this.#refuseFull(request)
    const nowMs = this.#host.clock.nowMs()
    if (deadlineMs > 0) {
      const estimatedMs = this.#estimatedAnswerMs(request)
      if (estimatedMs > deadlineMs) {
        this.stats.failed('deadline', 0)
        return void request.fail(this.#rejections.hopeless(request, deadlineMs, estimatedMs))
      }
      request.deadlineAtMs = nowMs + deadlineMs
    }
    if (signal !== undefined) request.listen(signal, () => this.#abort(request, signal))
    const waitMs = request.level.timeoutFor(timeoutMs)
    if (waitMs > 0) request.timeoutAtMs = nowMs + waitMs
    this.#responses.accept(request)
    const full = this.#batcher.enqueue(request, nowMs)
    this.#updateBusy()
    // A full batch starts at once; otherwise whoever calls in the same turn of the event loop may still join.
    if (full) this.#pump()
    else if (!this.#flushScheduled) {
      this.#flushScheduled = true
      process.nextTick(this.#flush)
    }
  }

  /** Resolves when nothing waits and nothing runs. */
  drained(): Promise<void> {
    if (!this.#busy) return Promise.resolve()
    this.#batcher.drain()
    this.#pump()
    return new Promise((resolve) => this.#onDrained.push(resolve))
  }

  /** Rejects what waits; what runs goes on. */
  rejectWaiting(): void {
    const [why, error] = this.#rejectWaiting
    for (const request of this.#retries.clear()) this.#responses.reject(request, why, error(request))
    this.#batcher.clear('closed')
    this.#updateBusy()
  }

  /** Rejects what waits with `reason` and lets go of all instances. */
  giveUp(reason: string): void {
    this.#host.gaveUp(reason)
    this.#rejectWaiting = ['crashed', (request) => this.#rejections.crashed(request, reason)]
    this.rejectWaiting()
    for (const instance of this.instances.splice(0)) instance.host.part(instance)
  }

  /** Requests accepted and not started. */
  get waiting(): number {
    return this.#batcher.count + this.#retries.count
  }

  /** Batches handed to instances. */
  get running(): number {
    return this.#running
  }

  /** In how many milliseconds one more row would be answered, by the times of earlier runs; 0 when there are none. */
  estimatedWaitMs(): number {
    return this.#answerMs('', 1)
  }

  nowMs(): number {
    return this.#host.clock.nowMs()
  }

  acquire(byteLength: number): StagingBuffer {
    return this.#host.acquire(byteLength)
  }

  nextSlotId(): number {
    return this.#host.nextSlotId()
  }

  reopen(instance: ModelInstance): Promise<void> {
    return this.#host.reopen(instance)
  }

  estimatedRunMs(bucketKey: string, rows: number): number {
    return this.runTimes.medianMs(bucketKey, rows)
  }

  take(idle: boolean, startsInMs: number): Batch | null {
    const batch = this.#next(idle, startsInMs)
    if (batch !== null) this.#running++
    return batch
  }

  #next(idle: boolean, startsInMs: number): Batch | null {
    if (this.#retries.count > 0) {
      const retry = this.#retries.take(idle)
      if (retry !== null || this.#retries.count > 0) {
        if (retry === null) return null
        this.stats.closed(retry.reason, true)
        return { ...retry, id: ++this.#batchId }
      }
    }
    const formed = this.#batcher.take(idle, startsInMs)
    if (formed === null) return null
    this.stats.closed(formed.reason, false)
    return { id: ++this.#batchId, requests: formed.entries, reason: formed.reason, alone: false }
  }

  withdrawn(): void {
    this.#running--
    this.#updateBusy()
  }

  finished(batch: FinishedBatch): void {
    this.#running--
    this.#crashes = 0
    this.#observe(batch)
    const indivisible = indivisibleOutput(this.metadata, batch)
    if (indivisible === null) {
      this.#noteUnpredictable(batch)
      this.#responses.answer(batch)
    } else this.#runSingly(batch, indivisible)
    this.#updateBusy()
  }

  failed(batch: Batch, message: string): void {
    this.#running--
    this.#crashes = 0
    if (batch.requests.length > 1) this.#retries.bisect(batch)
    else for (const request of batch.requests) this.#responses.failed(request, this.#rejections.failedRun(request, message))
    this.#updateBusy()
    this.#pump()
  }

  refused(request: InferRequest, reason: Error): void {
    this.#responses.reject(request, 'changed', reason)
    this.#updateBusy()
  }

  crashed(batches: readonly Batch[], reason: string): void {
    if (batches.length === 0) return
    this.#running -= batches.length
    for (const batch of batches) {
      const again = this.#config.rerunAfterCrash ? batch.requests.filter(({ settled, crashed }) => !settled && !crashed) : []
      for (const request of batch.requests) {
        if (!again.includes(request)) this.#responses.failed(request, this.#rejections.crashed(request, reason), 'crashed')
        request.crashed = true
      }
      this.#retries.singly(again, batch.reason)
    }
    if (++this.#crashes >= maxCrashes) this.giveUp(`its worker died ${maxCrashes} times in a row, last of: ${reason}`)
    this.#updateBusy()
    this.#pump()
  }

  lost(instance: ModelInstance, reason: string): void {
    instance.host.part(instance)
    this.instances.splice(this.instances.indexOf(instance), 1)
    if (this.instances.length === 0) this.giveUp(reason)
  }

  dropped(request: InferRequest, why: QueueExit): void {
    if (why === 'timeout') this.#responses.reject(request, 'timeout', this.#rejections.timedOut(request))
    else if (why === 'deadline') this.#dropHopeless(request)
    else if (why === 'closed') this.#responses.reject(request, this.#rejectWaiting[0], this.#rejectWaiting[1](request))
    this.#updateBusy()
  }

  wake(): void {
    this.#pump()
  }

  readonly #flush = (): void => {
    this.#flushScheduled = false
    this.#pump()
  }

  /** Offers the queue to the instances: first to those that would start at once, then, full batches only, to the others. */
  #pump(): void {
    const { instances } = this
    if (instances.length === 1) return instances[0]!.host.offer(instances[0]!)
    for (const instance of instances) {
      if (instance.host.outstanding > 0) continue
      instance.host.offer(instance)
      if (instance.host.outstanding === 0) break // the next idle one would be given nothing either
    }
    for (const instance of instances) if (instance.host.outstanding > 0) instance.host.offer(instance)
  }

  #observe({ requests, rows, timeline }: FinishedBatch): void {
    const { takenAtMs, startMs, inferEndMs } = timeline
    const { bucketKey } = requests[0]!
    this.runTimes.observe(bucketKey, rows, inferEndMs - startMs)
    this.throughput.finished(requests.length, takenAtMs, this.nowMs())
    if (this.#target !== null && this.#batchId % reviewEveryRuns === 0 && this.#target.review(bucketKey)) this.#batcher.resize(bucketKey)
  }

  #estimatedAnswerMs({ bucketKey, rows }: InferRequest): number {
    return this.#answerMs(bucketKey, rows)
  }

  #answerMs(bucketKey: string, rows: number): number {
    const { weight } = this.#config
    let freeInMs = Infinity
    let sharing = Infinity
    for (const { host } of this.instances) {
      freeInMs = Math.min(freeInMs, host.freeInMs)
      sharing = Math.min(sharing, host.sharing(weight))
    }
    return estimatedAnswerMs(this.runTimes, bucketKey, rows, {
      rowsAhead: this.#batcher.rows,
      batchRows: fullBatchRows(this.#target?.limits(bucketKey) ?? this.#limits),
      instances: this.instances.length,
      freeInMs,
      sharing,
    })
  }

  #dropHopeless(request: InferRequest): void {
    const { enqueuedAtMs, deadlineAtMs, bucketKey, rows } = request
    const estimatedMs = this.nowMs() - enqueuedAtMs + this.runTimes.medianMs(bucketKey, rows)
    const error = this.#rejections.hopeless(request, deadlineAtMs - enqueuedAtMs, estimatedMs)
    this.#responses.reject(request, 'deadline', error)
  }

  #noteUnpredictable({ slot, mailed }: FinishedBatch): void {
    const surprises = mailed?.flatMap((tensor, index) => (tensor && slot.layout!.outputs[index] ? [index] : [])) ?? []
    if (surprises.length === 0) return
    for (const index of surprises) this.unpredictableOutputs.add(index)
    for (const instance of this.instances) instance.forgetLayouts()
  }

  /** An output has another number of rows than the batch: the model cannot be batched after all. */
  #runSingly({ requests }: FinishedBatch, output: string): void {
    // Other batches may have been on their way when the first one showed it.
    if (!this.#runsSingly) process.emitWarning(
      `Output '${output}' of model '${this.metadata.name}' does not have one entry per row, so its requests are run one by one from now on. ` +
        'Load it with maxBatchSize: 0.',
      { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_BATCHABLE' },
    )
    this.#runsSingly = true
    this.#batcher.stopJoining()
    this.#batcher.requeue(requests.filter(({ settled }) => !settled))
  }

  #abort(request: InferRequest, signal: AbortSignal): void {
    this.#responses.reject(request, 'cancelled', signal.reason)
    this.#batcher.cancel(request, 'cancelled')
  }

  #refuseFull(request: InferRequest): void {
    this.stats.failed('queueFull', 0)
    const { waiting, policy } = request.level
    const retryAfterMs = Math.max(1, Math.ceil(waiting * this.throughput.msPerRequest))
    request.fail(this.#rejections.queueFull(request, policy.maxQueueSize, retryAfterMs))
  }

  /** Holds the process while a request is in flight, and tells who waits for the end. */
  #updateBusy(): void {
    const busy = this.waiting + this.#running > 0
    if (busy === this.#busy) return
    this.#busy = busy
    if (busy) return this.#host.keepAlive.enter()
    this.#host.keepAlive.leave()
    for (const resolve of this.#onDrained.splice(0)) resolve()
  }
}
