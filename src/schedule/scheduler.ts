import type { Clock } from '../base/clock.ts'
import { batchLimits, type ResolvedConfig } from '../options/model-config.ts'
import type { Batch, FinishedBatch } from './batch.ts'
import { InstanceSet, type Instance } from './instance-set.ts'
import { divided, indivisibleOutput, UnpredictableOutputs } from './scatter.ts'
import type { ReadyEstimate, QueueExit, InferRequest, Preparation } from '../request/infer-request.ts'
import { Estimator } from './estimator.ts'
import type { LeasedRows } from '../native/row-blocks.ts'
import type { ModelMetadata } from '../tensor/metadata.ts'
import { ModelStats } from '../observe/model-stats.ts'
import { rejectionOf, type RejectionReason } from '../observe/rejections.ts'
import { PriorityLevels, type PriorityLevel } from '../request/priority-levels.ts'
import { RequestQueue, type QueueOwner } from './request-queue.ts'
import type { UndividedOutput } from '../request/output-rows.ts'
import type { Padding } from '../request/padding.ts'
import { Admission } from './admission.ts'
import { Answers } from './answers.ts'
import { BatchSupply } from './batch-supply.ts'
import { InFlight } from '../base/keep-alive.ts'
import type { Joining } from './joining.ts'
import { RequestErrors, Retries, RunStops } from './failures.ts'
import type { ScheduledModel, SubmitOptions } from './scheduled-model.ts'
import { SplitRequest } from './split-request.ts'

const maxDeaths = 3 // in a row, over runs of this model, after which it is given up

/** The queue of a model and its instances: forms batches, hands them out, settles every request exactly once. */
export class Scheduler implements QueueOwner<InferRequest> {
  /** The model as its batches are laid out; what its users see is in {@link joining}. */
  readonly metadata: ModelMetadata
  readonly joining: Joining
  readonly padding: Padding | null
  readonly clock: Clock
  readonly levels: PriorityLevels
  readonly stats = new ModelStats()
  readonly times: Estimator
  readonly unpredictable: UnpredictableOutputs
  readonly instances = new InstanceSet()
  readonly observed: ScheduledModel['observed']
  /** What decodes its encoded images; `null` where it takes none. */
  decoding: { estimate(level: PriorityLevel): ReadyEstimate } | null = null
  /** What waits, for whoever is to see that there are instances enough. */
  readonly demand: Pick<BatchSupply, 'oldestAtMs' | 'onUpdate' | 'nextIsAlone' | 'answered' | 'resized'>
  readonly #queue: RequestQueue<InferRequest>
  readonly #config: ResolvedConfig
  readonly #errors: RequestErrors
  readonly #admission: Admission
  readonly #answers: Answers
  readonly #retries: Retries
  readonly #inFlight: InFlight
  readonly #supply: BatchSupply
  readonly #stops: RunStops
  readonly #rowCheck: ScheduledModel['rowCheck']
  readonly #gaveUp: (reason: string) => void
  #rejectWaiting: [why: RejectionReason, error: (request: InferRequest) => Error]
  #deaths = 0
  /** Whether outputs have other than one entry per row. */
  readonly #divides: boolean
  #hasWarned = false

