import type { Clock } from '../base/clock.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import type { Executor, ExecutorEvents } from './executors/executor.ts'
import type { InlineBudget } from './thread-time.ts'
import type { Worker } from './worker.ts'

/** A thread of a worker, with the executor that stands for it here. */
export interface WorkerThread {
  readonly executor: Executor
  /** Starts it; rejects, with nothing left behind, when it does not come up. */
  start(): Promise<void>
  /** Resolves when it has ended, with the reason in words. */
  failure(): Promise<string>
  /** Detaches it while it is inside ONNX Runtime; resolves when it is not any more. It ends then. */
  detach(): Promise<void>
  /** Ends it, once its executor has stopped; resolves when it is gone. */
  end(): Promise<void>
}

/** How a worker gets its threads. */
export interface ThreadSource {
  /** What the application's thread may run itself, through its executors; `null` or left out for nothing. */
  readonly inline?: InlineBudget | null
  /** All workers of the device; left out where it does not matter what others do. */
  readonly workers?: readonly { readonly busy: boolean }[]
  /** A thread that is not started yet, whose executor reports to `events`. */
  newThread(events: ExecutorEvents): WorkerThread
}

/** How long the first, second, third ... death in a row is followed by nothing; the last of them for all further ones. */
const delaysMs = [0, 100, 1000, 5000]
/** Threads in a row that may fail to come up before none is tried any more. */
const maxFailedStarts = 3
/** The estimate of a start before one was seen, in milliseconds. */
const usualStartMs = 300

/** The threads of a worker, one after the other: a dead one is replaced with back-off, until several in a row do not come up. */
export class WorkerThreads {
  /** Whether batches can be run now. */
  serving = false
  /** The executor that runs batches, or did last; `null` before the first thread serves. */
  runner: Executor | null = null
  /** True when no thread could be had any more: no session may be put on the worker. */
  givenUp = false
  closing = false
  /** Deaths in a row; the worker sets it to 0 when a run is done. */
  deaths = 0
  /** The newest thread, started or not, and its executor. */
  thread: WorkerThread
  executor: Executor
  readonly #source: ThreadSource
  readonly #clock: Clock
  readonly #worker: Worker
  readonly #changed: (type: WorkerEvent['type'], reason?: string) => void
  #started: Promise<void> | null = null
  #starting: Promise<void> | null = null
  /** The thread that died before its start was known to have succeeded. */
  #diedStarting: WorkerThread | null = null
  #restartTimer: unknown = null
  #failedStarts = 0
  #startMs = usualStartMs
  /** Threads that came up. */
  #starts = 0
  #servesAtMs = 0

  constructor(
    source: ThreadSource,
    clock: Clock,
    worker: Worker,
    changed: (type: WorkerEvent['type'], reason?: string) => void,
  ) {
    this.#source = source
    this.#clock = clock
    this.#worker = worker
    this.#changed = changed
    this.thread = this.#newThread()
    this.executor = this.thread.executor
  }

  /** Threads that took the place of one that had died. */
  get restarts(): number {
    return Math.max(0, this.#starts - 1)
  }

  /** The estimated time until the next thread serves, in milliseconds. */
  get servesInMs(): number {
    return Math.max(1, this.#servesAtMs - this.#clock.nowMs())
  }

  /** Starts the first thread; rejects when it does not come up. */
  start(): Promise<void> {
    return (this.#started ??= this.#startThread().then(
      () => this.#changed('started'),
      (error: Error) => {
        this.givenUp = true
        if (!this.closing) this.#changed('failed', error.message)
        throw error
      },
    ))
  }

  #newThread(): WorkerThread {
    const thread = this.#source.newThread({
      finished: this.#worker.finished,
      died: () => {
        if (thread !== this.thread) return
        this.serving = false // what it has not started can still be revoked
        // When it dies while it starts, the start rejects, unless it was up by then.
        if (this.#starting === null) this.#awaitLoss(thread)
        else this.#diedStarting = thread
      },
    })
    return thread
  }

  #replaceThread(): void {
    this.thread = this.#newThread()
    this.executor = this.thread.executor
  }

  #awaitLoss(thread: WorkerThread): void {
    void thread.failure().then((reason) => thread === this.thread && this.#lost(reason, null))
  }

  async #startThread(): Promise<void> {
    const { thread } = this
    const startedAtMs = this.#clock.nowMs()
    this.#diedStarting = null
    this.#starting = thread.start()
    try {
      await this.#starting
    } finally {
      this.#starting = null
    }
    this.#starts++
    this.#startMs = this.#clock.nowMs() - startedAtMs
    this.#failedStarts = 0
    if (this.#diedStarting === thread) return this.#awaitLoss(thread)
    if (thread !== this.thread || this.closing) return
    this.runner = thread.executor
    this.serving = true
    this.#worker.dispatch()
  }

  /** Detaches the thread that does not stop what it runs, and starts another one. */
  detach(): void {
    if (!this.closing) this.#lost('it did not stop a run that was cancelled', this.thread.detach())
  }

  /** @param stillRuns of a thread that was detached: resolves when it touches no slot any more. */
  #lost(reason: string, stillRuns: Promise<void> | null): void {
    const { executor } = this
    if (!this.closing) this.#replaceThread()
    this.serving = false
    this.#worker.threadLost(executor, reason, stillRuns)
    this.#changed('lost', reason)
    if (this.closing) return
    this.#worker.reopenSessions(reason)
    this.#scheduleRestart()
  }

  #scheduleRestart(): void {
    const delayMs = delaysMs[Math.min(this.deaths++, delaysMs.length - 1)]!
    this.#servesAtMs = this.#clock.nowMs() + delayMs + this.#startMs
    this.#restartTimer = this.#clock.setTimer(() => void this.#restart(), delayMs)
  }

  async #restart(): Promise<void> {
    const { thread } = this
    try {
      await this.#startThread()
      if (thread === this.thread && !this.closing) this.#changed('restored')
    } catch (error) {
      if (thread !== this.thread || this.closing) return
      this.#replaceThread()
      const { message } = error as Error
      if (++this.#failedStarts > maxFailedStarts) return this.#giveUp(message)
      this.#scheduleRestart()
      this.#changed('lost', message)
    }
  }

  #giveUp(reason: string): void {
    this.givenUp = true
    this.#changed('failed', reason)
    this.executor.abandon() // a caller that asks something of it gets an answer
    this.#worker.abandonSessions(reason)
  }

  /** See {@link Worker.close}. */
  async close(timeoutMs: number): Promise<boolean> {
    this.closing = true
    if (this.#restartTimer !== null) this.#clock.clearTimer(this.#restartTimer)
    let timer: unknown
    const timedOut = new Promise<boolean>((resolve) => {
      timer = this.#clock.setTimer(() => resolve(false), timeoutMs)
    })
    const ended = await Promise.race([this.#end(), timedOut])
    this.#clock.clearTimer(timer)
    return ended
  }

  async #end(): Promise<boolean> {
    const { executor, serving } = this
    this.serving = false
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
