import type { InferenceError } from '../errors.ts'
import { type Clock, InFlight, type KeepAlive } from '../base/clock.ts'
import type { Batch, FinishedBatch } from './batch.ts'
import { InstanceSet, type Instance } from './instance-set.ts'
import { defaultMaxBatchSize, type ModelMetadata } from '../tensor/metadata.ts'
import { RequestQueue, type QueueOwner } from './request-queue.ts'
import { changedInput, lengthsOfOneRow } from '../request/feeds.ts'
import {
  type InferRequest,
  type QueueExit,
  PriorityLevels,
  type PriorityLevel,
} from '../request/infer-request.ts'
import type { ReadyEstimate, Preparation } from '../request/participants.ts'
import { Retries, RunStops, RequestErrors } from './failures.ts'
import type { BatchFacts, ObservedRequests } from './observed-requests.ts'
import type { CheckedOptions } from '../options/infer-options.ts'
import { type ResolvedConfig, batchLimits } from '../options/model-config.ts'
import { type RunTimes, Estimator } from './estimates.ts'
import type { Padding } from '../request/padding.ts'
import type { RequestCosts } from '../request/request-costs.ts'
import type { Joining } from './joining.ts'
import { divided, indivisibleOutput, UnpredictableOutputs } from './scatter.ts'
import type { LeasedRows } from '../native/row-blocks.ts'
import { ModelCounts } from '../observe/model-counts.ts'
import { rejectionOf, type RejectionReason } from '../observe/rejections.ts'
import type { UndividedOutput } from '../request/output-rows.ts'
import { AnswerOrder } from './answer-order.ts'
import { Answers } from './answers.ts'
import { SplitRequest } from './split-request.ts'

/** The options of a call that the scheduler acts on. */
export type SubmitOptions = Pick<CheckedOptions, 'timeoutMs' | 'deadlineMs' | 'maxRunMs' | 'signal'>

/** What makes one batch differ from another when it leaves the queue, or is to be run again. */
type FormedBatch = Pick<Batch, 'requests' | 'takenAtMs' | 'reason' | 'isExclusive' | 'isRerun'>

/** What a {@link Scheduler} is made for. */
export interface ScheduledModel {
  readonly joining: Joining
  /** Watches what is served while that decides whether requests may be joined; else `null`. */
  readonly rowCheck: {
    readonly checked: Promise<void>
    served(requests: readonly InferRequest[]): void
    close(): void
  } | null
  readonly padding: Padding | null
  /** What requests cost; `null` where nothing is said of it. */
  readonly costs: RequestCosts | null
  readonly config: ResolvedConfig
  readonly observed: ObservedRequests
  /** What runs took so far, from a calibration. */
  readonly runTimes: RunTimes
  /** How many instances there will be. */
  readonly instances: number
  readonly clock: Clock
  readonly keepAlive: KeepAlive
  /** The model cannot serve any more. */
  readonly gaveUp: (reason: string) => void
}

/** Of the rows that wait or run, one run on the worker has at most this share: answers and the calls that follow from them are to overlap with it. */
const workerShare = 2 / 3
/** After so many batches a size is tried again that took too long: something else may have held it up. */
const triedEvery = 512
/** The largest load seen counts for so much less with each batch on the worker, as loads become smaller. */
const keptLoad = 0.999
/** Calls of one turn of the event loop that share a reading of the clock: calls without any limit of time ... */
const callsPerReading = 8
/** ... while the last two readings were less than this apart, in milliseconds. */
const quickMs = 0.1

/** Deaths of workers in a row, over runs of this model, after which it is given up. */
const maxDeaths = 3

