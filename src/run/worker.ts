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

/** From this estimate on, a prefetched batch is revoked for an instance that has just got work, in milliseconds. */
const yieldsFromMs = 1

/** A thread of a worker, with the executor that stands for it here. */
export interface WorkerThread {
  readonly executor: Executor
  /** Starts it; rejects, with nothing left behind, when it does not come up. */
  start(): Promise<void>
  /** Resolves when it has ended, with the reason in words. */
  failure(): Promise<string>
  /** Detaches it while it is inside ONNX Runtime; resolves when it is not any more. It ends then. */
  leave(): Promise<void>
  /** Ends it, once its executor has stopped; resolves when it is gone. */
  end(): Promise<void>
}

/** How a worker gets its threads. */
export interface ThreadSource {
  /** What the application's thread may run itself, through its executors; `null` or left out for nothing. */
  readonly inline?: InlineBudget | null
  /** A thread that is not started yet, whose executor reports to `events`. */
  newThread(events: ExecutorEvents): WorkerThread
  /** A batch was dispatched to a worker: its completion is to be listened for. */
  submitted(worker: { readonly outstanding: number; drain(): void }): void
}

/**
 * A place for a worker thread and the sessions that live there, and the one loop that decides what the thread is given: as
 * long as there is room, it asks the instance whose turn it is for a batch. Instances share the thread by measured milliseconds
 * and weight; tasks are done in turns with batches.
 *
 * It outlives its threads: a dead one is replaced with back-off, and what was dispatched and had not started goes back to its
 * instance.
 */
export class Worker {
  /** As in {@link WorkerEvent}. */
  readonly name: string
  /** True when no thread could be had any more: no session may be put here. */
  givenUp = false
  readonly time: WorkerTime
  readonly #threads: ThreadSource
  readonly #clock: Clock
  readonly #changed: (type: WorkerEvent['type'], reason?: string) => void
  /** What this thread may run itself; `null` for nothing. */
  readonly #inline: InlineBudget | null
  readonly #tasks = new WorkerTasks()
  readonly #stops: StopLimit
  readonly #restarts: WorkerRestarts
  readonly #sessions = new Set<WorkerSession>()
  /** The newest thread, started or not, and its executor. */
  #thread: WorkerThread
  #executor: Executor
  /** The executor that runs batches, or did last; `null` before the first thread serves. */
  #runner: Executor | null = null
  #serving = false
  /** Instances that had nothing for this worker while it was busy, and may have once it is idle. */
  readonly #forIdle = new Set<ModelInstance>()
  #dispatching = false
  #again = false
  #started: Promise<void> | null = null
  #starting: Promise<void> | null = null
  /** The thread that died before its start was known to have succeeded. */
  #diedStarting: Executor | null = null
  #closing = false

  /** @param name its device, or its function, and a number. */
  constructor(
    threads: ThreadSource,
    clock: Clock,
    changed: (type: WorkerEvent['type'], reason?: string) => void,
    name = '',
  ) {
    this.name = name
    this.time = new WorkerTime(clock)
    this.#threads = threads
    this.#clock = clock
    this.#changed = changed
    this.#inline = threads.inline ?? null
    this.#stops = new StopLimit(clock, (what) => this.#hasEnded(what) || this.#leaveThread())
    this.#restarts = new WorkerRestarts(clock, () => void this.#restart())
    this.#thread = this.#newThread()
    this.#executor = this.#thread.executor
  }

  /** The executor of the thread that serves now. */
  get executor(): Executor {
    return this.#executor
  }

  /** The thread that serves now. */
  get thread(): WorkerThread {
    return this.#thread
  }

  /** Batches dispatched and not yet back. */
  get outstanding(): number {
    return this.time.dispatched.length
  }

  /** Sessions that live here, those included that are being opened. */
  get sessions(): number {
    return this.#sessions.size
  }