  constructor({
    joining,
    observed,
    rowCheck,
    padding,
    costs,
    config,
    runTimes,
    instances,
    clock,
    keepAlive,
    gaveUp,
  }: ScheduledModel) {
    this.joining = joining
    this.observed = observed
    this.metadata = joining.stacked
    this.padding = padding
    this.#divides = joining.stacked.outputs.some(({ rows }) => rows !== undefined)
    this.unpredictable = new UnpredictableOutputs(joining.shaped.needed, joining.stacked.outputs.length)
    this.clock = clock
    this.levels = new PriorityLevels(config.levels)
    this.#config = config
    this.#rowCheck = rowCheck
    this.#gaveUp = gaveUp
    this.#inFlight = new InFlight(keepAlive)
    this.#retries = new Retries(config.rerunAfterCrash)
    this.#errors = new RequestErrors(this.metadata.name, config.rerunAfterCrash)
    this.#rejectWaiting = ['closed', (request) => this.#errors.closed(request)]
    const limits = batchLimits(config, joining.largestBatch)
    this.times = new Estimator(runTimes, {
      limits,
      latencyTargetMs: config.latencyTargetMs,
      instances,
      weight: config.weight,
      isCapped: config.autoTune !== null,
      isDivisible: config.sequence?.direct === undefined && config.levels.priorityLevels === 0,
    })
    this.#admission = new Admission(this.times, this.#errors, this.stats, costs)
    this.#queue = new RequestQueue<InferRequest>(
      { ...limits, holdUntilQueued: config.holdUntilQueued },
      clock,
      this,
      runTimes,
      this.times.sizer,
    )
    this.#answers = new Answers(joining, padding, this.stats, this.#errors, clock, observed, config)
    this.#stops = new RunStops(
      config.maxRunMs,
      { clock, instances: this.instances, answers: this.#answers, errors: this.#errors },
      config.function === null ? 'halves' : 'singly',
    )
    this.demand = this.#supply = new BatchSupply({
      metadata: this.metadata, queue: this.#queue, retries: this.#retries, instances: this.instances, inFlight: this.#inFlight, stops: this.#stops, observed, clock, refuse: (request, error) => this.#answers.reject(request, 'changed', error),
    }) // prettier-ignore
  }

  /** What is known of the rows of the model has changed: requests that wait are joined, or not, as those that come. */
  rejoin(): void {
    this.#queue.joinOnly(this.joining.byRow ? this.joining.joinedBuckets : { has: () => false })
  }

  /** Accepts a request, or rejects it at once: its level is full, its deadline out of reach. */
  submit(
    request: InferRequest,
    { timeoutMs, deadlineMs = this.#config.latencyTargetMs, maxRunMs, signal }: SubmitOptions,
    nowMs = this.clock.nowMs(),
  ): void {
    if (signal?.aborted) return this.#admission.refuseAborted(request, signal.reason)
    const refusal = this.#admission.refusal(
      request,
      deadlineMs,
      deadlineMs > 0 ? this.levels.rowsAhead(request.level, request.preparation !== null) : 0,
      this.instances,
      nowMs,
    )
    if (refusal !== null) return void request.fail(refusal)
    if (deadlineMs > 0) request.deadlineAtMs = nowMs + deadlineMs
    if (signal !== undefined) request.listen(signal, () => this.cancel(request, 'cancelled', signal.reason))
    const waitMs = request.level.timeoutFor(timeoutMs)
    if (waitMs > 0) request.timeoutAtMs = nowMs + waitMs
    request.maxRunMs = this.#stops.ownLimitMs(maxRunMs)
    if (request.held) return this.#supply.hold(request, nowMs)
    this.#answers.accept(request)
    if (request.preparation !== null) return this.#prepare(request, request.preparation, nowMs)
    const full =
      request instanceof SplitRequest
        ? request.enqueue(this.#queue, nowMs, (part) => this.#withdraw(part))
        : this.#queue.enqueue(request, nowMs)
    this.#supply.accepted(request, full)
  }

  /** Has a request wait for a batch that was submitted while it was held back. */
  release(request: InferRequest): void {
    this.#answers.accept(request)
    this.#supply.accepted(request, this.#queue.release(request))
  }

  /** Has the inputs of a request made that it has not yet; meanwhile it waits like any other, and keeps none of them waiting. */
  #prepare(request: InferRequest, preparation: Preparation, nowMs: number): void {
    request.unready = true
    this.#supply.hold(request, nowMs)
    preparation.begin(request, {
      begins: () => !this.#queue.expires(request),
      ready: (leased) => this.#ready(request, leased),
      failed: (error) => this.#unprepared(request, error),
    })
  }

  #ready(request: InferRequest, leased: LeasedRows | null): void {
    request.leased = leased
    if (request.observation !== null) this.#tellDecoded(request, request.preparation!)
    request.preparation = null
    const refusal = this.#admission.weigh(request)
    if (refusal !== null) return this.#unprepared(request, refusal)
    this.#supply.accepted(request, this.#queue.ready(request, this.clock.nowMs()))
  }

  #tellDecoded({ observation, data }: InferRequest, { sources }: Preparation): void {
    observation!.decoded?.(new Map([...sources.keys()].map((index) => [index, data[index]])))
  }

  #unprepared(request: InferRequest, error: unknown): void {
    this.#answers.reject(request, rejectionOf(error), error)
    this.#withdraw(request)
  }

  /** Rejects a request that nobody wants any more, whether it waits or runs. */
  cancel(request: InferRequest, why: RejectionReason, reason: unknown): void {
    this.#answers.reject(request, why, reason)
    this.#withdraw(request)
  }

  /** Resolves when nothing waits and nothing runs. */
  drained(): Promise<void> {
    this.#queue.drain()
    this.instances.offer()
    return this.#inFlight.drained()
  }

  /** Rejects what waits; what runs goes on. */
  rejectWaiting(): void {
    this.instances.takeBackAhead()
    const [why, error] = this.#rejectWaiting
    for (const request of this.#retries.clear()) this.#answers.reject(request, why, error(request))
    this.#queue.clear('closed')
    this.#supply.update()
  }

  /** Rejects all that was accepted, and stops what runs. */
  destroy(): void {
    this.instances.takeBackAhead()
    this.#stops.all()
    this.rejectWaiting()
  }

  /** Rejects what waits with `reason`; what runs comes to its end. */
  giveUp(reason: string): void {
    this.#gaveUp(reason)
    this.#rejectWaiting = ['crashed', (request) => this.#errors.givenUp(request, reason)]
    this.rejectWaiting()
  }

  /** Requests accepted and not started. */
  get waiting(): number {
    return this.#supply.waiting
  }

  /** Batches that run. */
  get running(): number {
    return this.#inFlight.running
  }

  /** In how many milliseconds a request would be answered that came now; 0 when no run like it was seen. */
  estimatedAnswerMs(bucketKey: string, rows: number, priority?: number): number {
    const rowsAhead = this.levels.rowsAhead(this.levels.of(priority))
    return this.times.estimatedAnswerMs(
      bucketKey,
      rows,
      rowsAhead,
      this.instances.serving,
      this.clock.nowMs(),
    )
  }

  /** The same of a request of one row and the default level; where the model takes encoded images, of one with images like the last. */
  get estimatedMs(): number {
    const level = this.levels.of(undefined)
    const ready = this.decoding?.estimate(level)
    return this.times.estimatedAnswerMs(
      '',
      1,
      this.levels.rowsAhead(level, ready !== undefined),
      this.instances.serving,
      this.clock.nowMs(),
      ready,
    )
  }

  // ── for the instances ──
  get hasWaiting(): boolean {
    return this.#supply.hasWaiting
  }

  take(idle: boolean, startsInMs: number): Batch | null {
    return this.#supply.take(idle, startsInMs)
  }

  started(batch: Batch): void {
    this.#supply.started(batch)
  }

  takenBack(batch: Batch, threadEnded: boolean): void {
    this.#supply.takenBack(batch, threadEnded)
  }

  finished(batch: FinishedBatch): void {
    const indivisible = indivisibleOutput(this.metadata, batch, this.joining.shaped.needed)
    let divisions: ReturnType<typeof divided> = null
    try {
      if (indivisible === null && this.#divides) divisions = divided(this.metadata, batch)
    } catch (error) {
      return this.#undivided(batch, error as UndividedOutput)
    }
    this.#ended(
      batch,
      indivisible === null ? null : `output '${indivisible}' does not have one entry per row`,
    )
    this.#deaths = 0
    const nowMs = this.clock.nowMs()
    if (this.times.observe(batch, this.waiting + this.running, this.#queue.rows, nowMs))
      this.#queue.resize(this.times.target && batch.requests[0]!.bucketKey)
    if (indivisible === null) {
      if (this.unpredictable.note(batch)) for (const instance of this.instances) instance.forgetLayouts()
      this.#rowCheck?.served(batch.requests)
      this.#answers.answer(batch, nowMs, divisions)
    } else {
      this.joining.refuted(indivisible) // the model cannot be batched after all
      this.#supply.runSingly(batch.requests)
    }
    this.#supply.answered(nowMs)
  }

  /** What a run says of whose its entries are cannot be true: the request that it comes from is looked for, as one that fails a run. */
  #undivided(batch: FinishedBatch, error: UndividedOutput): void {
    this.#ended(batch, error.message)
    this.#deaths = 0
    if (batch.requests.length > 1) {
      this.#warnOfUndivided(error.message)
      this.#retries.bisect(batch)
    } else
      for (const request of batch.requests)
        this.#answers.failed(request, this.#errors.undivided(request, error))
    this.#supply.answered(this.clock.nowMs())
    this.#supply.offerSoon()
  }

  #warnOfUndivided(message: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const text = `A run of model '${this.metadata.name}' could not be divided among its requests, which are run again in halves: ${message}. If that is not one caller's doing, check the option rows of its outputs, or set maxBatchSize to 0.`
    process.emitWarning(text, { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_DIVIDED' })
  }

  failed(batch: Batch, message: string): void {
    this.#ended(batch, message)
    this.#deaths = 0
    if (batch.rerun !== null) this.#retries.afterStop(batch)
    else if (batch.requests.length > 1) this.#retries.bisect(batch)
    else
      for (const request of batch.requests)
        this.#answers.failed(request, this.#errors.failedRun(request, message))
    this.#supply.update()
    this.#supply.offerSoon()
  }

  lost(batch: Batch, reason: string, died: boolean): void {
    this.#ended(batch, reason)
    if (!died) this.#retries.afterStop(batch)
    else
      for (const request of this.#retries.afterDeath(batch))
        this.#answers.failed(request, this.#errors.crashed(request, reason), 'crashed')
    // A suspect that runs alone says nothing new of the model.
    if (!batch.alone && ++this.#deaths >= maxDeaths)
      this.giveUp(`its worker died ${maxDeaths} times in a row, last of: ${reason}`)
    this.#supply.update()
    this.#supply.offerSoon()
  }

  /** An instance is lost for good. */
  abandoned(instance: Instance, reason: string): void {
    this.instances.remove(instance)
    if (this.instances.size === 0) this.giveUp(reason)
    else this.#supply.offerSoon()
  }

  // ── for the queue ──
  dropped(request: InferRequest, why: QueueExit): void {
    if (why === 'timeout') this.#answers.reject(request, 'timeout', this.#errors.timedOut(request))
    else if (why === 'deadline')
      this.#answers.reject(request, 'deadline', this.#admission.hopeless(request, this.clock.nowMs()))
    else if (why === 'closed')
      this.#answers.reject(request, this.#rejectWaiting[0], this.#rejectWaiting[1](request))
    this.#supply.update()
  }

  takeBack(request: InferRequest): boolean {
    if (!this.instances.takeBackBatchOf(request)) return false
    this.#supply.offerSoon()
    return true
  }

  wake(): void {
    this.instances.offer()
  }

  #ended(batch: Batch | FinishedBatch, error: string | null): void {
    this.#supply.ended(batch, error)
    this.stats.closed(batch.reason, batch.isRerun)
  }

  #withdraw(request: InferRequest): void {
    if (!this.#queue.cancel(request, 'cancelled') && !this.#retries.cancel(request))
      this.#stops.unwanted(request)
    this.#supply.update()
  }
}
