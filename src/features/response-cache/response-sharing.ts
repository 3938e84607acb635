import type { Clock } from '../../base/clock.ts'
import type { BatchReport, CheckedOptions, ReportedOutputs } from '../../options/infer-options.ts'
import type { AnyOutputs } from '../../options/model-signature.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { RequestObservation } from '../../observe/request-observer.ts'
import type { ResponseTotals } from '../../observe/model-statistics.ts'
import type { PriorityLevel } from '../../request/priority-levels.ts'
import { InferRequest, type Answer, type ParsedFeeds } from '../../request/infer-request.ts'
import { RequestErrors } from '../../schedule/failures.ts'
import type { Scheduler } from '../../schedule/scheduler.ts'
import { SplitRequest } from '../../schedule/split-request.ts'
import { answerOf } from './answer-of.ts'
import { CallerCounts, failureOf } from './caller-counts.ts'
import { CallerLimits } from './caller-limits.ts'
import { KeptAnswers, type KeptAnswer } from './kept-answers.ts'
import { copyOutputs, isShared, ownFeeds } from './own-copies.ts'
import { cachedReport, coalescedReport } from './reports.ts'
import { RequestKeys } from './request-keys.ts'
import { Settling } from './settling.ts'
import { Caller, SharedRun } from './shared-run.ts'
import { TurnTaking } from './turn-taking.ts'

/** A request that was read and checked. */
export interface Asked {
  readonly feeds: ParsedFeeds
  /** One of more rows is split. */
  readonly maxRows: number
  readonly level: PriorityLevel
  readonly options: CheckedOptions
  /** Told of it with what it is part of, if anybody is; left out for a caller's. */
  readonly parent?: RequestObservation | null
}

/**
 * Answers requests of one loaded model that were asked before, from what was kept or from a run in flight. Everybody gets a copy
 * of their own, and the same as without it, but sooner. What has to be run goes to the scheduler, one request for all callers.
 */
