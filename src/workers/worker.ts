import type { Clock } from '../clock.ts'
import { maxHandedOver } from '../executor/binding/control-block.ts'
import { ThreadEndedError, type Executor, type MailedOutputs, type RunTimestamps } from '../executor/executor.ts'
import type { WorkerEvent } from '../observability/engine-events.ts'
import type { BatchSource, PreparedBatch } from './batch-source.ts'
import type { ThreadSource } from './thread-source.ts'
import { WorkerRestarts } from './worker-restarts.ts'
import { WorkerTasks } from './worker-tasks.ts'
import { WorkerTime } from './worker-time.ts'

/** What lives on a worker and outlives its threads. */
export interface WorkerResident {
  /** The thread is gone; the next one is being started. */
  lost(reason: string): void
  /** No thread can be had. */
  abandon(reason: string): void
}

/** From what a batch is reckoned to take on, it is taken back for a source that has just got work. */
const yieldsFromMs = 1

/**
 * A place for a worker thread and the sessions that live there. It outlives its threads: a dead one is replaced with
 * back-off, and what was handed over and had not started goes back to its source. Sources share the thread by measured
 * milliseconds and weight.
 */
export class Worker<E extends Executor = Executor> {
  /** True when no thread could be had any more: nobody should come to live here. */
  givenUp = false
  readonly #threads: ThreadSource<E>
  readonly #clock: Clock
  readonly #changed: (type: WorkerEvent['type'], reason?: string) => void
  readonly #time: WorkerTime
  readonly #tasks = new WorkerTasks()
  readonly #restarts: WorkerRestarts
  readonly #residents = new Set<WorkerResident>()
  #executor: E
  #started: Promise<void> | null = null
  #starting: Promise<void> | null = null
  #serving = false
  #closing = false
  #handingOut = false
  #handOutAgain = false

  constructor(threads: ThreadSource<E>, clock: Clock, changed: (type: WorkerEvent['type'], reason?: string) => void) {
    this.#threads = threads
    this.#clock = clock
    this.#changed = changed
    this.#time = new WorkerTime(clock)
    this.#restarts = new WorkerRestarts(clock, () => void this.#restart())
    this.#executor = this.#newExecutor()
  }

  /** The thread that serves now. */
  get executor(): Executor {
    return this.#executor
  }

  /** Batches handed over and not yet back. */
  get outstanding(): number {
    return this.#time.handedOver.length
  }

  /** Sessions that live here, those included that are being opened. */
  get sessions(): number {
    return this.#residents.size
  }

  /** The part of the last seconds in which it ran something. */
  get busyShare(): number {
    return this.#time.busyShare
  }

  /** Whether it would start a batch at once. */
  get idle(): boolean {
    return this.#serving && this.outstanding === 0 && !this.#tasks.running
  }

  /** When the worker is reckoned to be done with what it was given, in milliseconds from now. */
  get freeInMs(): number {
    return this.#serving ? this.#time.freeInMs : this.#restarts.servesInMs
  }

  /** How many times longer a source's work takes here because others have work too. */
  sharing(weight: number): number {
    return Math.max(1, this.#time.shares.activeWeight / weight)
  }

  /** Starts the first thread; rejects when it does not come up. */
  start(): Promise<void> {
    this.#started ??= this.#startThread().then(
      () => this.#changed('started'),
      (error: Error) => {
        this.givenUp = true
        this.#changed('failed', error.message)
        throw error
      },
    )
    return this.#started
  }

  attach(resident: WorkerResident): void {
    this.#residents.add(resident)
  }

  /** The resident leaves; what it has asked for and was not begun is rejected. */
  detach(resident: WorkerResident): void {
    this.#residents.delete(resident)
    this.#tasks.withdraw(resident)
  }