  /** Threads that took the place of one that had died. */
  get restarts(): number {
    return Math.max(0, this.#restarts.starts - 1)
  }

  /** The part of the last seconds in which it ran something. */
  get busyShare(): number {
    return this.time.busyShare
  }

  /** Whether it would start a batch at once. */
  get idle(): boolean {
    return this.#serving && this.time.dispatched.length < this.#concurrency && !this.#tasks.running
  }

  /** The estimated time until the worker is done with what it was given, in milliseconds. */
  get freeInMs(): number {
    return !this.#serving ? this.#restarts.servesInMs : this.idle ? 0 : this.time.freeInMs
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
    this.#stopTask(session, false)
  }

  /** Rejects the tasks of a session that were not begun. */
  withdraw(session: WorkerSession): void {
    this.#tasks.withdraw(session)
  }

  /**
   * Has a task done on the thread as soon as no batch is outstanding.
   *
   * @param thread the one it is meant for; `null` for whichever there is then.
   */
  ask<T>(
    owner: WorkerSession | null,
    thread: Executor | null,
    work: (executor: Executor) => Promise<T>,
  ): Promise<T> {
    if (this.givenUp || this.#closing || (thread !== null && thread !== this.#executor))
      return Promise.reject(new ThreadEndedError())
    const done = this.#tasks.add(owner, thread, work)
    this.#dispatch()
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
    this.#dispatch()
  }

  /** Revokes a batch that has not started, which its instance is notified of; false when it has. */
  revoke(slotId: number): boolean {
    if (this.#runner === null || !this.#runner.revoke(slotId)) return false
    this.time.revoked(slotId)?.source.revoked(slotId, false)
    return true
  }

  /**
   * Has a run stopped: of the batch in a slot, or a session's task. When it was told to stop and does not, its thread is detached
   * after a while.
   *
   * @param orDetach whether that is done as well where it cannot be told.
   */
  stopRun(of: number | WorkerSession, orDetach: boolean): void {
    if (typeof of !== 'number') this.#stopTask(of, orDetach)
    else if (this.#runner?.cancel(of, orDetach) || orDetach) this.#stops.told(of)
  }

  #stopTask(owner: WorkerSession, orDetach: boolean): void {
    if (this.#tasks.runningFor === owner && (this.#runner!.cancelWork(owner.id) || orDetach))
      this.#stops.told(owner)
  }

  #hasEnded(what: Stoppable): boolean {
    this.#runner?.drainCompletions()
    return this.#tasks.runningFor !== what && !this.time.dispatched.some(({ slotId }) => slotId === what)
  }

  /** Looks for finished batches. */
  drain(): void {
    if (this.outstanding === 0) return
    this.#executor.drainCompletions()
    this.#dispatch()
  }

  // ── what the thread is given ──

  get #concurrency(): number {
    return this.#runner?.concurrency ?? 1
  }

  /** Gives what there is room for. */
  #dispatch(): void {
    this.#again = true
    if (this.#dispatching) return // what it calls may have more to give: it looks again
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
    const executor = this.#runner
    if (executor === null || !this.#serving || this.#tasks.running) return false
    const idle = dispatched.length < this.#concurrency
    const isEmpty = dispatched.length === 0
    if (!isEmpty && (this.#tasks.waiting || dispatched.length > this.#concurrency || dispatched[0]!.alone))
      return false
    if (isEmpty && this.#tasks.waiting && (this.#tasks.isTurn || this.time.next() === null)) {
      this.#tasks.start(executor, (owner) => this.#taskDone(owner))
      return false
    }
    if (idle && this.#forIdle.size > 0) this.#wakeForIdle()
    const share = this.time.next()
    if (share === null) return false
    const { source } = share
    if (idle && !isEmpty && source.nextIsAlone) return false
    const batch = idle || source.hasWaiting ? source.nextBatch(idle, idle ? 0 : this.time.freeInMs) : null
    // It is this instance's turn as soon as the worker is free; no other may be dispatched ahead of it.
    if (batch === 'when idle') return false
    if (batch === null) this.#nothingOf(source, idle)
    else this.#handOver(executor, source, batch)
    return true
  }

  #taskDone(owner: object | null): void {
    if (owner !== null) this.#stops.ended(owner)
    this.#dispatch()
  }

  #nothingOf(source: ModelInstance, idle: boolean): void {
    this.time.shares.deactivate(source)
    if (!idle && source.prefetchedElsewhere) this.#forIdle.add(source)
  }

  #wakeForIdle(): void {
    for (const source of this.#forIdle) this.time.shares.activate(source)
    this.#forIdle.clear()
  }

  #handOver(
    executor: Executor,
    source: ModelInstance,
    { slotId, layoutIndex, mailed, runMs, alone, elsewhere }: PreparedBatch,
  ): void {
    this.#tasks.isTurn = true
    const idle = this.time.dispatched.length === 0
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
      this.#finished(
        slotId,
        { startMs: nowMs, inferStartMs: nowMs, inferEndMs: nowMs, endMs: nowMs },
        (error as Error).message,
        null,
      )
      return
    }
    this.#threads.submitted(this)
  }

  /** Revokes what waits behind another instance's run: one that has waited for nothing yet comes first. */
  #yieldTo(source: ModelInstance): void {
    const { dispatched } = this.time
    const ahead = dispatched[1]
    if (ahead === undefined || ahead.source === source || ahead.source !== dispatched[0]!.source) return
    if (ahead.charge.estimateMs >= yieldsFromMs) this.revoke(ahead.slotId)
  }

