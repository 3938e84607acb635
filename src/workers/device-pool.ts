import type { WorkerOptions } from '../config/engine-options.ts'
import type { Clock } from '../clock.ts'
import type { Bell } from '../executor/binding/control-block.ts'
import type { WorkerReady } from '../executor/binding/protocol.ts'
import type { WorkerEvent } from '../observability/engine-events.ts'
import { ThreadPool } from './thread-pool.ts'
import type { ThreadSource } from './thread-source.ts'
import { Worker } from './worker.ts'
import { WorkerLink, type WorkerLinkEvents } from '../executor/binding/worker-link.ts'

const defaultStartTimeoutMs = 60_000

/**
 * The worker threads of one device. Piscina owns their lives; work reaches them through shared memory, never through
 * `pool.run`, which only carries the init task that puts a thread to serve.
 */
export class DevicePool implements ThreadSource {
  hosts: Worker[] = []
  readonly #device: string
  readonly #changed: (event: WorkerEvent) => void
  #named = 0
  readonly #maxWorkers: number
  readonly #options: WorkerOptions
  readonly #bell: Bell
  readonly #clock: Clock
  readonly submitted: () => void
  #threads: ThreadPool | null = null
  readonly #ends = new WeakMap<WorkerLink, Promise<string>>()
  #ready: WorkerReady | null = null

  /** @param changed told of what happens to the workers, whose names begin with `device`. */
  constructor(
    device: string,
    maxWorkers: number,
    options: WorkerOptions,
    bell: Bell,
    clock: Clock,
    submitted: () => void,
    changed: (event: WorkerEvent) => void,
  ) {
    this.#device = device
    this.#changed = changed
    this.#maxWorkers = maxWorkers
    this.#options = options
    this.#bell = bell
    this.#clock = clock
    this.submitted = submitted
  }

  /** What the first worker said of its runtime; `null` before one has started. */
  get ready(): WorkerReady | null {
    return this.#ready
  }

  /** `count` hosts for new tenants, the least occupied ones first; starts threads as long as the pool may grow. */
  async place(count: number): Promise<Worker[]> {
    this.hosts = this.hosts.filter(({ givenUp }) => !givenUp)
    const wanted = Math.min(count, this.#maxWorkers)
    const missing = wanted - this.hosts.length
    const starting = Array.from({ length: Math.max(0, missing) }, () => this.#newWorker())
    this.hosts.push(...starting)
    const byOccupation = this.hosts.toSorted((a, b) => a.tenants - b.tenants)
    // Those that another load is just starting are waited for too: what a thread can do is known only then.
    const chosen = byOccupation.slice(0, wanted)
    const results = await Promise.allSettled([...new Set([...starting, ...chosen])].map((host) => host.start()))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return Array.from({ length: count }, (_, index) => chosen[index % wanted]!)
  }

  #newWorker(): Worker {
    const worker = `${this.#device}_${this.#named++}`
    return new Worker(this, this.#clock, (type, reason) => this.#changed({ type, worker, ...(reason === undefined ? {} : { reason }) }))
  }

  link(events: WorkerLinkEvents): WorkerLink {
    return new WorkerLink(this.#bell, events)
  }

  async start(link: WorkerLink): Promise<void> {
    const { setup, transferList } = link.setup()
    const limitMs = this.#options.startTimeoutMs ?? defaultStartTimeoutMs
    let timer: unknown
    const timedOut = new Promise<never>((_, reject) => {
      timer = this.#clock.setTimer(() => reject(new Error(`The worker did not start within ${limitMs} ms.`)), limitMs)
    })
    try {
      this.#threads ??= new ThreadPool(this.#maxWorkers, this.#options)
      const { ready, ended } = this.#threads.start(setup, transferList)
      this.#ends.set(link, ended)
      const died = ended.then((reason) => {
        throw new Error(reason)
      })
      this.#ready = await Promise.race([ready, died, timedOut])
    } catch (error) {
      // A thread that is gone is in ONNX Runtime no more, whatever its last word was.
      void this.#ends.get(link)?.then(() => link.control.leave())
      link.abandon()
      throw error
    } finally {
      this.#clock.clearTimer(timer)
    }
  }

  failure(link: WorkerLink): Promise<string> {
    return this.#ends.get(link) ?? Promise.resolve('the worker thread was never started')
  }

  /** Ends all threads; one that is still inside ONNX Runtime after `timeoutMs` is left to itself. */
  async close(timeoutMs: number): Promise<void> {
    const ended = await Promise.all(this.hosts.map((host) => host.close(timeoutMs)))
    this.hosts = []
    const threads = this.#threads
    this.#threads = null
    if (threads !== null && ended.every(Boolean)) await threads.destroy()
  }
}