/** The queue of a model and its instances: forms batches, dispatches them, settles every request exactly once. */
export class Scheduler implements QueueOwner<InferRequest> {
  /** The model as its batches are laid out; what its users see is in {@link joining}. */
  readonly metadata: ModelMetadata
  readonly joining: Joining
  readonly padding: Padding | null
  readonly clock: Clock
  readonly levels: PriorityLevels
  readonly counts = new ModelCounts()
  readonly times: Estimator
  readonly unpredictable: UnpredictableOutputs
  readonly instances: InstanceSet
  readonly observed: ScheduledModel['observed']
  /** What decodes its encoded images; `null` where it takes none. */
  decoding: {
    estimate(level: PriorityLevel, decides: boolean): ReadyEstimate
    estimateAll(): ReadyEstimate
  } | null = null
  /** Holds answers back for those to earlier requests; `null` unless they keep their order. */
  readonly order: AnswerOrder | null
  /** Called when requests or batches came or went; in the middle of things, so it may change nothing there and then. */
  onUpdate: (() => void) | null = null
  readonly #queue: RequestQueue<InferRequest>
  readonly #config: ResolvedConfig
  readonly #errors: RequestErrors
  readonly #costs: RequestCosts | null
  readonly #answers: Answers
  readonly #retries: Retries
  readonly #inFlight: InFlight
  readonly #stops: RunStops
  readonly rowCheck: ScheduledModel['rowCheck']
  readonly keepAlive: KeepAlive
  readonly #gaveUp: (reason: string) => void
  #rejectWaiting: [why: RejectionReason, error: (request: InferRequest) => Error]
  #deaths = 0
  /** Whether outputs have other than one entry per row. */
  readonly #divides: boolean
  #formed = 0
  #runs = 0
  /** Most rows of short runs, where these may have more than others; 0 where they may not. */
  #rowsOfShortRuns = 0
  /** Rows that wait or are on the worker when most are. */
  #loadRows = -0
  /** By input, for {@link changedInput}. */
  readonly #lengthsOfOneRow: readonly number[]
  /** Whether a call without options has no limit of time, and is not kept waiting for others. */
  readonly #isUntimed: boolean
  /** The last reading of the clock for calls, in which turn it was, and for how many more calls of that turn it serves. */
  #calledMs = 0
  #calledTurn = 0
  #callsLeft = 0

