import type { WorkerOptions } from '../options/engine-options.ts'
import type { Clock } from '../base/clock.ts'
import type { CompletionSource } from './executors/binding/completion-loop.ts'
import type { Executors } from './executor-choice.ts'
import type { InlineBudget } from './inline-budget.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import { startError, ThreadPool, type StartedThread } from './thread-pool.ts'
import type { ThreadSource } from './thread-source.ts'
import { Worker } from './worker.ts'
import type { ThreadExecutor, WorkerReady } from './executors/thread-start.ts'
import type { ExecutorEvents } from './executors/executor.ts'

const defaultStartTimeoutMs = 60_000

/** What a pool needs of the way in which its threads run something. */
type PoolExecutors = Pick<Executors, 'inline' | 'make' | 'submitted'>

/**
 * The worker threads of one device. Piscina owns their lives; work reaches them through shared memory, never through
 * `pool.run`, which only carries the init task that puts a thread to serve.
 */
export class DevicePool implements ThreadSource<ThreadExecutor> {
  workers: Worker<ThreadExecutor>[] = []
  readonly #device: string
  readonly #changed: (event: WorkerEvent) => void
  readonly #maxWorkers: number
  readonly #named: () => readonly Pick<Worker, 'name'>[]
  readonly #options: WorkerOptions
  readonly #executors: PoolExecutors
  readonly #clock: Clock
  #threads: ThreadPool | null = null
  readonly #started = new WeakMap<ThreadExecutor, StartedThread>()
  readonly #made = new WeakSet<Worker>()
  #ready: WorkerReady | null = null

  /**
   * @param changed told of what happens to the workers, whose names begin with `device`.
   * @param named those whose names no other may have. Default: those of the pool.
   */
  constructor(
    device: string,
    maxWorkers: number,
    options: WorkerOptions,
    executors: PoolExecutors,
    clock: Clock,
    changed: (event: WorkerEvent) => void,
    named = (): readonly Pick<Worker, 'name'>[] => this.workers,
  ) {
    this.#device = device
    this.#named = named
    this.#changed = changed
    this.#maxWorkers = maxWorkers
    this.#options = options
    this.#executors = executors
    this.#clock = clock
  }

  /** What the first worker said of its runtime; `null` before one has started. */
  get ready(): WorkerReady | null {
    return this.#ready
  }

  /**
   * The worker for one more session: the one with the fewest, and of those the one that has had least to do; a new one as
   * long as all have sessions and the pool may grow. Its thread may still have to be started.
   *
   * @param apartFrom workers that are taken only when there is no other.
   * @param leaving the workers of sessions that do not count, as they are about to be released.
   */
  leastOccupied(apartFrom: ReadonlySet<Worker>, leaving: readonly Worker[] = []): Worker {
    this.workers = this.workers.filter(({ givenUp }) => !givenUp)
    const others = this.workers.filter((worker) => !apartFrom.has(worker))
    const staying = (worker: Worker) => worker.sessions - leaving.filter((other) => other === worker).length
    const [least] = (others.length > 0 ? others : this.workers).toSorted(
      (a, b) => staying(a) - staying(b) || a.busyShare - b.busyShare,
    )
    if (
      least !== undefined &&
      ((staying(least) === 0 && others.length > 0) || this.workers.length >= this.#maxWorkers)
    )
      return least
    const added = this.#newWorker()
    this.workers.push(added)
    this.#made.add(added)
    return added
  }

  /** Whether a worker is one of its own, or was before it was given up. */
  made(worker: Worker): boolean {
    return this.#made.has(worker)
  }

  #newWorker(): Worker<ThreadExecutor> {
    const taken = this.#named().map(({ name }) => name)
    let number = 0
    while (taken.includes(`${this.#device}_${number}`)) number++
    const worker = `${this.#device}_${number}`
    return new Worker(
      this,
      this.#clock,
      (type, reason) => this.#changed({ type, worker, ...(reason === undefined ? {} : { reason }) }),
      worker,
    )
  }

  get inline(): InlineBudget | null {
    return this.#executors.inline
  }

  executor(events: ExecutorEvents): ThreadExecutor {
    return this.#executors.make(events)
  }

  submitted(worker: CompletionSource): void {
    this.#executors.submitted(worker)
  }

  async start(executor: ThreadExecutor): Promise<void> {
    const limitMs = this.#options.startTimeoutMs ?? defaultStartTimeoutMs
    let timer: unknown
    const timedOut = new Promise<never>((_, reject) => {
      timer = this.#clock.setTimer(
        () => reject(new Error(`The worker did not start within ${limitMs} ms.`)),
        limitMs,
      )
    })
    let thread: StartedThread | null = null
    try {
      this.#threads ??= new ThreadPool(this.#options)
      thread = this.#threads.start(executor)
      this.#started.set(executor, thread)
      const died = thread.ended.then((reason) => {
        throw new Error(reason)
      })
      this.#ready = await Promise.race([thread.ready, died, timedOut])
    } catch (error) {
      executor.abandon()
      void thread?.end() // not waited for: it may hang
      throw startError(error as Error)
    } finally {
      this.#clock.clearTimer(timer)
    }
  }

  failure(executor: ThreadExecutor): Promise<string> {
    return this.#started.get(executor)?.ended ?? Promise.resolve('the worker thread was never started')
  }

  leave(executor: ThreadExecutor): Promise<void> {
    executor.abandon()
    void this.#started.get(executor)?.end()
    return executor.stop()
  }

  /** Ends a worker that has no session, and its thread. May be called twice. */
  async end(worker: Worker, timeoutMs: number): Promise<void> {
    if (!this.workers.includes(worker as Worker<ThreadExecutor>)) return
    this.workers = this.workers.filter((other) => other !== worker)
    await worker.close(timeoutMs)
    await this.#started.get(worker.executor as ThreadExecutor)?.end()
  }

  /** Ends all threads; one that is still inside ONNX Runtime after `timeoutMs` is left to itself. */
  async close(timeoutMs: number): Promise<void> {
    // One that was given up has no thread, or one that is left to itself already.
    const workers = this.workers.filter(({ givenUp }) => !givenUp)
    const ended = await Promise.all(workers.map((worker) => worker.close(timeoutMs)))
    this.workers = []
    const destroyed = this.#threads?.destroy()
    this.#threads = null
    if (ended.every(Boolean)) await destroyed
  }
}
