import { Batcher, type BatcherHost } from '../batching/batcher.ts'
import type { QueueExit } from '../batching/entry.ts'
import { ModelStats } from '../observability/model-stats.ts'
import type { StagingBuffer } from '../staging/staging-pool.ts'
import type { ModelMetadata } from './metadata.ts'
import type { FinishedBatch, InstanceOwner, ModelInstance } from './model-instance.ts'
import { Rejections } from './rejections.ts'
import type { InferRequest } from './request.ts'
import type { ResolvedConfig } from './resolve-config.ts'
import { indivisibleOutput, scatter } from './scatter.ts'
import type { SchedulerHost } from './scheduler-host.ts'

/** Deaths in a row, with this model in flight, after which it is given up. */
const maxCrashes = 3

/** The queue of a model and its instances: forms batches, hands them out, settles every request exactly once. */
export class ModelScheduler implements InstanceOwner, BatcherHost<InferRequest> {
  readonly metadata: ModelMetadata
  readonly stats = new ModelStats()
  readonly unpredictableOutputs = new Set<number>()
  readonly instances: ModelInstance[] = []
  readonly #host: SchedulerHost
  readonly #batcher: Batcher<InferRequest>
  readonly #config: ResolvedConfig
  readonly #rejections: Rejections
  readonly #onDrained: (() => void)[] = []
  #rejectWaiting: (request: InferRequest) => Error
  #running = 0
  #busy = false
  #flushScheduled = false
  #crashes = 0
  #runsSingly = false
  #msPerRequest = 0

