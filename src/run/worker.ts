import type { Clock } from '../base/clock.ts'
import { ThreadEndedError, type Executor } from './executors/executor.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import { BatchHandOut } from './batch-hand-out.ts'
import type { BatchSource } from './batch-source.ts'
import type { ThreadSource } from './thread-source.ts'
import type { WorkerResident } from './worker-resident.ts'
import { WorkerRestarts } from './worker-restarts.ts'

/**
 * A place for a worker thread and the sessions that live there. It outlives its threads: a dead one is replaced with
 * back-off, and what was handed over and had not started goes back to its source.
 */
export class Worker<E extends Executor = Executor> {
  /** As in {@link WorkerEvent}. */
  readonly name: string
  /** True when no thread could be had any more: nobody should come to live here. */
  givenUp = false
  readonly #threads: ThreadSource<E>
  readonly #clock: Clock
  readonly #changed: (type: WorkerEvent['type'], reason?: string) => void
  readonly #handOut: BatchHandOut
  readonly #restarts: WorkerRestarts
  readonly #residents = new Set<WorkerResident>()
  #executor: E
  #started: Promise<void> | null = null
  #starting: Promise<void> | null = null
  /** The thread that died before its start was known to have succeeded. */
  #diedStarting: E | null = null
  #closing = false

