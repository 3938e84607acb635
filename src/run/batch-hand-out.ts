import type { Clock } from '../base/clock.ts'
import type { Executor, MailedOutputs, RowFailures, RunTimestamps } from './executors/executor.ts'
import type { BatchSource, PreparedBatch } from './batch-source.ts'
import type { InlineBudget } from './inline-budget.ts'
import { StopLimit, type Stoppable } from './stop-limit.ts'
import { WorkerTasks } from './worker-tasks.ts'
import { WorkerTime } from './worker-time.ts'

/** From what a batch is reckoned to take on, it is taken back for a source that has just got work. */
const yieldsFromMs = 1

/**
 * The one loop that decides what a worker is given: as long as there is room, it asks whose turn it is for a batch.
 * Sources share the thread by measured milliseconds and weight; tasks are done in turns with batches.
 */
export class BatchHandOut {
  readonly time: WorkerTime
  readonly #clock: Clock
  readonly tasks = new WorkerTasks()
  readonly #submitted: () => void
  readonly #stops: StopLimit
  readonly #inline: InlineBudget | null
  /** The thread that serves, or did last; `null` before the first. */
  #executor: Executor | null = null
  #serving = false
  /** Sources that had nothing for this worker while it was busy, and may have once it is idle. */
  readonly #forIdle = new Set<BatchSource>()
  #running = false
  #again = false

  /**
   * @param submitted told of each batch that is handed over.
   * @param leave called when the thread does not stop a run.
   * @param inline what this thread may run itself; `null` for nothing.
   */
  constructor(clock: Clock, submitted: () => void, leave: () => void, inline: InlineBudget | null = null) {
    this.time = new WorkerTime(clock)
    this.#clock = clock
    this.#submitted = submitted
    this.#stops = new StopLimit(clock, (what) => this.#hasEnded(what) || leave())
    this.#inline = inline
  }

  /** Whether a thread serves. */
  get serving(): boolean {
    return this.#serving
  }

  /** Whether a batch would be started at once. */
  get idle(): boolean {
    return this.#serving && this.time.handedOver.length < this.#concurrency && !this.tasks.running
  }