  constructor(metadata: ModelMetadata, config: ResolvedConfig, host: SchedulerHost) {
    this.metadata = metadata
    this.#config = config
    this.#host = host
    this.#rejections = new Rejections(metadata.name)
    this.#rejectWaiting = (request) => this.#rejections.closed(request)
    const { preferredBatchSizes, maxQueueDelayMs, maxQueueSize } = config
    const joinRequests = config.joinRequests && metadata.maxBatchSize > 0
    const maxBatchSize = Math.max(1, metadata.maxBatchSize)
    this.#batcher = new Batcher<InferRequest>(
      { maxBatchSize, preferredBatchSizes, maxQueueDelayMs, maxQueueSize, joinRequests },
      host.clock,
      this,
    )
  }

  /** Accepts a request, or rejects it at once when the queue is full. */
  submit(request: InferRequest, timeoutMs: number | undefined, signal: AbortSignal | undefined): void {
    if (signal?.aborted) return void request.fail(signal.reason)
    if (this.#batcher.full) return this.#refuse(request)
    if (signal !== undefined) request.listen(signal, () => this.#abort(request, signal))
    const nowMs = this.#host.clock.nowMs()
    const waitMs = timeoutMs ?? this.#config.defaultTimeoutMs
    if (waitMs > 0) request.deadlineMs = nowMs + waitMs
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
    return new Promise((resolve) => this.#onDrained.push(resolve))
  }

  /** Rejects what waits; what runs goes on. */
  rejectWaiting(): void {
    this.#batcher.clear('closed')
    this.#updateBusy()
  }

  /** Rejects what waits with `reason` and lets go of all instances. */
  giveUp(reason: string): void {
    this.#host.gaveUp(reason)
    this.#rejectWaiting = (request) => this.#rejections.crashed(request, reason)
    this.rejectWaiting()
    for (const instance of this.instances.splice(0)) instance.host.part(instance)
  }

  get waiting(): number {
    return this.#batcher.count
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

  take(idle: boolean): InferRequest[] | null {
    const batch = this.#batcher.take(idle)
    if (batch !== null) this.#running++
    return batch
  }

  withdrawn(): void {
    this.#running--
    this.#updateBusy()
  }

  finished(batch: FinishedBatch): void {
    this.#running--
    this.#crashes = 0
    const indivisible = indivisibleOutput(this.metadata, batch)
    if (indivisible === null) this.#answer(batch)
    else this.#runSingly(batch, indivisible)
    this.#updateBusy()
  }

  failed(requests: readonly InferRequest[], message: string): void {
    this.#running--
    this.#crashes = 0
    for (const request of requests) this.#reject(request, this.#rejections.failedRun(request, message))
    this.#updateBusy()
  }

  refused(request: InferRequest, reason: Error): void {
    this.#reject(request, reason)
    this.#updateBusy()
  }

  crashed(batches: readonly (readonly InferRequest[])[], reason: string): void {
    if (batches.length === 0) return
    this.#running -= batches.length
    for (const request of batches.flat()) this.#reject(request, this.#rejections.crashed(request, reason))
    if (++this.#crashes >= maxCrashes) this.giveUp(`its worker died ${maxCrashes} times in a row, last of: ${reason}`)
    this.#updateBusy()
  }

  lost(instance: ModelInstance, reason: string): void {
    instance.host.part(instance)
    this.instances.splice(this.instances.indexOf(instance), 1)
    if (this.instances.length === 0) this.giveUp(reason)
  }

  dropped(request: InferRequest, why: QueueExit): void {
    if (why === 'timeout') this.#reject(request, this.#rejections.timedOut(request))
    else if (why === 'closed') this.#reject(request, this.#rejectWaiting(request))
    this.#updateBusy()
  }

  wake(): void {
    this.#pump()
  }

  readonly #flush = (): void => {
    this.#flushScheduled = false
    this.#pump()
  }

  /** Offers the queue to the instances' workers, the least busy first. */
  #pump(): void {
    const { instances } = this
    if (instances.length === 1) return instances[0]!.host.pump()
    const hosts = [...new Set(instances.map(({ host }) => host))]
    for (const host of hosts.sort((a, b) => a.outstanding - b.outstanding)) {
      if (this.#batcher.count === 0) return
      host.pump()
    }
  }

  #answer(batch: FinishedBatch): void {
    const { requests, rows, timeline } = batch
    const { takenAtMs, gatheredAtMs, startMs, inferStartMs, inferEndMs } = timeline
    this.#noteUnpredictable(batch)
    const scatterAtMs = this.nowMs()
    const outputs = scatter(this.metadata, batch)
    const doneAtMs = this.nowMs()

    const count = requests.length
    let enqueuedMs = 0
    for (let member = 0; member < count; member++) enqueuedMs += requests[member]!.enqueuedAtMs
    const behindMs = Math.max(0, startMs - gatheredAtMs) // handed over, but another batch still ran
    this.#msPerRequest = (inferEndMs - startMs) / count
    this.stats.succeeded(count, rows, count * doneAtMs - enqueuedMs, count * (takenAtMs + behindMs) - enqueuedMs, {
      inputMs: gatheredAtMs - takenAtMs + (inferStartMs - startMs),
      inferMs: inferEndMs - inferStartMs,
      outputMs: doneAtMs - scatterAtMs,
    })
    for (let member = 0; member < count; member++) requests[member]!.succeed(outputs[member]!)
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
    this.#reject(request, signal.reason)
    this.#batcher.cancel(request, 'cancelled')
  }

  #refuse(request: InferRequest): void {
    this.stats.failed(0)
    const retryAfterMs = Math.max(1, Math.ceil((this.#batcher.count * this.#msPerRequest) / Math.max(1, this.instances.length)))
    request.fail(this.#rejections.queueFull(request, this.#config.maxQueueSize, retryAfterMs))
  }

  #reject(request: InferRequest, reason: unknown): void {
    if (request.fail(reason)) this.stats.failed(this.nowMs() - request.enqueuedAtMs)
  }

  /** Holds the process while a request is in flight, and tells who waits for the end. */
  #updateBusy(): void {
    const busy = this.#batcher.count + this.#running > 0
    if (busy === this.#busy) return
    this.#busy = busy
    if (busy) return this.#host.keepAlive.enter()
    this.#host.keepAlive.leave()
    for (const resolve of this.#onDrained.splice(0)) resolve()
  }
}