export class ResponseSharing {
  readonly #scheduler: Scheduler
  readonly #clock: Clock
  readonly #errors: RequestErrors
  readonly #latencyTargetMs: number
  readonly #keys: RequestKeys
  /** `null`: nothing is kept. */
  readonly #kept: KeptAnswers | null
  /** By key; `null`: no run is shared. */
  readonly #inFlight: Map<string, SharedRun> | null
  readonly #limits: CallerLimits
  readonly #counts: CallerCounts
  readonly #settling: Settling
  readonly #turns: TurnTaking
  #hits = 0
  #misses = 0
  #coalesced = 0
  #hitMs = 0
  #missMs = 0

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
    this.#limits = new CallerLimits(this.#clock, (caller, nowMs) => this.#expired(caller, nowMs))
    this.#counts = new CallerCounts(scheduler.stats, this.#clock)
    this.#settling = new Settling(config.preserveOrdering)
    this.#turns = new TurnTaking(this.#clock)
  }

  /** For a model that was just loaded; `null` where every request is answered by a run of its own. */
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
        this.#counts.refused()
        return void caller.fail(signal.reason, true)
      }
      this.#settling.accept(caller)
      if (signal !== undefined) caller.listen(signal, () => this.#leave(caller, 'cancelled', signal.reason))
      try {
        this.#answer(caller, asked)
      } catch (error) {
        this.#counts.failed(caller, 'execution') // there is no memory for a copy
        this.#settling.reject(caller, this.#errors.failedRun(caller, (error as Error).message))
      }
    })
  }

  get totals(): ResponseTotals {
    const { evictions, entries, bytes } = this.#kept ?? { evictions: 0, entries: 0, bytes: 0 }
    const counts = {
      hits: this.#hits,
      misses: this.#misses,
      coalesced: this.#coalesced,
      evictions,
      entries,
      bytes,
    }
    return { counts, hitMs: this.#hitMs, missMs: this.#missMs }
  }

  /** Forgets all answers: the model is released. */
  clear(): void {
    this.#kept?.clear()
  }

  #answer(caller: Caller, asked: Asked): void {
    const { feeds, options } = asked
    // What is hashed is what is run: of data that another thread can change, a copy.
    const given = isShared(feeds) ? ownFeeds(feeds) : feeds
    const key = this.#keys.of(given, options.outputs)
    const answer = this.#kept?.get(key)
    if (answer !== undefined) this.#hit(caller, answer)
    else if (!this.#join(caller, key, asked))
      this.#lead(caller, key, { ...asked, feeds: given === feeds ? ownFeeds(feeds) : given })
  }

  #hit(caller: Caller, { outputs, report }: KeptAnswer): void {
    const { enqueuedAtMs } = caller
    const own = answerOf(caller, copyOutputs(outputs), () => cachedReport(report))
    const nowMs = this.#clock.nowMs()
    this.#hits++
    this.#hitMs += nowMs - enqueuedAtMs
    caller.observation?.shared({
      how: 'cached',
      batchId: report.batchId,
      begunAtMs: enqueuedAtMs,
      doneAtMs: nowMs,
    })
    this.#turns.take(() => this.#settling.end(caller, { answer: own, count: () => this.#counts.hit(caller) }))
  }

  /** Has a caller wait for the run of an equal request; false when there is none that it may wait for. */
  #join(caller: Caller, key: string, { options }: Asked): boolean {
    const run = this.#inFlight?.get(key)
    if (run?.admits(caller, options.maxRunMs ?? 0) !== true) return false
    this.#coalesced++
    this.#limit(caller, options)
    run.join(caller)
    // One that has begun is delivered, late or not.
    if (run.waits)
      for (const each of run.callers.size === 2 ? run.callers : [caller]) this.#limits.watch(each)
    return true
  }

  /** Begins a run, for this caller and whoever asks the same until it has ended. */
  #lead(caller: Caller, key: string, { feeds, maxRows, level, options }: Asked): void {
    this.#misses++
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
    this.#inFlight?.set(key, run) // in place of one that waits for longer than this may
    this.#missMs += this.#clock.nowMs() - caller.enqueuedAtMs
    this.#scheduler.submit(run.request, { ...options, signal: undefined })
  }

  /** Notes until when a caller will wait; the queue does so for the run. */
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
      this.#limits.unwatch(caller)
      caller.run = null
      const queuedMs = Math.max(0, begunAtMs - caller.enqueuedAtMs)
      try {
        // Copies are made before what they are copies of is given away.
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
        this.#settling.end(caller, { answer, count: () => this.#counts.answered(caller, run) })
      } catch (error) {
        const reason = this.#errors.failedRun(caller, (error as Error).message) // there is no memory for the copy
        this.#settling.end(caller, { reason, count: () => this.#counts.failed(caller, 'execution') })
      }
    }
  }

  #keep(key: string, outputs: AnyOutputs, report: BatchReport): void {
    if (this.#kept === null) return
    const startMs = this.#clock.nowMs()
    try {
      this.#kept.put(key, outputs, report)
    } catch {
      // There is no memory for the copy: it is run again when it is asked for again.
    }
    this.#missMs += this.#clock.nowMs() - startMs
  }

  #failed(run: SharedRun, reason: unknown): void {
    this.#forget(run)
    const why = failureOf(reason)
    for (const caller of run.callers) {
      this.#limits.unwatch(caller)
      caller.run = null
      const isOther = caller !== run.first && reason instanceof InferenceError
      const own = isOther ? this.#errors.ofOther(reason, run.request, caller) : reason
      const count = () => this.#counts.failed(caller, why)
      if (why === 'execution' || why === 'crashed') this.#settling.end(caller, { reason: own, count }) // a response like any other
      else {
        count()
        this.#settling.reject(caller, own)
      }
    }
  }

  /** A caller's limit has passed while others may go on waiting. */
  #expired(caller: Caller, nowMs: number): void {
    if (caller.run?.waits !== true) return
    const { deadlineAtMs, enqueuedAtMs } = caller
    if (deadlineAtMs === null || deadlineAtMs > nowMs)
      return this.#leave(caller, 'timeout', this.#errors.timedOut(caller))
    const estimatedMs = this.#scheduler.times.bestAnswerMs(caller, nowMs)
    this.#leave(caller, 'deadline', this.#errors.hopeless(caller, deadlineAtMs - enqueuedAtMs, estimatedMs))
  }

  /** Rejects one caller; a run that nobody waits for any more is withdrawn. */
  #leave(caller: Caller, why: RejectionReason, reason: unknown): void {
    const { run } = caller
    this.#limits.unwatch(caller)
    this.#counts.failed(caller, why)
    this.#settling.reject(caller, reason, why === 'cancelled')
    if (run === null || run.leave(caller)) return // it waited for its turn with what it had come to, or others wait on
    this.#forget(run)
    this.#scheduler.cancel(run.request, why, reason)
  }

  #forget(run: SharedRun): void {
    if (this.#inFlight?.get(run.key) === run) this.#inFlight.delete(run.key)
  }
}
