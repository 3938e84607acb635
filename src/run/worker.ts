import type { MailedOutputs, RowFailures } from '../schedule/batch.ts'
import type { Clock } from '../base/clock.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import {
  ThreadEndedError,
  type Executor,
  type ExecutorEvents,
  type RunTimestamps,
} from './executors/executor.ts'
import { WorkerTime, type InlineBudget } from './thread-time.ts'
import type { ModelInstance, PreparedBatch } from './model-instance.ts'
import type { WorkerSession } from './worker-session.ts'
import { WorkerThreads, type ThreadSource } from './worker-threads.ts'

/** From this estimate on, a prefetched batch is revoked for an instance that has just got work, in milliseconds. */
const yieldsFromMs = 1

/**
 * A place for a worker thread and the sessions that live there, and the one loop that decides what the thread is given: as
 * long as there is room, it asks the instance whose turn it is for a batch. Instances share the thread by measured milliseconds
 * and weight; tasks are done in turns with batches.
 *
 * It outlives its {@link WorkerThreads}: what was dispatched to a thread that dies and had not started goes back to its instance.
 */
export class Worker {
  /** As in {@link WorkerEvent}. */
  readonly name: string
  readonly time: WorkerTime
  readonly threads: WorkerThreads
  readonly #clock: Clock
  readonly #source: ThreadSource
  /** What the application's thread may run itself; `null` for nothing. */
  readonly #inline: InlineBudget | null
  readonly #tasks = new WorkerTasks()
  readonly #stops: StopLimit
  readonly #sessions = new Set<WorkerSession>()
  /** Instances that had nothing for this worker while it was busy, and may have once it is idle. */
  readonly #forIdle = new Set<ModelInstance>()
  #dispatching = false
  #again = false

  /** @param name its device, or its function, and a number. */
  constructor(
    source: ThreadSource,
    clock: Clock,
    changed: (type: WorkerEvent['type'], reason?: string) => void,
    name = '',
  ) {
    this.name = name
    this.time = new WorkerTime(clock)
    this.#clock = clock
    this.#source = source
    this.#inline = source.inline ?? null
    this.#stops = new StopLimit(clock, (what) => this.#hasEnded(what) || this.threads.detach())
    this.threads = new WorkerThreads(source, clock, this, changed)
  }

  /** Starts the first thread; rejects when it does not come up. */
  start(): Promise<void> {
    return this.threads.start()
  }

  /** Sessions that live here, those included that are being opened. */
  get sessions(): number {
    return this.#sessions.size
  }

  /** As in {@link WorkerStatistics}. */
  get restarts(): number {
    return this.threads.restarts
  }

  /** The part of the last seconds in which it ran something. */
  get busyShare(): number {
    return this.time.busyShare
  }

  /** Whether it would start a batch at once. */
  get idle(): boolean {
    return this.threads.serving && this.time.dispatched.length < this.#concurrency() && !this.#tasks.running
  }

  /** Whether it has anything to do. */
  get busy(): boolean {
    return this.time.dispatched.length > 0 || this.#tasks.running
  }

  /** Whether no other worker of its device has anything to do. */
  get othersIdle(): boolean {
    return this.#source.workers?.every((worker) => worker === this || !worker.busy) ?? true
  }

  /** The estimated time until the worker is done with what it was given, in milliseconds. */
  get freeInMs(): number {
    return !this.threads.serving ? this.threads.servesInMs : this.idle ? 0 : this.time.freeInMs
  }

  /** How many times longer an instance's work takes here because others have work too. */
  sharing(weight: number): number {
    return Math.max(1, this.time.shares.activeWeight / weight)
  }

  attach(session: WorkerSession): void {
    this.#sessions.add(session)
  }

  /** The session leaves; its tasks are rejected, or stopped if they were begun. */
  detach(session: WorkerSession): void {
    this.#sessions.delete(session)
    this.withdraw(session)
    this.stopRun(session, false)
  }

  /** Rejects the tasks of a session that have not begun. */
  withdraw(session: WorkerSession): void {
    this.#tasks.reject(({ owner }) => owner === session)
  }

