import type { Clock } from '../base/clock.ts'
import { ApplicationExecutor } from './executors/function/application-executor.ts'
import type { ExecutorEvents } from './executors/executor.ts'
import type { ThreadSource } from './thread-source.ts'
import { Worker } from './worker.ts'

/** The instances of a function that the application's thread runs: as workers, for whoever places, feeds and scales them. */
export class ApplicationPool implements ThreadSource<ApplicationExecutor> {
  workers: Worker[] = []
  readonly #concurrency: number
  readonly #clock: Clock
  readonly #made = new WeakSet<Worker>()

  constructor(concurrency: number, clock: Clock) {
    this.#concurrency = concurrency
    this.#clock = clock
  }

  leastOccupied(): Worker {
    const worker = new Worker(this, this.#clock, () => {}, 'application') as unknown as Worker
    this.workers = [...this.workers, worker]
    this.#made.add(worker)
    return worker
  }

  made(worker: Worker): boolean {
    return this.#made.has(worker)
  }

  executor(events: ExecutorEvents): ApplicationExecutor {
    return new ApplicationExecutor(events, this.#concurrency)
  }

  async start(): Promise<void> {}

  /** It never ends by itself. */
  failure(): Promise<string> {
    return new Promise(() => {})
  }

  async leave(): Promise<void> {}

  submitted(): void {}

  async end(worker: Worker, timeoutMs: number): Promise<void> {
    this.workers = this.workers.filter((other) => other !== worker)
    await worker.close(timeoutMs)
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all(this.workers.map((worker) => this.end(worker, timeoutMs)))
  }
}
