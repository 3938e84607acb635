import type { Clock } from '../base/clock.ts'
import type { StagingOptions } from '../options/engine-options.ts'
import type { FunctionSource } from '../options/model-source.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import type { Placement } from '../options/session-options.ts'
import { CompletionLoop } from './executors/binding/binding-executor.ts'
import { SharedMemory } from '../native/staging-memory.ts'
import { ThreadEndedError, type ExecutorEvents } from './executors/executor.ts'
import { FunctionExecutor } from './executors/function/function-executor.ts'
import type { StagingMemory } from '../native/staging-pool.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import { DevicePool } from './device-pool.ts'
import { Worker } from './worker.ts'
import { startAll, type ThreadSource, type WorkerThread } from './worker-threads.ts'
import { ApplicationExecutor } from './executors/function/application-executor.ts'

/** The thread of a function ends itself in less; see {@link FunctionExecutor}. */
const endLimitMs = 10_000

/** The workers of one function. */
type FunctionPool = Pick<DevicePool, 'workers' | 'leastOccupied' | 'made' | 'end' | 'close'>

/**
 * The threads of functions, a pool for each that was loaded. None is ever shared: each instance has a thread of its own, which
 * is ended with it, so that its module is read afresh and nothing of it is left.
 */
export class FunctionPools {
  readonly #clock: Clock
  readonly #changed: (event: WorkerEvent) => void
  readonly #completions = new CompletionLoop()
  readonly #pools = new Set<FunctionPool>()

  constructor(clock: Clock, changed: (event: WorkerEvent) => void) {
    this.#clock = clock
    this.#changed = changed
  }

  /** Where the slots of functions are to lie: JavaScript sees no native memory from another thread. */
  stagingMemory({ limitBytes }: StagingOptions): StagingMemory {
    return new SharedMemory({
      staging: limitBytes === undefined ? {} : { limitBytes },
      accepted: true,
      reason: '',
      inUse: 'functions run in JavaScript',
    })
  }

  /** See `ModelHost.place`. */
  async place(
    model: string,
    config: ResolvedConfig,
    place: (worker: Worker, placement: Placement, group: number) => void,
  ): Promise<void> {
    const pool = this.#newPool(model, config.function!)
    this.#pools.add(pool)
    const taken = new Set<Worker>()
    for (const [group, { count }] of config.instanceGroup.entries()) {
      for (let instance = 0; instance < count; instance++) {
        const worker = pool.leastOccupied(taken)
        taken.add(worker)
        place(worker, { kind: 'cpu', gpu: 0, intraOpNumThreads: 1 }, group)
      }
    }
    await startAll(taken)
  }

  /** Whether a worker is one of a function's. */
  made(worker: Worker): boolean {
    return this.#poolOf(worker) !== undefined
  }

  /** See `ModelHost.placeMore`. */
  async placeMore(beside: Worker, count: number, place: (worker: Worker) => void): Promise<void> {
    const pool = this.#poolOf(beside)
    if (pool === undefined) throw new ThreadEndedError() // the engine is closed
    const taken = new Set<Worker>()
    for (let more = 0; more < count; more++) {
      const worker = pool.leastOccupied(new Set())
      taken.add(worker)
      place(worker)
    }
    await startAll(taken)
  }

  /** Ends the thread of an instance that is closed. */
  async released(worker: Worker): Promise<void> {
    const pool = this.#poolOf(worker)
    if (pool === undefined || worker.sessions > 0) return
    await pool.end(worker, endLimitMs)
    if (pool.workers.length === 0) this.#pools.delete(pool)
  }

  get allWorkers(): Worker[] {
    return [...this.#pools].flatMap(({ workers }) => workers)
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all([...this.#pools].map((pool) => pool.close(timeoutMs)))
    this.#pools.clear()
  }

  #newPool(model: string, source: FunctionSource): FunctionPool {
    if (source.run !== null) return new ApplicationPool(source.concurrency, this.#clock)
    return new DevicePool({
      device: `function ${model}`,
      maxWorkers: Infinity,
      workers: source.workers,
      executors: { inline: null, make: (events) => new FunctionExecutor(this.#completions, events, source) },
      clock: this.#clock,
      changed: this.#changed,
      named: () => this.allWorkers, // two versions have pools of one name
    })
  }

  #poolOf(worker: Worker): FunctionPool | undefined {
    return [...this.#pools].find((pool) => pool.made(worker))
  }
}

/** The instances of a function that the application's thread runs: workers without a thread, placed, fed and scaled as others are. */
class ApplicationPool implements ThreadSource {
  workers: Worker[] = []
  readonly #concurrency: number
  readonly #clock: Clock
  readonly #made = new WeakSet<Worker>()

  constructor(concurrency: number, clock: Clock) {
    this.#concurrency = concurrency
    this.#clock = clock
  }

  leastOccupied(): Worker {
    const worker = new Worker(this, this.#clock, () => {}, 'application')
    this.workers = [...this.workers, worker]
    this.#made.add(worker)
    return worker
  }

  made(worker: Worker): boolean {
    return this.#made.has(worker)
  }

  newThread(events: ExecutorEvents): WorkerThread {
    return {
      executor: new ApplicationExecutor(events, this.#concurrency),
      start: async () => {},
      failure: () => new Promise(() => {}), // it never ends by itself
      detach: async () => {},
      end: async () => {},
    }
  }

  async end(worker: Worker, timeoutMs: number): Promise<void> {
    this.workers = this.workers.filter((other) => other !== worker)
    await worker.close(timeoutMs)
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all(this.workers.map((worker) => this.end(worker, timeoutMs)))
  }
}