  /**
   * Has a task done on the thread as soon as no batch is outstanding.
   *
   * @param thread the one it is meant for; `null` for the one that serves then.
   * @param waits whether a batch that is prefetched behind the run goes first, which need not be copied again then.
   */
  ask<T>(
    owner: WorkerSession | null,
    thread: Executor | null,
    work: (executor: Executor) => Promise<T>,
    waits = false,
  ): Promise<T> {
    const { givenUp, closing, executor } = this.threads
    if (givenUp || closing || (thread !== null && thread !== executor))
      return Promise.reject(new ThreadEndedError())
    const done = this.#tasks.add(owner, thread, work)
    if (!waits) this.#yieldTo(null)
    this.dispatch()
    return done
  }

  join(instance: ModelInstance): void {
    this.time.shares.join(instance, instance.weight)
  }

  part(instance: ModelInstance): void {
    this.time.shares.part(instance)
  }

  /** An instance has work. */
  offer(instance: ModelInstance): void {
    if (this.time.shares.activate(instance) && instance.hasWaiting) this.#yieldTo(instance)
    this.dispatch()
  }

  /** Revokes a batch that has not started, of which its instance is notified; false when it has started. */
  revoke(slotId: number): boolean {
    if (this.threads.runner?.revoke(slotId) !== true) return false
    this.time.revoked(slotId)?.source.revoked(slotId, false)
    return true
  }

  /**
   * Asks a run to stop: that of the batch in a slot, or a session's task. If it does not stop, its thread is detached after a
   * while.
   *
   * @param orDetach whether to detach the thread also of a run that cannot be asked to stop.
   */
  stopRun(of: number | WorkerSession, orDetach: boolean): void {
    const { runner } = this.threads
    if (typeof of !== 'number' && this.#tasks.runningFor !== of) return
    const stops = typeof of === 'number' ? runner?.cancel(of, orDetach) : runner!.cancelWork(of.id)
    if (stops || orDetach) this.#stops.asked(of)
  }

  #hasEnded(what: Stoppable): boolean {
    this.threads.runner?.drainCompletions()
    return this.#tasks.runningFor !== what && !this.time.dispatched.some(({ slotId }) => slotId === what)
  }