  /** @param name its device, or its function, and a number. */
  constructor(
    threads: ThreadSource<E>,
    clock: Clock,
    changed: (type: WorkerEvent['type'], reason?: string) => void,
    name = '',
  ) {
    this.name = name
    this.#threads = threads
    this.#clock = clock
    this.#changed = changed
    this.#handOut = new BatchHandOut(
      clock,
      () => threads.submitted(this),
      () => this.#leaveThread(),
      threads.inline,
    )
    this.#restarts = new WorkerRestarts(clock, () => void this.#restart())
    this.#executor = this.#newExecutor()
  }

  /** The thread that serves now. */
  get executor(): Executor {
    return this.#executor
  }

  /** Batches handed over and not yet back. */
  get outstanding(): number {
    return this.#handOut.time.handedOver.length
  }

  /** Sessions that live here, those included that are being opened. */
  get sessions(): number {
    return this.#residents.size
  }

  /** Threads that took the place of one that had died. */
  get restarts(): number {
    return Math.max(0, this.#restarts.starts - 1)
  }

  /** The part of the last seconds in which it ran something. */
  get busyShare(): number {
    return this.#handOut.time.busyShare
  }

  /** Whether it would start a batch at once. */
  get idle(): boolean {
    return this.#handOut.idle
  }

  /** When the worker is reckoned to be done with what it was given, in milliseconds from now. */
  get freeInMs(): number {
    return !this.#handOut.serving
      ? this.#restarts.servesInMs
      : this.#handOut.idle
        ? 0
        : this.#handOut.time.freeInMs
  }

  /** How many times longer a source's work takes here because others have work too. */
  sharing(weight: number): number {
    return Math.max(1, this.#handOut.time.shares.activeWeight / weight)
  }

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

  attach(resident: WorkerResident): void {
    this.#residents.add(resident)
  }

  /** The resident leaves; what it has asked for is rejected, or stopped if it was begun. */
  detach(resident: WorkerResident): void {
    this.#residents.delete(resident)
    this.withdraw(resident)
    this.#handOut.stopTask(resident)
  }

  /** Rejects what the resident has asked for and was not begun. */
  withdraw(resident: WorkerResident): void {
    this.#handOut.tasks.withdraw(resident)
  }

  /**
   * Has something done on the thread as soon as nothing is handed over.
   *
   * @param thread the one it is meant for; `null` for whichever there is then.
   */
  ask<T>(
    owner: WorkerResident | null,
    thread: Executor | null,
    work: (executor: Executor) => Promise<T>,
  ): Promise<T> {
    if (this.givenUp || this.#closing || (thread !== null && thread !== this.#executor))
      return Promise.reject(new ThreadEndedError())
    const done = this.#handOut.tasks.add(owner, thread, work)
    this.#handOut.run()
    return done
  }

  join(source: BatchSource): void {
    this.#handOut.time.shares.join(source, source.weight)
  }

  part(source: BatchSource): void {
    this.#handOut.time.shares.part(source)
  }

  /** A source has work. */
  offer(source: BatchSource): void {
    this.#handOut.offer(source)
  }

  /** Takes a batch back that has not started; false when it has. Its source is told. */
  takeBack(slotId: number): boolean {
    return this.#handOut.takeBack(slotId)
  }

  /** Has a run stopped, of a slot or of a resident that is tried; see {@link BatchHandOut.stopRun}. */
  stopRun(of: number | WorkerResident, orLeave: boolean): void {
    if (typeof of === 'number') this.#handOut.stopRun(of, orLeave)
    else this.#handOut.stopTask(of, orLeave)
  }

  /** Looks for finished batches. */
  drain(): void {
    if (this.outstanding === 0) return
    this.#executor.drainCompletions()
    this.#handOut.run()
  }

  #newExecutor(): E {
    const executor: E = this.#threads.executor({
      finished: (slotId, times, error, mailed, failures) => {
        if (this.#handOut.finished(slotId, times, error, mailed, failures)) this.#restarts.worked()
      },
      died: () => {
        if (executor !== this.#executor) return
        this.#handOut.stop()
        // Of one that dies over its start whoever starts it is told, unless it was up by then.
        if (this.#starting === null) this.#awaitLoss(executor)
        else this.#diedStarting = executor
      },
    })
    return executor
  }

  #awaitLoss(executor: E): void {
    void this.#threads
      .failure(executor)
      .then((reason) => executor === this.#executor && this.#threadLost(executor, reason))
  }

  async #startThread(): Promise<void> {
    const executor = this.#executor
    const startedAtMs = this.#clock.nowMs()
    this.#diedStarting = null
    this.#starting = this.#threads.start(executor)
    try {
      await this.#starting
    } finally {
      this.#starting = null
    }
    this.#restarts.took(this.#clock.nowMs() - startedAtMs)
    if (this.#diedStarting === executor) this.#awaitLoss(executor)
    else if (executor === this.#executor && !this.#closing) this.#handOut.start(executor)
  }

  /** Leaves the thread to itself that does not stop what it runs, and starts another one. */
  #leaveThread(): void {
    if (!this.#closing)
      this.#threadLost(
        this.#executor,
        'it did not stop what it was told to stop',
        this.#threads.leave(this.#executor),
      )
  }

  #threadLost(executor: Executor, reason: string, stillRuns: Promise<void> | null = null): void {
    if (!this.#closing) this.#executor = this.#newExecutor()
    this.#handOut.lost(executor, reason, stillRuns)
    this.#changed('lost', reason)
    if (this.#closing) return
    for (const resident of this.#residents) resident.lost(reason)
    this.#restarts.schedule()
  }

  async #restart(): Promise<void> {
    const executor = this.#executor
    try {
      await this.#startThread()
      if (executor === this.#executor && !this.#closing) this.#changed('restored')
    } catch (error) {
      if (executor !== this.#executor || this.#closing) return
      this.#executor = this.#newExecutor()
      const { message } = error as Error
      if (this.#restarts.failed()) this.#changed('lost', message)
      else this.#abandon(message)
    }
  }

  #abandon(reason: string): void {
    this.givenUp = true
    this.#changed('failed', reason)
    this.#executor.abandon() // who asks something of it gets an answer
    this.#handOut.tasks.clear()
    for (const resident of this.#residents) resident.abandon(reason)
  }

  /**
   * Ends the thread's loop; false when it did not end within `timeoutMs` and is left to itself: a thread inside ONNX
   * Runtime must not be terminated.
   */
  async close(timeoutMs: number): Promise<boolean> {
    this.#closing = true
    this.#handOut.tasks.clear()
    return this.#restarts.within(timeoutMs, this.#endThread())
  }

  async #endThread(): Promise<boolean> {
    const executor = this.#executor
    const { serving } = this.#handOut
    this.#handOut.stop()
    if (serving) await executor.exit()
    else executor.abandon()
    // One that never served may hang; it ends by itself should it come up.
    if (this.#starting !== null) return false
    // Not before nothing can enter ONNX Runtime any more and nothing is inside may the thread be terminated.
    await executor.stop()
    return true
  }
}