  get #concurrency(): number {
    return this.#executor?.concurrency ?? 1
  }

  /** A thread serves from now on. */
  start(executor: Executor): void {
    this.#executor = executor
    this.#serving = true
    this.run()
  }

  /** None does any more; what it has not started can still be taken back. */
  stop(): void {
    this.#serving = false
  }

  /** A source has work. */
  offer(source: BatchSource): void {
    if (this.time.shares.activate(source) && source.hasWaiting) this.#yieldTo(source)
    this.run()
  }

  /** Takes a batch back that has not started; false when it has. Its source is told. */
  takeBack(slotId: number): boolean {
    if (this.#executor === null || !this.#executor.takeBack(slotId)) return false
    this.time.takenBack(slotId)?.source.takenBack(slotId, false)
    return true
  }

  /**
   * Has the run of a batch stopped. When it was told to and does not, its thread is left to itself after a while.
   *
   * @param orLeave whether that is done as well where it cannot be told.
   */
  stopRun(slotId: number, orLeave: boolean): void {
    if (this.#executor?.cancel(slotId, orLeave) || orLeave) this.#stops.told(slotId)
  }

  /** The same for what is being done for a session. */
  stopTask(owner: { readonly id: number }, orLeave = false): void {
    if (this.tasks.runningFor === owner && (this.#executor!.cancelWork(owner.id) || orLeave))
      this.#stops.told(owner)
  }

  #hasEnded(what: Stoppable): boolean {
    this.#executor?.drainCompletions()
    return this.tasks.runningFor !== what && !this.time.handedOver.some(({ slotId }) => slotId === what)
  }

  /** Gives what there is room for. */
  run(): void {
    this.#again = true
    if (this.#running) return // what it calls may have more to give: it looks again
    this.#running = true
    try {
      while (this.#again) {
        this.#again = false
        while (this.#one());
      }
    } finally {
      this.#running = false
    }
  }

  /** A batch is done; its source is told. False when it was none that was handed over. */
  finished(
    slotId: number,
    times: Readonly<RunTimestamps>,
    error: string | null,
    mailed: MailedOutputs | null,
    failures: RowFailures | null = null,
  ): boolean {
    const tookMs = times.endMs - times.startMs
    const done = this.time.done(slotId, tookMs)
    if (done === null) return false
    this.#stops.ended(slotId)
    if (times.inline === true) this.#inline?.spent(tookMs, done.source)
    // Reports come by two ways: that of the batch before it may still be under way, and nothing was told of this one's start.
    done.source.started(slotId)
    this.#tellStarted()
    // Before the results are handed out: the worker should not wait for that.
    this.run()
    if (error === null) done.source.finished(slotId, times, mailed, failures)
    else done.source.failed(slotId, error, times.stillRuns ?? null, tookMs)
    this.run()
    return true
  }

  /** Those behind which nothing is that runs. */
  #tellStarted(): void {
    const { handedOver } = this.time
    const running = Math.min(handedOver.length, this.#concurrency)
    for (let at = 0; at < running; at++) handedOver[at]!.source.started(handedOver[at]!.slotId)
  }

  /** The thread is gone, or left to itself: what it had not started goes back to its sources, and they are told of what it had. */
  lost(executor: Executor, reason: string, stillRuns: Promise<void> | null): void {
    this.#serving = false
    this.#stops.clear()
    const started = []
    const ranMs = this.time.runningMs
    // The last first: each is put before what waits.
    for (const handed of this.time.clear().reverse()) {
      if (executor.takeBack(handed.slotId)) {
        this.time.shares.refund(handed.charge)
        handed.source.takenBack(handed.slotId, true)
      } else started.push(handed)
    }
    this.tasks.lost(executor)
    for (const { slotId, source } of started) source.lost(slotId, reason, stillRuns, ranMs)
  }

  /** Hands one batch over, or finds that a source has none; false when there is nothing more to be done now. */
  #one(): boolean {
    const { handedOver } = this.time
    const executor = this.#executor
    if (executor === null || !this.#serving || this.tasks.running) return false
    const idle = handedOver.length < this.#concurrency
    const isEmpty = handedOver.length === 0
    if (!isEmpty && (this.tasks.waiting || handedOver.length > this.#concurrency || handedOver[0]!.alone))
      return false
    if (isEmpty && this.tasks.waiting && (this.tasks.isTurn || this.time.next() === null)) {
      this.tasks.start(executor, (owner) => this.#taskDone(owner))
      return false
    }
    if (idle && this.#forIdle.size > 0) this.#wakeForIdle()
    const share = this.time.next()
    if (share === null) return false
    const { source } = share
    if (idle && !isEmpty && source.nextIsAlone) return false
    const batch = idle || source.hasWaiting ? source.nextBatch(idle, idle ? 0 : this.time.freeInMs) : null
    // It is this source's turn as soon as the worker is free; nobody may be handed ahead of it.
    if (batch === 'when idle') return false
    if (batch === null) this.#nothingOf(source, idle)
    else this.#handOver(executor, source, batch)
    return true
  }

  #taskDone(owner: object | null): void {
    if (owner !== null) this.#stops.ended(owner)
    this.run()
  }

  #nothingOf(source: BatchSource, idle: boolean): void {
    this.time.shares.deactivate(source)
    if (!idle && source.aheadElsewhere) this.#forIdle.add(source)
  }

  #wakeForIdle(): void {
    for (const source of this.#forIdle) this.time.shares.activate(source)
    this.#forIdle.clear()
  }

  #handOver(
    executor: Executor,
    source: BatchSource,
    { slotId, layoutIndex, mailed, runMs, alone, elsewhere }: PreparedBatch,
  ): void {
    this.tasks.isTurn = true
    const idle = this.time.handedOver.length === 0
    this.time.given(source, slotId, runMs, alone)
    const here =
      idle &&
      !alone &&
      !elsewhere &&
      mailed === null &&
      this.#inline?.allows(runMs, source, source.hasWaiting)
    if (here && executor.runHere!(slotId, layoutIndex)) return
    try {
      executor.submit(slotId, layoutIndex, mailed)
    } catch (error) {
      const nowMs = this.#clock.nowMs() // there was no memory for its inputs, say
      this.finished(
        slotId,
        { startMs: nowMs, inferStartMs: nowMs, inferEndMs: nowMs, endMs: nowMs },
        (error as Error).message,
        null,
      )
      return
    }
    this.#submitted()
  }

  /** Takes back what waits behind another source's run: who has waited for nothing yet comes first. */
  #yieldTo(source: BatchSource): void {
    const { handedOver } = this.time
    const ahead = handedOver[1]
    if (ahead === undefined || ahead.source === source || ahead.source !== handedOver[0]!.source) return
    if (ahead.charge.estimateMs >= yieldsFromMs) this.takeBack(ahead.slotId)
  }
}