  /** How many batches run at the same time. */
  #concurrency(): number {
    return this.threads.runner?.concurrency ?? 1
  }

  /** Gives the thread what there is room for. */
  dispatch(): void {
    if (this.time.shares.next() === null && !this.#tasks.waiting && this.#forIdle.size === 0) return
    this.#again = true
    if (this.#dispatching) return // what it calls may have more to dispatch: the outer call looks again
    this.#dispatching = true
    try {
      while (this.#again) {
        this.#again = false
        while (this.#dispatchOne());
      }
    } finally {
      this.#dispatching = false
    }
  }

  /** Dispatches one batch, or finds that an instance has none; false when there is nothing more to be done now. */
  #dispatchOne(): boolean {
    const { dispatched } = this.time
    const { runner, serving } = this.threads
    if (runner === null || !serving || this.#tasks.running) return false
    const idle = dispatched.length < this.#concurrency()
    const isEmpty = dispatched.length === 0
    if (
      !isEmpty &&
      (this.#tasks.waiting || dispatched.length > this.#concurrency() || dispatched[0]!.isExclusive)
    )
      return false
    if (isEmpty && this.#tasks.waiting && (this.#tasks.isTurn || this.time.shares.next() === null)) {
      this.#tasks.start(runner, (owner) => this.#taskDone(owner))
      return false
    }
    if (idle && this.#forIdle.size > 0) {
      for (const waiting of this.#forIdle) this.time.shares.activate(waiting)
      this.#forIdle.clear()
    }
    const share = this.time.shares.next()
    if (share === null) return false
    const { source } = share
    // One batch after the other: where all are run here, what the worker has still comes first.
    const { present } = source.runPlace
    if (present !== 'elsewhere' && source.hasWaiting)
      if (isEmpty ? this.#inline?.awaitsTurn(source, share.lastMs, this.#resume) : present === 'here')
        return false
    if (idle && !isEmpty && source.nextIsAlone) return false
    if (this.#inline !== null) source.chooseRows(this.#inline.shortMs(source), idle)
    const batch = idle || source.hasWaiting ? source.nextBatch(idle, idle ? 0 : this.time.freeInMs) : null
    // It is this instance's turn as soon as the worker is free; no batch of another may be prefetched before it.
    if (batch === 'when idle') return false
    if (batch === null) this.#nothingOf(source, idle)
    else this.#submit(runner, source, batch)
    return true
  }

  readonly #resume = (): void => this.dispatch()

  #taskDone(owner: WorkerSession | null): void {
    if (owner !== null) this.#stops.ended(owner)
    this.dispatch()
  }

  #nothingOf(source: ModelInstance, idle: boolean): void {
    this.time.shares.deactivate(source)
    if (!idle && source.prefetchedElsewhere) this.#forIdle.add(source)
  }

  #submit(executor: Executor, source: ModelInstance, batch: PreparedBatch): void {
    const { slotId, preparedAtMs, layoutIndex, mailed, isExclusive, onSecond } = batch
    this.#tasks.isTurn = true
    const idle = this.time.dispatched.length === 0
    this.time.given(source, slotId, batch.runMs, isExclusive, preparedAtMs)
    const here =
      idle &&
      !isExclusive &&
      !batch.elsewhere &&
      mailed === null &&
      this.#inline?.allows(batch.inlineMs, source, source.hasWaiting, preparedAtMs)
    if (here && executor.runHere!(slotId, layoutIndex, onSecond, batch.inHalves)) return
    try {
      executor.submit(slotId, layoutIndex, mailed, onSecond)
    } catch (error) {
      const nowMs = this.#clock.nowMs() // there was no memory for its inputs, say
      const times = { startMs: nowMs, inferStartMs: nowMs, inferEndMs: nowMs, endMs: nowMs }
      this.#settle(slotId, times, (error as Error).message, null, null)
      return
    }
    executor.listen?.()
  }

  /**
   * Revokes a batch that is prefetched behind a run of its own instance, for another instance or a task (`null`) that has just
   * come.
   */
  #yieldTo(source: ModelInstance | null): void {
    const { dispatched } = this.time
    const ahead = dispatched[1]
    if (ahead === undefined || ahead.source === source || ahead.source !== dispatched[0]!.source) return
    if (ahead.charge.estimateMs >= yieldsFromMs) this.revoke(ahead.slotId)
  }

  /** A thread reports a batch that is done. */
  readonly finished: ExecutorEvents['finished'] = (slotId, times, error, mailed, failures = null) => {
    if (this.#settle(slotId, times, error, mailed, failures)) this.threads.deaths = 0
  }

  /**
   * Notifies an instance that its batch is done. False for a batch that is no longer dispatched, such as one of a detached
   * thread.
   */
  #settle(
    slotId: number,
    times: Readonly<RunTimestamps>,
    error: string | null,
    mailed: MailedOutputs | null,
    failures: RowFailures | null,
  ): boolean {
    const tookMs = times.endMs - times.startMs
    const nowMs = this.#clock.nowMs()
    const occupiedMs = this.time.runningMs(nowMs)
    const done = this.time.done(slotId, tookMs, nowMs)
    if (done === null) return false
    this.#stops.ended(slotId)
    if (times.inline === true) this.#inline?.spent(tookMs, done.source, nowMs)
    else this.#inline?.occupies(nowMs)
    // Reports come by two ways: that of the batch before it may still be under way, and this one's start was not reported.
    done.source.started(slotId)
    this.#reportStarted()
    // Before the results are scattered: the worker should not wait for that.
    this.dispatch()
    if (error === null) done.source.finished(slotId, times, mailed, failures)
    else done.source.failed(slotId, error, times.stillRuns ?? null, tookMs)
    this.#inline?.ran(done.source, tookMs, occupiedMs, nowMs)
    this.dispatch()
    return true
  }

  /** Notifies instances of their batches that run now, not of prefetched ones. */
  #reportStarted(): void {
    const { dispatched } = this.time
    const running = Math.min(dispatched.length, this.#concurrency())
    for (let at = 0; at < running; at++) dispatched[at]!.source.started(dispatched[at]!.slotId)
  }

  /** A thread is gone, or detached: what it had not started goes back to its instances, which are notified of what it ran. */
  threadLost(executor: Executor, reason: string, stillRuns: Promise<void> | null): void {
    this.#stops.clear()
    const started = []
    const ranMs = this.time.runningMs()
    // The last first: each is put before what waits.
    for (const batch of this.time.clear().reverse()) {
      if (executor.revoke(batch.slotId)) {
        this.time.shares.refund(batch.charge)
        batch.source.revoked(batch.slotId, true)
      } else started.push(batch)
    }
    this.#tasks.reject(({ thread }) => thread === executor)
    for (const { slotId, source } of started) source.lost(slotId, reason, stillRuns, ranMs)
  }

  /** Has the sessions of a thread that is gone opened on the next one. */
  reopenSessions(reason: string): void {
    for (const session of this.#sessions) session.lost(reason)
  }

  /** There will be no further thread. */
  abandonSessions(reason: string): void {
    this.#tasks.reject()
    for (const session of this.#sessions) session.abandon(reason)
  }

  /**
   * Ends the thread's loop; false when it did not end within `timeoutMs` and is detached: a thread inside ONNX Runtime must not be
   * terminated.
   */
  close(timeoutMs: number): Promise<boolean> {
    this.#tasks.reject()
    return this.threads.close(timeoutMs)
  }
}

interface Task {
  /** The session it is for; `null` for none that might withdraw it. */
  readonly owner: WorkerSession | null
  /** The thread for which it is meant; `null` for whichever there is. */
  readonly thread: Executor | null
  run(executor: Executor): Promise<void>
  fail(reason: Error): void
}

/**
 * What a worker is asked beside batches: to open, try and close sessions. One at a time and only while it has nothing
 * else to do, so that none stands in the way of batches for longer than itself.
 */
class WorkerTasks {
  #waiting: Task[] = []
  #running: Task | null = null
  /** Whether the next turn is a task's, where batches wait as well: they take turns. */
  isTurn = true

  /** Whether one is under way. */
  get running(): boolean {
    return this.#running !== null
  }

  /** The session one is under way for; `null` for none. */
  get runningFor(): WorkerSession | null {
    return this.#running?.owner ?? null
  }

  get waiting(): boolean {
    return this.#waiting.length > 0
  }

  /** Adds a task; the promise settles as what `run` gives, and rejects when its thread is gone or it is withdrawn before. */
  add<T>(
    owner: WorkerSession | null,
    thread: Executor | null,
    run: (executor: Executor) => Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        owner,
        thread,
        run: (executor) => run(executor).then(resolve, reject),
        fail: reject,
      })
    })
  }

  /** Starts the next one; `done` is called when it has ended, however that was. */
  start(executor: Executor, done: (owner: WorkerSession | null) => void): void {
    const task = this.#waiting.shift()!
    this.#running = task
    this.isTurn = false
    void task.run(executor).then(() => {
      this.#running = null
      done(task.owner)
    })
  }

  /** Rejects those that wait. Default: all of them. */
  reject(which: (task: Task) => boolean = () => true): void {
    const gone = this.#waiting.filter(which)
    this.#waiting = this.#waiting.filter((task) => !which(task))
    for (const { fail } of gone) fail(new ThreadEndedError())
  }
}

/** How long what was asked to stop may take to do so. One operator of a large model takes some tenths of it. */
const limitMs = 1000

/** The run of a slot, or a task by its owner. */
type Stoppable = number | WorkerSession

/** Waits for a run, or a task, that was asked to stop: it does so at its next operator, which may take for ever. */
class StopLimit {
  readonly #clock: Clock
  readonly #exceeded: (what: Stoppable) => void
  #asked: Stoppable | null = null
  #timer: unknown = null

  constructor(clock: Clock, exceeded: (what: Stoppable) => void) {
    this.#clock = clock
    this.#exceeded = exceeded
  }

  /** Something was asked to stop. */
  asked(what: Stoppable): void {
    if (what === this.#asked) return
    this.clear()
    this.#asked = what
    this.#timer = this.#clock.setTimer(() => {
      this.clear()
      this.#exceeded(what)
    }, limitMs)
  }

  /** It has ended. */
  ended(what: Stoppable): void {
    if (what === this.#asked) this.clear()
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#asked = null
  }
}
