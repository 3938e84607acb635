import type { WorkerOptions } from '../options/engine-options.ts'
import type { Clock } from '../base/clock.ts'
import type { Executors } from './executor-choice.ts'
import type { InlineBudget } from './thread-time.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import { startError, ThreadPool, type StartedThread } from './thread-pool.ts'
import { Worker } from './worker.ts'
import type { ThreadSource, WorkerThread } from './worker-threads.ts'
import type { ThreadExecutor, WorkerReady } from './executors/protocol.ts'
import type { ExecutorEvents } from './executors/executor.ts'

const defaultStartTimeoutMs = 60_000

/** What a {@link DevicePool} is made of. */
interface DevicePoolOptions {
  /** The device, or the function, with which the names of its workers begin. */
  readonly device: string
  readonly maxWorkers: number
  readonly workers: WorkerOptions
  /** How its threads run something. */
  readonly executors: Pick<Executors, 'inline' | 'make'>
  readonly clock: Clock
  /** Notified of what happens to the workers. */
  readonly changed: (event: WorkerEvent) => void
  /** Those whose names no other may have. Default: those of the pool. */
  readonly named?: () => readonly Pick<Worker, 'name'>[]
}

/**
 * The worker threads of one device. Piscina owns their lives; work reaches them through shared memory, never through
 * `pool.run`, which only carries the init task that puts a thread to serve.
 */
export class DevicePool implements ThreadSource {
  workers: Worker[] = []
  /** What a worker said of its runtime, the last that started; `null` before one has. */
  ready: WorkerReady | null = null
  readonly clock: Clock
  readonly #options: DevicePoolOptions
  #threads: ThreadPool | null = null
  readonly #made = new WeakSet<Worker>()

  constructor(options: DevicePoolOptions) {
    this.clock = options.clock
    this.#options = options
  }

  /**
   * The worker for one more session: the one with the fewest, and of those the one that has had least to do; a new one as
   * long as all have sessions and the pool may grow. Its thread may still have to be started.
   *
   * @param apartFrom workers that are taken only when there is no other.
   * @param leaving the workers of sessions that do not count, as they are about to be released.
   */
  leastOccupied(apartFrom: ReadonlySet<Worker>, leaving: readonly Worker[] = []): Worker {
    this.workers = this.workers.filter(({ threads }) => !threads.givenUp)
    const others = this.workers.filter((worker) => !apartFrom.has(worker))
    const staying = (worker: Worker) => worker.sessions - leaving.filter((other) => other === worker).length
    const [least] = (others.length > 0 ? others : this.workers).toSorted(
      (a, b) => staying(a) - staying(b) || a.busyShare - b.busyShare,
    )
    if (
      least !== undefined &&
      ((staying(least) === 0 && others.length > 0) || this.workers.length >= this.#options.maxWorkers)
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

  #newWorker(): Worker {
    const { device, clock, changed, named = () => this.workers } = this.#options
    const taken = named().map(({ name }) => name)
    let number = 0
    while (taken.includes(`${device}_${number}`)) number++
    const worker = `${device}_${number}`
    return new Worker(
      this,
      clock,
      (type, reason) => changed({ type, worker, ...(reason === undefined ? {} : { reason }) }),
      worker,
    )
  }

  get inline(): InlineBudget | null {
    return this.#options.executors.inline
  }

  newThread(events: ExecutorEvents): WorkerThread {
    return new DeviceThread(this, this.#options.executors.make(events))
  }

  /** How long a thread may take to serve, in milliseconds. */
  get startTimeoutMs(): number {
    return this.#options.workers.startTimeoutMs ?? defaultStartTimeoutMs
  }

  /** Starts the thread of an executor; throws what `new Worker` of Node throws. */
  startThread(executor: ThreadExecutor): StartedThread {
    this.#threads ??= new ThreadPool(this.#options.workers)
    return this.#threads.start(executor)
  }

  /** Ends a worker that has no session, and its thread. May be called twice. */
  async end(worker: Worker, timeoutMs: number): Promise<void> {
    if (!this.workers.includes(worker)) return
    this.workers = this.workers.filter((other) => other !== worker)
    await worker.close(timeoutMs)
    await worker.threads.thread.end()
  }

  /** Ends all threads; one that is still inside ONNX Runtime after `timeoutMs` is detached. */
  async close(timeoutMs: number): Promise<void> {
    // One that was given up has no thread, or one that is detached already.
    const workers = this.workers.filter(({ threads }) => !threads.givenUp)
    const ended = await Promise.all(workers.map((worker) => worker.close(timeoutMs)))
    this.workers = []
    const destroyed = this.#threads?.destroy()
    this.#threads = null
    if (ended.every(Boolean)) await destroyed
  }
}

/** A thread of a pool, from before it is started. */
class DeviceThread implements WorkerThread {
  readonly executor: ThreadExecutor
  readonly #pool: DevicePool
  #started: StartedThread | null = null

  constructor(pool: DevicePool, executor: ThreadExecutor) {
    this.#pool = pool
    this.executor = executor
  }

  async start(): Promise<void> {
    const { clock, startTimeoutMs } = this.#pool
    let timer: unknown
    const timedOut = new Promise<never>((_, reject) => {
      timer = clock.setTimer(
        () => reject(new Error(`The worker did not start within ${startTimeoutMs} ms.`)),
        startTimeoutMs,
      )
    })
    try {
      const thread = (this.#started = this.#pool.startThread(this.executor))
      const died = thread.ended.then((reason) => {
        throw new Error(reason)
      })
      this.#pool.ready = await Promise.race([thread.ready, died, timedOut])
    } catch (error) {
      this.executor.abandon()
      void this.end() // not waited for: it may hang
      throw startError(error as Error)
    } finally {
      clock.clearTimer(timer)
    }
  }

  failure(): Promise<string> {
    return this.#started?.ended ?? Promise.resolve('the worker thread was never started')
  }

  detach(): Promise<void> {
    this.executor.abandon()
    void this.end()
    return this.executor.stop()
  }

  async end(): Promise<void> {
    await this.#started?.end()
  }
}