  constructor(model: ScheduledModel) {
    const { joining, observed, padding, config, runTimes, instances, clock, keepAlive } = model
    this.joining = joining
    this.observed = observed
    this.metadata = joining.stacked
    this.#lengthsOfOneRow = lengthsOfOneRow(joining.stacked)
    this.padding = padding
    this.#divides = joining.stacked.outputs.some(({ rows }) => rows !== undefined)
    this.unpredictable = new UnpredictableOutputs(joining.shaped.needed, joining.stacked.outputs.length)
    this.clock = clock
    this.levels = new PriorityLevels(config.levels)
    this.#config = config
    this.#costs = model.costs
    this.instances = new InstanceSet(clock)
    this.keepAlive = keepAlive
    this.rowCheck = model.rowCheck
    this.#gaveUp = model.gaveUp
    this.#inFlight = new InFlight(keepAlive)
    this.#errors = new RequestErrors(this.metadata.name, config.rerunAfterCrash)
    this.#rejectWaiting = ['closed', (request) => this.#errors.closed(request)]
    const limits = batchLimits(config, joining.largestBatch)
    this.#isUntimed =
      config.latencyTargetMs === 0 &&
      limits.maxQueueDelayMs === 0 &&
      this.levels.of(undefined).timeoutFor(undefined) === 0
    this.times = new Estimator(runTimes, {
      limits,
      latencyTargetMs: config.latencyTargetMs,
      instances,
      weight: config.weight,
      isCapped: config.autoTune !== null,
      isDivisible: config.sequence?.direct === undefined && config.levels.priorityLevels === 0,
    })
    this.#queue = new RequestQueue<InferRequest>(
      { ...limits, holdUntilQueued: config.holdUntilQueued },
      clock,
      this,
      runTimes,
      this.times.sizer,
    )
    const order = config.preserveOrdering ? new AnswerOrder() : null
    this.order = order
    this.#rowsOfShortRuns = this.times.mayDivide ? joining.rowsOfShortRuns : 0
    this.#answers = new Answers(joining, padding, this.counts, this.#errors, clock, observed, config, order)
    this.#retries = new Retries(config.rerunAfterCrash, this.#answers, this.#errors)
    this.#stops = new RunStops(
      config.maxRunMs,
      { clock, instances: this.instances, answers: this.#answers, errors: this.#errors },
      config.function === null ? 'halves' : 'singly',
    )
  }

  /** Joins requests, those that wait as well, by what is known of the model's rows now. */
  rejoin(): void {
    this.#queue.joinOnly(this.joining.byRow ? this.joining.joinedBuckets : { has: () => false })
    this.#rowsOfShortRuns = this.times.mayDivide ? this.joining.rowsOfShortRuns : 0
    if (this.#rowsOfShortRuns === 0) this.#queue.joinUpTo(0)
  }

  /** Accepts a request, or rejects it at once: its level is full, its deadline out of reach. */
  submit(request: InferRequest, options: SubmitOptions, nowMs = this.#callMs(options)): void {
    const { timeoutMs, deadlineMs = this.#config.latencyTargetMs, maxRunMs, signal } = options
    if (signal?.aborted) {
      this.counts.refused('cancelled')
      return void request.fail(signal.reason, true)
    }
    const refusal = this.#refusal(request, deadlineMs, nowMs)
    if (refusal !== null) return void request.fail(refusal)
    if (deadlineMs > 0) request.deadlineAtMs = nowMs + deadlineMs
    if (signal !== undefined) request.listen(signal, () => this.cancel(request, 'cancelled', signal.reason))
    const waitMs = request.level.timeoutFor(timeoutMs)
    if (waitMs > 0) request.timeoutAtMs = nowMs + waitMs
    if (maxRunMs !== undefined) request.maxRunMs = this.#stops.ownLimitMs(maxRunMs)
    if (request.held) return this.#hold(request, nowMs)
    this.#answers.accept(request)
    if (request.preparation !== null) return this.#prepare(request, request.preparation, nowMs)
    const full =
      request instanceof SplitRequest
        ? request.enqueue(this.#queue, nowMs, (part) => this.#withdraw(part))
        : this.#queue.enqueue(request, nowMs)
    this.#accepted(request, full, nowMs)
  }

  /** When a call has come. Reading the clock takes as long as making the request. */
  #callMs(options: SubmitOptions): number {
    const isPlain = this.#isUntimed && options === this.joining.plainOptions
    const { turn } = this.instances
    if (isPlain && this.#callsLeft > 0 && turn !== 0 && turn === this.#calledTurn) {
      this.#callsLeft--
      return this.#calledMs
    }
    const nowMs = this.clock.nowMs()
    this.#callsLeft = nowMs - this.#calledMs < quickMs ? callsPerReading - 1 : 0
    this.#calledTurn = turn
    return (this.#calledMs = nowMs)
  }

  /** Has a request wait for a batch that was submitted while it was held back. */
  release(request: InferRequest): void {
    this.#answers.accept(request)
    this.#accepted(request, this.#queue.release(request))
  }

  /** A request waits that may not be sent yet. */
  #hold(request: InferRequest, nowMs: number): void {
    this.#queue.hold(request, nowMs)
    this.#update()
  }

  /** A request waits to be sent; `full` when its bucket has become full by it. */
  #accepted(request: InferRequest, full: boolean, nowMs?: number): void {
    this.#update()
    if (this.#queue.hasAhead && this.instances.isOvertakenBy(request)) this.instances.revokePrefetched()
    // A full batch starts at once; otherwise calls of the same turn may still join.
    if (full) this.instances.offer()
    else this.instances.offerSoon(nowMs)
  }

  /**
   * Why a request cannot be accepted, at once rather than after it has waited: it costs too much, its level is full, or its
   * deadline is out of reach. `null` when it can.
   *
   * @param deadlineMs 0 for none.
   */
  #refusal(request: InferRequest, deadlineMs: number, nowMs: number): InferenceError | null {
    const { level, rows } = request
    if (this.#costs !== null) {
      const tooDear = this.#weigh(request, this.#costs)
      if (tooDear !== null) return tooDear
    }
    this.times.arrived(rows, nowMs)
    if (level.full) {
      this.#countRejected(request, 'queueFull')
      return this.queueFull(request)
    }
    return deadlineMs === 0 ? null : this.#missed(request, deadlineMs, nowMs)
  }

  /** Why a request would be answered too late; `null` when it would not. */
  #missed(request: InferRequest, deadlineMs: number, nowMs: number): InferenceError | null {
    const { level, bucketKey, rows, preparation } = request
    // One that is split is answered with its last part, which waits behind the others.
    const last = request instanceof SplitRequest ? request.parts.at(-1)! : request
    const own = preparation?.estimate(level)
    const estimatedMs = this.#answerMs(level, bucketKey, last.rows, rows - last.rows, nowMs, own, true)
    if (estimatedMs <= deadlineMs) return null
    this.#countRejected(request, 'deadline')
    return this.#errors.hopeless(request, deadlineMs, estimatedMs)
  }

  /** Notes what a request costs, or each part of it; returns why it is refused. What is not ready is to be weighed when it is. */
  #weigh(request: InferRequest, costs: RequestCosts): InferenceError | null {
    if (request.preparation !== null) return null
    for (const part of request instanceof SplitRequest ? request.parts : [request]) {
      const refusal = costs.weigh(part)
      if (refusal === null) continue
      if (request.account === null) this.counts.refused('invalid')
      return refusal
    }
    return null
  }

  #countRejected({ account }: InferRequest, why: RejectionReason): void {
    if (account === null) this.counts.failed(why, 0)
  }

  /** Notes that requests or batches came or went. */
  #update(): void {
    this.#inFlight.update(this.waiting)
    if (this.onUpdate !== null) this.onUpdate()
  }

  /** Has the inputs of a request made that it has not yet; meanwhile it waits like any other, and keeps none of them waiting. */
  #prepare(request: InferRequest, preparation: Preparation, nowMs: number): void {
    request.unready = true
    this.#hold(request, nowMs)
    preparation.begin(request, {
      begins: (readyInMs) => !this.#queue.expires(request, readyInMs),
      ready: (leased) => this.#ready(request, leased),
      failed: (error) => this.#unprepared(request, error),
    })
  }

  #ready(request: InferRequest, leased: LeasedRows | null): void {
    request.leased = leased
    if (request.observation !== null) this.#observeDecoded(request, request.preparation!)
    request.preparation = null
    const refusal = this.#costs === null ? null : this.#weigh(request, this.#costs)
    if (refusal !== null) return this.#unprepared(request, refusal)
    this.#accepted(request, this.#queue.ready(request, this.clock.nowMs()))
  }

  #observeDecoded({ observation, data }: InferRequest, { sources }: Preparation): void {
    observation!.decoded?.(new Map([...sources.keys()].map((index) => [index, data[index]])))
  }

  #unprepared(request: InferRequest, error: unknown): void {
    this.#answers.reject(request, rejectionOf(error), error)
    this.#withdraw(request)
  }

  /** Rejects a request whose caller wants no answer any more, whether it waits or runs. */
  cancel(request: InferRequest, why: RejectionReason, reason: unknown): void {
    this.#answers.reject(request, why, reason)
    this.#withdraw(request)
  }

  #withdraw(request: InferRequest): void {
    if (!this.#queue.cancel(request, 'cancelled') && !this.#retries.cancel(request))
      this.#stops.unwanted(request)
    this.#update()
  }

  /** Answers have been given at `nowMs`, by this model or one before it in a pipeline. */
  answered(nowMs: number): void {
    this.#callsLeft = 0
    this.instances.answered(nowMs)
    this.#update()
  }

  /**
   * Lets the next batch have 64, 128 or 256 rows if its run is estimated to take at most `mostMs` milliseconds, 0 for none.
   *
   * @param besideRows rows that the worker was given and are not answered yet, where it gets this batch as well: {@link workerShare} of
   * all, as runs and what their answers bring are to overlap. `Infinity` where the batch may be inline.
   * @param idle whether the instance would start it at once.
   */
  chooseRows(mostMs: number, besideRows: number, idle: boolean): void {
    if (this.#rowsOfShortRuns === 0) return
    // Leased rows are run where they were written, 32 at most, and of a run that may have to be stopped less is lost.
    const isAllowed = mostMs > 0 && !this.#stops.limited && this.instances.rowBlocks === null
    const waitingRows = this.#queue.rows
    let [most, comingRows] = [this.#rowsOfShortRuns, waitingRows]
    if (besideRows !== Infinity) {
      this.#loadRows = Math.max(waitingRows + besideRows, this.#loadRows * keptLoad)
      comingRows = this.#loadRows / keptLoad ** 8 - besideRows
      most = Math.min(most, this.#loadRows * workerShare)
    }
    // A busy instance takes a full batch only: it is not to wait for more rows than can come meanwhile.
    if (!idle) most = Math.min(most, comingRows)
    let rows = 0
    if (isAllowed && most >= 2 * defaultMaxBatchSize) {
      // A size is estimated from the one in use, in proportion to rows, and by its own last runs. As these may be long ago and may have been
      // held up, now and then they do not count.
      const times = this.times.runTimes.of('')
      const usedRows = this.#queue.mostRows || defaultMaxBatchSize
      const rowMs = times.presentMs(usedRows) / usedRows || Infinity
      const isTry = this.#formed % triedEvery === triedEvery - 1
      for (let next = 2 * defaultMaxBatchSize; next <= most && next * rowMs <= mostMs; next *= 2)
        if (isTry || times.presentMs(next) <= mostMs) rows = next
    }
    this.#queue.joinUpTo((this.times.rowsOfShortRuns = rows))
  }

  /** Batches are to have another size than before. */
  resized(): void {
    this.#queue.resize()
    this.instances.offerSoon()
  }

  /** Resolves when nothing waits and nothing runs. */
  drained(): Promise<void> {
    this.#queue.drain()
    this.instances.offer()
    return this.#inFlight.drained()
  }

  /** Rejects what waits; what runs goes on. */
  rejectWaiting(): void {
    this.instances.revokePrefetched()
    const [why, error] = this.#rejectWaiting
    for (const request of this.#retries.clear()) this.#answers.reject(request, why, error(request))
    this.#queue.clear('closed')
    this.#update()
  }

  /** Rejects all that was accepted, and stops what runs. */
  destroy(): void {
    this.instances.revokePrefetched()
    // One that waits may have come before one that runs.
    for (const request of this.order?.awaited ?? [])
      this.#answers.reject(request, 'closed', this.#errors.closed(request))
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
    return this.#queue.count + this.#retries.count
  }

  /** The same, and those that have ended and are held back for their order. */
  get pending(): number {
    return this.waiting + (this.order?.held ?? 0)
  }

  /** Whether requests wait that are not on their way. */
  get hasWaiting(): boolean {
    return this.#queue.hasUnsent || this.#retries.count > 0
  }

  /** Whether what goes first is to be on its worker alone. */
  get nextIsAlone(): boolean {
    return this.#retries.nextIsAlone
  }

  /** When the request that has waited longest became ready, in a prefetched batch or in none; `Infinity` for none. */
  get oldestAtMs(): number {
    return Math.min(this.#queue.oldestAtMs, this.instances.oldestAheadMs)
  }

  /** Batches that run. */
  get running(): number {
    return this.#inFlight.running
  }

  /** Estimated milliseconds to the answer of a request that comes now, to decide about admission; 0 if no such run is known. */
  estimatedAnswerMs(bucketKey: string, rows: number, priority?: number): number {
    return this.#answerMs(this.levels.of(priority), bucketKey, rows, 0, this.clock.nowMs(), undefined, true)
  }

  /**
   * @param before rows of the same request that run before these.
   * @param own when its inputs will be there; left out where they are.
   * @param decides whether the estimate decides about admission.
   */
  #answerMs(
    level: PriorityLevel,
    bucketKey: string,
    rows: number,
    before: number,
    nowMs: number,
    own: ReadyEstimate | undefined,
    decides: boolean,
  ): number {
    // Where answers keep their order, it has to wait for the inputs of all before it.
    const all = this.order !== null && level.unreadyRows > 0 ? this.decoding?.estimateAll() : undefined
    const ready = all !== undefined && all.inMs > (own?.inMs ?? 0) ? all : own
    const rowsAhead = this.levels.rowsAhead(level, ready !== undefined) + before
    const { serving } = this.instances
    return this.times.estimatedAnswerMs(bucketKey, rows, rowsAhead, serving, nowMs, ready, decides)
  }

  /** The same of a request of one row and the default level; where the model takes encoded images, of one with images like the last. */
  get estimatedMs(): number {
    const level = this.levels.of(undefined)
    const ready = this.decoding?.estimate(level, false)
    return this.#answerMs(level, '', 1, 0, this.clock.nowMs(), ready, false)
  }

  // ── for the instances ──

  /**
   * The next batch for an instance, or `null`.
   *
   * @param startsInMs when a busy instance will be able to start it.
   */
  nextBatch(idle: boolean, startsInMs: number): Batch | null {
    // What waits to be run again goes first, as soon as an instance is idle.
    if (this.#retries.count > 0 && !idle) return null
    // From here on it is in flight: refusing some of its requests must not let the model look drained.
    if (idle) this.#inFlight.running++
    const batch = (this.#retries.count > 0 ? this.#retry() : null) ?? this.#form(idle, startsInMs)
    if (batch !== null) {
      if (idle) this.#begins(batch)
      return batch
    }
    if (idle) this.#inFlight.running--
    this.#update()
    return null
  }

  #retry(): Batch | null {
    for (let retry = this.#retries.take(); retry !== null; retry = this.#retries.take()) {
      const requests = this.#unchanged(retry.requests)
      if (requests.length > 0)
        return this.#batch({ ...retry, requests, takenAtMs: this.clock.nowMs(), isRerun: true }, true)
    }
    return null
  }

  #form(idle: boolean, startsInMs: number): Batch | null {
    // An idle instance takes what was prefetched for a busy one.
    if (idle && this.instances.size > 1) this.instances.revokePrefetched()
    for (
      let formed = this.#queue.take(idle, startsInMs);
      formed !== null;
      formed = this.#queue.take(idle, startsInMs)
    ) {
      const requests = this.#unchanged(formed.entries)
      const { takenAtMs, reason } = formed
      if (requests.length > 0)
        return this.#batch({ requests, takenAtMs, reason, isExclusive: false, isRerun: false }, idle)
    }
    return null
  }

  /** @param starts whether it is run at once, or else prefetched. */
  #batch({ requests, takenAtMs, reason, isExclusive, isRerun }: FormedBatch, starts: boolean): Batch {
    return {
      formed: ++this.#formed,
      id: starts ? ++this.#runs : 0,
      place: null,
      requests,
      takenAtMs,
      reason,
      isExclusive,
      isRerun,
      ahead: !starts,
      limited: false,
      rerun: null,
    }
  }

  /** Rejects requests whose data was changed since they were checked, and gives the others. */
  #unchanged(requests: readonly InferRequest[]): readonly InferRequest[] {
    let refused = 0
    for (const request of requests) {
      const error = changedInput(this.metadata, this.#lengthsOfOneRow, request)
      if (error === null) continue
      refused++
      this.#queue.started([request])
      this.#answers.reject(request, 'changed', error)
    }
    return refused === 0 ? requests : requests.filter(({ settled }) => !settled)
  }

  /** A prefetched batch runs from now on, as far as can be told. */
  started(batch: Batch): void {
    batch.ahead = false
    batch.id = ++this.#runs
    this.#inFlight.running++
    this.#queue.started(batch.requests)
    this.#begins(batch)
  }

  #begins(batch: Batch): void {
    if (this.#stops.limited) this.#stops.started(batch)
    if (this.observed.by.observer !== null) this.observed.batchBegan(batch)
  }

  /** A batch comes back that has not started: it was revoked, or its thread has ended. */
  revoked(batch: Batch, threadEnded: boolean): void {
    if (threadEnded) this.instances.offerSoon() // to others
    for (const request of batch.requests) request.attempts--
    // One that was settled while it was prefetched is still counted by the queue, and is taken out of it now.
    const waiting = batch.ahead ? batch.requests : batch.requests.filter(({ settled }) => !settled)
    if (!batch.ahead) this.#runsNoMore(batch, 'its thread ended before it had begun')
    batch.ahead = false
    if (batch.isRerun) this.#retries.putBack({ ...batch, requests: waiting })
    else this.#queue.putBack(waiting)
    this.#update()
  }

  finished(batch: FinishedBatch): void {
    const indivisible =
      batch.mailed === null ? null : indivisibleOutput(this.metadata, batch, this.joining.shaped.needed)
    let divisions: ReturnType<typeof divided> = null
    try {
      if (indivisible === null && this.#divides) divisions = divided(this.metadata, batch)
    } catch (error) {
      return this.#undivided(batch, error as UndividedOutput)
    }
    const error = indivisible === null ? null : `output '${indivisible}' does not have one entry per row`
    this.#ended(batch, error)
    this.#deaths = 0
    const nowMs = this.clock.nowMs()
    if (this.times.observe(batch, this.waiting + this.running, this.#queue.rows, nowMs))
      this.#queue.resize(this.times.target && batch.requests[0]!.bucketKey)
    if (indivisible === null) {
      if (batch.mailed !== null && this.unpredictable.note(batch))
        for (const instance of this.instances) instance.forgetLayouts()
      this.rowCheck?.served(batch.requests)
      this.#answers.answer(batch, nowMs, divisions)
    } else {
      this.joining.refuted(indivisible) // the model cannot be batched after all
      this.#runSingly(batch.requests)
    }
    this.answered(nowMs)
  }

  #ended(batch: Batch | FinishedBatch, error: string | null): void {
    this.#runsNoMore(batch, error)
    this.counts.closed(batch.reason, batch.isRerun)
  }

  /**
   * A batch that had started runs no more, however it ended.
   *
   * @param error why it failed; `null` where it has run.
   */
  #runsNoMore(batch: BatchFacts, error: string | null): void {
    this.#inFlight.running--
    if (this.#stops.limited) this.#stops.ended(batch)
    if (error !== null && this.observed.by.observer !== null)
      this.observed.batchFailed(batch, error, this.clock.nowMs())
  }

  /** Has requests wait again, and from now on runs each by itself. */
  #runSingly(requests: readonly InferRequest[]): void {
    this.#queue.stopJoining()
    for (const { turn } of requests) turn?.leaveSlot()
    this.#queue.requeue(requests.filter(({ settled }) => !settled))
  }

  #undivided(batch: FinishedBatch, error: UndividedOutput): void {
    this.#ended(batch, error.message)
    this.#deaths = 0
    this.#retries.undivided(batch, error)
    this.answered(this.clock.nowMs())
    this.instances.offerSoon()
  }

  failed(batch: Batch, message: string): void {
    this.#ended(batch, message)
    this.#deaths = 0
    this.#retries.failed(batch, message)
    this.#update()
    this.instances.offerSoon()
  }

  lost(batch: Batch, reason: string, died: boolean): void {
    this.#ended(batch, reason)
    this.#retries.lost(batch, reason, died)
    // A suspect that runs alone says nothing new of the model.
    if (!batch.isExclusive && ++this.#deaths >= maxDeaths)
      this.giveUp(`its worker died ${maxDeaths} times in a row, last of: ${reason}`)
    this.#update()
    this.instances.offerSoon()
  }

  /** An instance is lost for good. */
  abandoned(instance: Instance, reason: string): void {
    this.instances.remove(instance)
    if (this.instances.size === 0) this.giveUp(reason)
    else this.instances.offerSoon()
  }

  // ── for the queue ──

  dropped(request: InferRequest, why: QueueExit): void {
    // What was cancelled is settled already.
    if (why !== 'cancelled') this.#answers.reject(request, ...this.#exit(request, why))
    this.#update()
  }

  #exit(request: InferRequest, why: Exclude<QueueExit, 'cancelled'>): [RejectionReason, Error] {
    switch (why) {
      case 'timeout':
        return ['timeout', this.#errors.timedOut(request)]
      case 'deadline':
        return ['deadline', this.hopeless(request)]
      case 'closed':
        return [this.#rejectWaiting[0], this.#rejectWaiting[1](request)]
    }
  }

  /** The error of a request whose level is full. */
  queueFull(request: InferRequest): InferenceError {
    const { level } = request
    const retryAfterMs = Math.max(1, Math.ceil(level.waiting * this.times.throughput.msPerRequest))
    return this.#errors.queueFull(request, level.policy.maxQueueSize, retryAfterMs)
  }

  /** The error of a waiting request whose deadline cannot be met any more. */
  hopeless(request: InferRequest): InferenceError {
    const limitMs = request.deadlineAtMs! - request.enqueuedAtMs
    return this.#errors.hopeless(request, limitMs, this.times.bestAnswerMs(request, this.clock.nowMs()))
  }

  revoke(request: InferRequest): boolean {
    if (!this.instances.revokeBatchOf(request)) return false
    this.instances.offerSoon()
    return true
  }

  wake(): void {
    this.instances.offer()
  }
}