  /** A batch is done; its instance is notified. False when it was none that was dispatched. */
  #finished(
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
    this.#dispatch()
    if (error === null) done.source.finished(slotId, times, mailed, failures)
    else done.source.failed(slotId, error, times.stillRuns ?? null, tookMs)
    this.#dispatch()
    return true
  }

  /** Those behind which nothing is that runs. */
  #tellStarted(): void {
    const { dispatched } = this.time
    const running = Math.min(dispatched.length, this.#concurrency)
    for (let at = 0; at < running; at++) dispatched[at]!.source.started(dispatched[at]!.slotId)
  }

  // ── its threads ──

  /** Starts the first thread; rejects when it does not come up. */
  start(): Promise<void> {
    return (this.#started ??= this.#startThread().then(
      () => this.#changed('started'),
      (error: Error) => {
        this.givenUp = true
        this.#changed('failed', error.message)
        throw error
      },
    ))
  }

  #newThread(): WorkerThread {
    const thread = this.#threads.newThread({
      finished: (slotId, times, error, mailed, failures) => {
        if (this.#finished(slotId, times, error, mailed, failures)) this.#restarts.worked()
      },
      died: () => {
        if (thread !== this.#thread) return
        this.#serving = false // what it has not started can still be revoked
        // When it dies while it starts, the start rejects, unless it was up by then.
        if (this.#starting === null) this.#awaitLoss(thread)
        else this.#diedStarting = thread.executor
      },
    })
    return thread
  }

  #replaceThread(): void {
    this.#thread = this.#newThread()
    this.#executor = this.#thread.executor
  }

  #awaitLoss(thread: WorkerThread): void {
    void thread.failure().then((reason) => thread === this.#thread && this.#threadLost(reason))
  }

  async #startThread(): Promise<void> {
    const thread = this.#thread
    const startedAtMs = this.#clock.nowMs()
    this.#diedStarting = null
    this.#starting = thread.start()
    try {
      await this.#starting
    } finally {
      this.#starting = null
    }
    this.#restarts.took(this.#clock.nowMs() - startedAtMs)
    if (this.#diedStarting === thread.executor) return this.#awaitLoss(thread)
    if (thread !== this.#thread || this.#closing) return
    this.#runner = thread.executor
    this.#serving = true
    this.#dispatch()
  }

  /** Detaches the thread that does not stop what it runs, and starts another one. */
  #leaveThread(): void {
    if (!this.#closing) this.#threadLost('it did not stop what it was told to stop', this.#thread.leave())
  }

  /** The thread is gone, or detached: what it had not started goes back to its instances, and they are notified of what it had. */
  #threadLost(reason: string, stillRuns: Promise<void> | null = null): void {
    const executor = this.#executor
    if (!this.#closing) this.#replaceThread()
    this.#serving = false
    this.#stops.clear()
    const started = []
    const ranMs = this.time.runningMs
    // The last first: each is put before what waits.
    for (const handed of this.time.clear().reverse()) {
      if (executor.revoke(handed.slotId)) {
        this.time.shares.refund(handed.charge)
        handed.source.revoked(handed.slotId, true)
      } else started.push(handed)
    }
    this.#tasks.lost(executor)
    for (const { slotId, source } of started) source.lost(slotId, reason, stillRuns, ranMs)
    this.#changed('lost', reason)
    if (this.#closing) return
    for (const session of this.#sessions) session.lost(reason)
    this.#restarts.schedule()
  }

  async #restart(): Promise<void> {
    const thread = this.#thread
    try {
      await this.#startThread()
      if (thread === this.#thread && !this.#closing) this.#changed('restored')
    } catch (error) {
      if (thread !== this.#thread || this.#closing) return
      this.#replaceThread()
      const { message } = error as Error
      if (this.#restarts.failed()) this.#changed('lost', message)
      else this.#abandon(message)
    }
  }

  #abandon(reason: string): void {
    this.givenUp = true
    this.#changed('failed', reason)
    this.#executor.abandon() // a caller that asks something of it gets an answer
    this.#tasks.clear()
    for (const session of this.#sessions) session.abandon(reason)
  }

  /**
   * Ends the thread's loop; false when it did not end within `timeoutMs` and is detached: a thread inside ONNX Runtime must not be
   * terminated.
   */
  async close(timeoutMs: number): Promise<boolean> {
    this.#closing = true
    this.#tasks.clear()
    return this.#restarts.within(timeoutMs, this.#endThread())
  }

  async #endThread(): Promise<boolean> {
    const executor = this.#executor
    const serving = this.#serving
    this.#serving = false
    if (serving) await executor.exit()
    else executor.abandon()
    // One that never served may hang; it ends by itself should it come up.
    if (this.#starting !== null) return false
    // Not before nothing can enter ONNX Runtime any more and nothing is inside may the thread be terminated.
    await executor.stop()
    return true
  }
}

/** Starts the threads of workers that have none yet; rejects, once every start has settled, if one could not be started. */
export async function startAll(workers: ReadonlySet<Worker>): Promise<void> {
  const results = await Promise.allSettled([...workers].map((worker) => worker.start()))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

interface Task {
  /** The session it is for; `null` for none that might withdraw it. */
  readonly owner: object | null
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
  get runningFor(): object | null {
    return this.#running?.owner ?? null
  }

  get waiting(): boolean {
    return this.#waiting.length > 0
  }

  /** Adds a task; the promise settles as what `run` gives, and rejects when its thread is gone or it is withdrawn before. */
  add<T>(owner: object | null, thread: Executor | null, run: (executor: Executor) => Promise<T>): Promise<T> {
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
  start(executor: Executor, done: (owner: object | null) => void): void {
    const task = this.#waiting.shift()!
    this.#running = task
    this.isTurn = false
    void task.run(executor).then(() => {
      this.#running = null
      done(task.owner)
    })
  }

  /** Rejects those that wait for a thread that is gone. */
  lost(thread: Executor): void {
    this.#reject((task) => task.thread === thread)
  }

  /** Rejects those of an owner. */
  withdraw(owner: object): void {
    this.#reject((task) => task.owner === owner)
  }

  /** Rejects all that wait. */
  clear(): void {
    this.#reject(() => true)
  }

  #reject(which: (task: Task) => boolean): void {
    const gone = this.#waiting.filter(which)
    this.#waiting = this.#waiting.filter((task) => !which(task))
    for (const { fail } of gone) fail(new ThreadEndedError())
  }
}

/** How long what was told to stop may take to do so. One operator of a large model takes some tenths of it. */
const limitMs = 1000

/** The run of a slot, or a task by its owner. */
type Stoppable = number | object

/** Waits for something to end that was told to stop, such as a run: it does so at its next operator, and one operator may take for ever. */
class StopLimit {
  readonly #clock: Clock
  readonly #exceeded: (what: Stoppable) => void
  #told: Stoppable | null = null
  #timer: unknown = null

  constructor(clock: Clock, exceeded: (what: Stoppable) => void) {
    this.#clock = clock
    this.#exceeded = exceeded
  }

  /** Something was told to stop. */
  told(what: Stoppable): void {
    if (what === this.#told) return
    this.clear()
    this.#told = what
    this.#timer = this.#clock.setTimer(() => {
      this.clear()
      this.#exceeded(what)
    }, limitMs)
  }

  /** It has ended. */
  ended(what: Stoppable): void {
    if (what === this.#told) this.clear()
  }

  clear(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#told = null
  }
}

/** How long the first, second, third ... death in a row is followed by nothing; the last of them for all further ones. */
const delaysMs = [0, 100, 1000, 5000]
/** Threads in a row that may fail to come up before none is tried any more. */
const maxFailedStarts = 3
/** The estimate of a start before one was seen, in milliseconds. */
const usualStartMs = 300

/** When a worker's dead thread is replaced, and when it is given up. */
class WorkerRestarts {
  readonly #clock: Clock
  readonly #restart: () => void
  #timer: unknown = null
  #deaths = 0
  #failedStarts = 0
  #startMs = usualStartMs
  /** Threads that came up. */
  starts = 0
  #servesAtMs = 0

  constructor(clock: Clock, restart: () => void) {
    this.#clock = clock
    this.#restart = restart
  }

  /** The estimated time until the next thread serves, in milliseconds. */
  get servesInMs(): number {
    return Math.max(1, this.#servesAtMs - this.#clock.nowMs())
  }

  /** A run was finished: deaths before it are forgotten. */
  worked(): void {
    this.#deaths = 0
  }

  /** A thread came up, after so long. */
  took(startMs: number): void {
    this.starts++
    this.#startMs = startMs
    this.#failedStarts = 0
  }

  /** A thread died: calls `restart` when it is time. */
  schedule(): void {
    const delayMs = delaysMs[Math.min(this.#deaths++, delaysMs.length - 1)]!
    this.#servesAtMs = this.#clock.nowMs() + delayMs + this.#startMs
    this.#timer = this.#clock.setTimer(this.#restart, delayMs)
  }

  /** A thread did not come up: tries another one, or tells by false that there were enough. */
  failed(): boolean {
    if (++this.#failedStarts > maxFailedStarts) return false
    this.schedule()
    return true
  }

  /** Restarts nothing any more; gives what `end` resolves to, or false when that takes longer than `timeoutMs`. */
  async within(timeoutMs: number, end: Promise<boolean>): Promise<boolean> {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    let timer: unknown
    const timedOut = new Promise<boolean>((resolve) => {
      timer = this.#clock.setTimer(() => resolve(false), timeoutMs)
    })
    const ended = await Promise.race([end, timedOut])
    this.#clock.clearTimer(timer)
    return ended
  }
}