  /**
   * Has something done on the thread as soon as nothing is handed over.
   *
   * @param thread the one it is meant for; `null` for whichever there is then.
   */
  ask<T>(owner: WorkerResident | null, thread: Executor | null, work: (executor: Executor) => Promise<T>): Promise<T> {
    if (this.givenUp || this.#closing || (thread !== null && thread !== this.#executor)) return Promise.reject(new ThreadEndedError())
    const done = this.#tasks.add(owner, thread, work)
    this.#handOut()
    return done
  }

  join(source: BatchSource): void {
    this.#time.shares.join(source, source.weight)
  }

  part(source: BatchSource): void {
    this.#time.shares.part(source)
  }

  /** A source has work. */
  offer(source: BatchSource): void {
    if (this.#time.shares.activate(source) && source.hasWaiting) this.#yieldTo(source)
    this.#handOut()
  }

  /** Takes a batch back that has not started; false when it has. Its source is told. */
  takeBack(slotId: number): boolean {
    if (!this.#executor.takeBack(slotId)) return false
    this.#time.takenBack(slotId)?.source.takenBack(slotId, false)
    return true
  }

  /** Looks for finished batches. */
  drain(): void {
    if (this.outstanding === 0) return
    this.#executor.drainCompletions()
    this.#handOut()
  }

  /** The one loop that decides what the worker is given: as long as there is room, it asks whose turn it is for a batch. */
  #handOut(): void {
    this.#handOutAgain = true
    if (this.#handingOut) return // what it calls may have more to give: it looks again
    this.#handingOut = true
    while (this.#handOutAgain) {
      this.#handOutAgain = false
      while (this.#handOutOne());
    }
    this.#handingOut = false
  }

  #handOutOne(): boolean {
    const { handedOver } = this.#time
    if (!this.#serving || this.#tasks.running) return false
    const idle = handedOver.length === 0
    if (!idle && (this.#tasks.waiting || handedOver.length === maxHandedOver || handedOver[0]!.alone)) return false
    if (idle && this.#tasks.waiting && (this.#tasks.isTurn || this.#time.next() === null)) return this.#startTask()
    const share = this.#time.next()
    if (share === null) return false
    const { source } = share
    const batch = source.nextBatch(idle, this.#time.freeInMs)
    // It is this source's turn as soon as the worker is free; nobody may be handed ahead of it.
    if (batch === 'when idle') return false
    if (batch === null) this.#time.shares.deactivate(source)
    else this.#handOver(source, batch)
    return true
  }

  #handOver(source: BatchSource, { slotId, layoutIndex, mailed, runMs, alone }: PreparedBatch): void {
    this.#tasks.isTurn = true
    this.#time.given(source, slotId, runMs, alone)
    this.#executor.submit(slotId, layoutIndex, mailed)
    this.#threads.submitted()
  }

  #startTask(): boolean {
    const executor = this.#executor
    this.#tasks.start(executor, () => {
      if (executor === this.#executor) this.#handOut()
    })
    return false
  }

  /** Takes back what waits behind another source's run: who has waited for nothing yet comes first. */
  #yieldTo(source: BatchSource): void {
    const [first, ahead] = this.#time.handedOver
    if (ahead === undefined || ahead.source === source || ahead.source !== first!.source) return
    if (ahead.charge.estimateMs >= yieldsFromMs) this.takeBack(ahead.slotId)
  }

  #finished(slotId: number, times: Readonly<RunTimestamps>, error: string | null, mailed: MailedOutputs | null): void {
    const done = this.#time.done(slotId, times.endMs - times.startMs)
    if (done === null) return
    this.#restarts.worked()
    const [next] = this.#time.handedOver
    if (next !== undefined) next.source.started(next.slotId)
    // Before the results are handed out: the worker should not wait for that.
    this.#handOut()
    if (error === null) done.source.finished(slotId, times, mailed)
    else done.source.failed(slotId, error)
    this.#handOut()
  }

  #newExecutor(): E {
    const executor: E = this.#threads.executor({
      finished: (slotId, times, error, mailed) => this.#finished(slotId, times, error, mailed),
      died: () => {
        // Of one that dies over its start whoever starts it is told.
        if (executor !== this.#executor || this.#starting !== null) return
        this.#serving = false
        void this.#threads.failure(executor).then((reason) => {
          if (executor === this.#executor) this.#threadLost(executor, reason)
        })
      },
    })
    return executor
  }

  async #startThread(): Promise<void> {
    const executor = this.#executor
    const startedAtMs = this.#clock.nowMs()
    this.#starting = this.#threads.start(executor)
    try {
      await this.#starting
    } finally {
      this.#starting = null
    }
    this.#restarts.took(this.#clock.nowMs() - startedAtMs)
    if (executor !== this.#executor || this.#closing) return
    this.#serving = true
    this.#handOut()
  }

  #threadLost(executor: Executor, reason: string): void {
    this.#serving = false
    if (!this.#closing) this.#executor = this.#newExecutor()
    const lost = []
    // The last first: each is put before what waits.
    for (const { slotId, source } of this.#time.clear().reverse()) {
      if (executor.takeBack(slotId)) source.takenBack(slotId, true)
      else lost.push(() => source.lost(slotId, reason))
    }
    this.#tasks.lost(executor)
    for (const tell of lost) tell()
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
      if (!this.#restarts.failed()) this.#abandon((error as Error).message)
    }
  }

  #abandon(reason: string): void {
    this.givenUp = true
    this.#changed('failed', reason)
    this.#executor.abandon() // who asks something of it gets an answer
    this.#tasks.clear()
    for (const resident of this.#residents) resident.abandon(reason)
  }

  /**
   * Ends the thread's loop; false when it did not end within `timeoutMs` and is left to itself: a thread inside ONNX
   * Runtime must not be terminated.
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
