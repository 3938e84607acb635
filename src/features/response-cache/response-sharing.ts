import { type Clock, Alarm, nextTurn } from '../../base/clock.ts'
import type { BatchReport, CheckedOptions, ReportedOutputs } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { type RejectionReason, rejectionOf } from '../../observe/rejections.ts'
import type { RequestObservation } from '../../observe/request-observer.ts'
import type { ResponseTotals } from '../../observe/model-statistics.ts'
import {
  type PriorityLevel,
  InferRequest,
  type Answer,
  type ParsedFeeds,
  expiresAtMs,
} from '../../request/infer-request.ts'
import type { RunAccount } from '../../request/participants.ts'
import { RequestErrors } from '../../schedule/failures.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { SplitRequest } from '../../schedule/split-request.ts'
import {
  KeptAnswers,
  type KeptAnswer,
  copyOutputs,
  isShared,
  ownFeeds,
  cachedReport,
  coalescedReport,
} from './kept-answers.ts'
import { RequestKeys } from './request-keys.ts'
import type { BatchTimes } from '../../observe/model-counts.ts'
import { Expiries } from '../../schedule/expiries.ts'
import { type AnswerOrder, settle, type HeldOutcome } from '../../schedule/answer-order.ts'

/** A parsed and checked request. */
interface Asked {
  readonly feeds: ParsedFeeds
  /** A request with more rows is split. */
  readonly maxRows: number
  readonly level: PriorityLevel
  readonly options: CheckedOptions
  /** The observation of the request that it belongs to, if any; left out for a caller's request. */
  readonly parent?: RequestObservation | null
}

/**
 * Answers repeated requests of one loaded model from the cache, or from an equal request in flight. Each
 * caller gets its own copy; the answer is the same as without sharing. What has to run goes to the scheduler,
 * as one request for all of its callers.
 */
export class ResponseSharing {
  readonly #scheduler: Scheduler
  readonly #clock: Clock
  readonly #errors: RequestErrors
  readonly #latencyTargetMs: number
  readonly #keys: RequestKeys
  /** `null`: nothing is cached. */
  readonly #kept: KeptAnswers | null
  /** By key; `null`: runs are not shared. */
  readonly #inFlight: Map<string, SharedRun> | null
  /** Callers that share a run, by their timeouts and deadlines, which the queue does not know. */
  readonly #expiries = new Expiries<Caller>()
  readonly #alarm: Alarm
  /** `null` unless answers keep the order of arrival. */
  readonly #order: AnswerOrder | null
  /** Since when answers without a run follow each other in this turn of the event loop; `null` before the first. */
  #turnSinceMs: number | null = null
  readonly #counted = { hits: 0, misses: 0, coalesced: 0, hitMs: 0, missMs: 0 }

  private constructor(
    scheduler: Scheduler,
    config: ResolvedConfig,
    { maxBytes, coalesce }: NonNullable<ResolvedConfig['responses']>,
  ) {
    this.#scheduler = scheduler
    this.#clock = scheduler.clock
    this.#errors = new RequestErrors(scheduler.metadata.name, config.rerunAfterCrash)
    this.#latencyTargetMs = config.latencyTargetMs
    this.#keys = new RequestKeys(scheduler.metadata, config.version)
    this.#kept = maxBytes > 0 ? new KeptAnswers(maxBytes) : null
    this.#inFlight = coalesce ? new Map() : null
    this.#alarm = new Alarm(this.#clock, () => this.#expire())
    this.#order = scheduler.order
  }

  /** For a newly loaded model; `null` if every request has its own run. */
  static of(scheduler: Scheduler, config: ResolvedConfig): ResponseSharing | null {
    return config.responses === null ? null : new ResponseSharing(scheduler, config, config.responses)
  }

  infer(asked: Asked): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { feeds, level, options } = asked
      const { signal } = options
      const caller = new Caller(feeds, level, options, resolve, reject)
      caller.isCall = true
      caller.enqueuedAtMs = this.#clock.nowMs()
      if (this.#scheduler.observed.by.observer !== null)
        this.#scheduler.observed.begun(caller, options, caller.enqueuedAtMs, asked.parent)
      if (signal?.aborted) {
        this.#scheduler.counts.refused('cancelled')
        return void caller.fail(signal.reason, true)
      }
      this.#order?.accept(caller)
      if (signal !== undefined) caller.listen(signal, () => this.#leave(caller, 'cancelled', signal.reason))
      try {
        this.#answer(caller, asked)
      } catch (error) {
        this.#countFailure(caller, 'execution') // out of memory for a copy
        this.#reject(caller, this.#errors.failedRun(caller, (error as Error).message))
      }
    })
  }

  get totals(): ResponseTotals {
    const { evictions, entries, bytes } = this.#kept ?? { evictions: 0, entries: 0, bytes: 0 }
    const { hitMs, missMs, ...counts } = this.#counted
    return { counts: { ...counts, evictions, entries, bytes }, hitMs, missMs }
  }

  /** Clears the cache: the model is released. */
  clear(): void {
    this.#kept?.clear()
  }

  #answer(caller: Caller, asked: Asked): void {
    const { feeds, options } = asked
    // Hash the data that is run: if another thread could change it, a copy of it.
    const given = isShared(feeds) ? ownFeeds(feeds) : feeds
    const key = this.#keys.of(given, options.outputs)
    const answer = this.#kept?.get(key)
    if (answer !== undefined) this.#hit(caller, answer)
    else if (!this.#join(caller, key, asked))
      this.#lead(caller, key, { ...asked, feeds: given === feeds ? ownFeeds(feeds) : given })
  }

  #hit(caller: Caller, { outputs, report }: KeptAnswer): void {
    const { enqueuedAtMs, level } = caller
    this.#counted.hits++
    if (this.#order !== null && level.full && !this.#order.isNext(caller)) {
      this.#countFailure(caller, 'queueFull')
      return this.#reject(caller, this.#scheduler.queueFull(caller))
    }
    const own = answerOf(caller, copyOutputs(outputs), () => cachedReport(report))
    const nowMs = this.#clock.nowMs()
    this.#counted.hitMs += nowMs - enqueuedAtMs
    caller.observation?.shared({
      how: 'cached',
      batchId: report.batchId,
      begunAtMs: enqueuedAtMs,
      doneAtMs: nowMs,
    })
    const count = () =>
      this.#scheduler.counts.answeredWithoutRun(enqueuedAtMs, enqueuedAtMs, this.#clock.nowMs())
    this.#inTurn(() => this.#end(caller, { answer: own, count }))
  }

  /** Lets a caller wait for the run of an equal request; false if there is none that it may join. */
  #join(caller: Caller, key: string, { options }: Asked): boolean {
    const run = this.#inFlight?.get(key)
    if (run?.admits(caller, options.maxRunMs ?? 0) !== true) return false
    this.#counted.coalesced++
    this.#limit(caller, options)
    run.join(caller)
    // A run that has begun is delivered, late or not.
    if (run.waits) for (const each of run.callers.size === 2 ? run.callers : [caller]) this.#watch(each)
    return true
  }

  /** Begins a run for this caller and for later ones with an equal request, until it ends. */
  #lead(caller: Caller, key: string, { feeds, maxRows, level, options }: Asked): void {
    this.#counted.misses++
    this.#limit(caller, options)
    const run = new SharedRun(key, caller)
    const answered = (answer: Answer) => this.#answered(run, answer as ReportedOutputs<AnyOutputs>)
    const failed = (reason: unknown) => this.#failed(run, reason)
    const { metadata } = this.#scheduler
    const reported = { ...options, report: true }
    run.request =
      feeds.rows > maxRows
        ? new SplitRequest(metadata, feeds, maxRows, level, reported, answered, failed)
        : new InferRequest(feeds, level, reported, answered, failed)
    run.request.account = run
    run.request.observation = caller.observation
    this.#inFlight?.set(key, run) // replaces one that waits longer than this one may
    this.#counted.missMs += this.#clock.nowMs() - caller.enqueuedAtMs
    this.#scheduler.submit(run.request, { ...options, signal: undefined })
  }

  /** Notes until when a caller waits; the queue does so for the run. */
  #limit(caller: Caller, { timeoutMs, deadlineMs = this.#latencyTargetMs }: CheckedOptions): void {
    const { level, enqueuedAtMs } = caller
    const waitMs = level.policy.timeoutAction === 'REJECT' ? level.timeoutFor(timeoutMs) : 0
    if (waitMs > 0) caller.timeoutAtMs = enqueuedAtMs + waitMs
    if (deadlineMs > 0) caller.deadlineAtMs = enqueuedAtMs + deadlineMs
  }

  #answered(run: SharedRun, { outputs, report }: ReportedOutputs<AnyOutputs>): void {
    this.#forget(run)
    this.#keep(run.key, outputs, report)
    const begunAtMs = run.request.enqueuedAtMs + report.queuedMs
    let left = run.callers.size
    for (const caller of run.callers) {
      this.#unwatch(caller)
      caller.run = null
      const queuedMs = Math.max(0, begunAtMs - caller.enqueuedAtMs)
      try {
        // Make the copies before giving away the original.
        const own = --left > 0 ? copyOutputs(outputs) : outputs
        const answer = answerOf(caller, own, () =>
          caller === run.first ? report : coalescedReport(report, queuedMs),
        )
        if (caller !== run.first)
          caller.observation?.shared({
            how: 'coalesced',
            batchId: report.batchId,
            begunAtMs: caller.enqueuedAtMs + queuedMs,
            doneAtMs: this.#clock.nowMs(),
          })
        this.#end(caller, { answer, count: () => this.#countAnswer(caller, run) })
      } catch (error) {
        const reason = this.#errors.failedRun(caller, (error as Error).message) // out of memory for the copy
        this.#end(caller, { reason, count: () => this.#countFailure(caller, 'execution') })
      }
    }
  }

  #keep(key: string, outputs: AnyOutputs, report: BatchReport): void {
    if (this.#kept === null) return
    const startMs = this.#clock.nowMs()
    try {
      this.#kept.put(key, outputs, report)
    } catch {
      // Out of memory for the copy: the next equal request runs again.
    }
    this.#counted.missMs += this.#clock.nowMs() - startMs
  }

  #failed(run: SharedRun, reason: unknown): void {
    this.#forget(run)
    const why = reasonOfFailedRun(reason)
    for (const caller of run.callers) {
      this.#unwatch(caller)
      caller.run = null
      const isOther = caller !== run.first && reason instanceof InferenceError
      const own = isOther ? this.#errors.ofOther(reason, run.request, caller) : reason
      const count = () => this.#countFailure(caller, why)
      if (why === 'execution' || why === 'crashed') this.#end(caller, { reason: own, count }) // a response like any other
      else {
        count()
        this.#reject(caller, own)
      }
    }
  }

  /** A caller's limit has passed; others may still wait. */
  #expired(caller: Caller, nowMs: number): void {
    if (caller.run?.waits !== true) return
    if (caller.deadlineAtMs === null || caller.deadlineAtMs > nowMs)
      this.#leave(caller, 'timeout', this.#errors.timedOut(caller))
    else this.#leave(caller, 'deadline', this.#scheduler.hopeless(caller))
  }

  /** Rejects one caller. A run without callers is cancelled. */
  #leave(caller: Caller, why: RejectionReason, reason: unknown): void {
    const { run } = caller
    this.#unwatch(caller)
    this.#countFailure(caller, why)
    this.#reject(caller, reason, why === 'cancelled')
    if (run === null || run.leave(caller)) return // had its answer, or others remain
    this.#forget(run)
    this.#scheduler.cancel(run.request, why, reason)
  }

  #forget(run: SharedRun): void {
    if (this.#inFlight?.get(run.key) === run) this.#inFlight.delete(run.key)
  }

  /** Watches the limit of a caller, if it has one. */
  #watch(caller: Caller): void {
    const atMs = expiresAtMs(caller)
    if (atMs === Infinity || caller.expirySlot !== null) return
    this.#expiries.push(caller, atMs, this.#clock.nowMs())
    this.#alarm.set(atMs)
  }

  #unwatch(caller: Caller): void {
    if (caller.expirySlot === null) return
    this.#expiries.remove(caller)
    if (this.#expiries.size === 0) this.#alarm.clear()
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs()
    for (const caller of this.#expiries.takeDue(nowMs)) this.#expired(caller, nowMs)
    this.#alarm.set(this.#expiries.nextAtMs)
  }

  /** Settles a caller now or, if answers keep the order of arrival, at its turn. */
  #end(caller: Caller, outcome: HeldOutcome): void {
    if (caller.settled) return // cancelled meanwhile
    if (this.#order === null) settle(caller, outcome)
    else this.#order.ended(caller, outcome)
  }

  /** Rejects a caller at once, whatever came before it. */
  #reject(caller: Caller, reason: unknown, isWithdrawn = false): void {
    caller.fail(reason, isWithdrawn)
    this.#order?.left(caller)
  }

  /** The times of a run are charged to the first caller that is answered; for the others they are zero. */
  #countAnswer({ enqueuedAtMs }: Caller, run: SharedRun): void {
    const { begunAtMs, times } = run
    const { counts } = this.#scheduler
    run.times = null
    if (times === null)
      counts.answeredWithoutRun(enqueuedAtMs, Math.max(enqueuedAtMs, begunAtMs), this.#clock.nowMs())
    else counts.answered(enqueuedAtMs, begunAtMs, times, this.#clock.nowMs())
  }

  #countFailure({ enqueuedAtMs }: Caller, why: RejectionReason): void {
    this.#scheduler.counts.failed(why, this.#clock.nowMs() - enqueuedAtMs)
  }

  /**
   * Calls `answer` now, or after a turn of the event loop. A chain of calls that are all answered from the cache, each
   * made after the answer before, would otherwise block everything else in the process.
   */
  #inTurn(answer: () => void): void {
    const nowMs = this.#clock.nowMs()
    if (this.#turnSinceMs === null) {
      this.#turnSinceMs = nowMs
      nextTurn(() => (this.#turnSinceMs = null))
    }
    if (nowMs - this.#turnSinceMs < stretchMs) answer()
    else nextTurn(answer)
  }
}

/** How long answers without a run may follow each other before the event loop gets its turn, in milliseconds. */
const stretchMs = 0.5

/** One `infer()` of a model with shared answers. It waits for a run, and is not in a queue itself. */
class Caller extends InferRequest {
  /** The run that it waits for; `null` before that, and when the run has ended. */
  run: SharedRun | null = null
}

/** A run that any number of equal requests wait for. */
class SharedRun implements RunAccount {
  readonly key: string
  /** The caller that it was begun for. It may have left. */
  readonly first: Caller
  readonly callers = new Set<Caller>()
  /** The times of the finished run. They are charged to one caller, then set to `null`. */
  times: BatchTimes | null = null
  begunAtMs = 0
  /**
   * The scheduler's request for the run. It has no caller of its own; its limits are those of the caller that
   * waits longest.
   */
  request!: InferRequest

  constructor(key: string, first: Caller) {
    this.key = key
    this.first = first
    this.#take(first)
  }

  ran(begunAtMs: number, times: BatchTimes): void {
    this.begunAtMs = begunAtMs
    this.times = times
  }

  /** Whether some part of it has yet to begin. */
  get waits(): boolean {
    return this.#requests.some(({ line, ahead, held }) => line !== null || ahead || held)
  }

  /**
   * Whether another request may join. It may not if its own run would begin earlier, or has another limit of
   * its duration.
   *
   * @param maxRunMs of the other request; 0 for none.
   */
  admits({ level }: Caller, maxRunMs: number): boolean {
    const { request } = this
    if (request.maxRunMs !== maxRunMs) return false
    return (
      !this.waits || (request.level.level <= level.level && !this.#requests.some(({ delayed }) => delayed))
    )
  }

  /** Adds a caller. The run may have to wait longer for it. */
  join(caller: Caller): void {
    this.#take(caller)
    for (const request of this.#requests) {
      request.timeoutAtMs = later(request.timeoutAtMs, caller.timeoutAtMs)
      request.deadlineAtMs = later(request.deadlineAtMs, caller.deadlineAtMs)
    }
  }

  /** Removes a caller; returns whether others remain. */
  leave(caller: Caller): boolean {
    caller.run = null
    this.callers.delete(caller)
    return this.callers.size > 0
  }

  #take(caller: Caller): void {
    caller.run = this
    this.callers.add(caller)
  }

  /** Its requests in the queue: itself, or its parts if it was split. */
  get #requests(): readonly InferRequest[] {
    return this.request instanceof SplitRequest ? [this.request, ...this.request.parts] : [this.request]
  }
}

/** The later of two times; `null` means never. */
function later(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.max(a, b)
}

/** Why a run has failed. It has only the inputs that all its callers share, and no signal. */
function reasonOfFailedRun(reason: unknown): RejectionReason {
  const found = rejectionOf(reason)
  return found === 'invalid' ? 'changed' : found
}

/** Outputs in the form that a request asked for: with a report, or without. */
function answerOf({ wanted }: InferRequest, outputs: AnyOutputs, report: () => BatchReport): Answer {
  return wanted.report ? { outputs, report: report() } : outputs
}
