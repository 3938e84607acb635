import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ResourceLimits } from 'node:worker_threads'
import { Piscina } from 'piscina'
import type { Clock } from '../clock.ts'
import type { Bell } from './control-block.ts'
import type { WorkerReady } from './protocol.ts'
import { WorkerHost, type ThreadSource } from './worker-host.ts'
import { WorkerLink, type WorkerLinkEvents } from './worker-link.ts'

/** Settings of worker threads, passed on to `node:worker_threads`. */
export interface WorkerOptions {
  resourceLimits?: ResourceLimits
  execArgv?: string[]
  env?: Record<string, string>
  /** How long a worker may take to start, in milliseconds. Default 60 000. */
  startTimeoutMs?: number
}

const defaultStartTimeoutMs = 60_000
/** The port of a dying thread closes a moment before or after Piscina hears of its error, if there was one. */
const reasonWaitMs = 100

/**
 * The worker threads of one device. Piscina owns their lives; work reaches them through shared memory, never through
 * `pool.run`, which only carries the init task that puts a thread to serve.
 */
export class DevicePool implements ThreadSource {
  readonly hosts: WorkerHost[] = []
  readonly #maxWorkers: number
  readonly #options: WorkerOptions
  readonly #bell: Bell
  readonly #clock: Clock
  readonly submitted: () => void
  readonly #initialised = new Set<number>()
  #piscina: Piscina | null = null
  readonly #reasons: string[] = [] // of deaths whose port has not closed yet
  readonly #waiting: ((reason: string) => void)[] = []
  #ready: WorkerReady | null = null

  constructor(maxWorkers: number, options: WorkerOptions, bell: Bell, clock: Clock, submitted: () => void) {
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
  async place(count: number): Promise<WorkerHost[]> {
    const wanted = Math.min(count, this.#maxWorkers)
    const missing = wanted - this.hosts.length
    const starting = Array.from({ length: Math.max(0, missing) }, () => new WorkerHost(this, this.#clock))
    this.hosts.push(...starting)
    const results = await Promise.allSettled(starting.map((host) => host.start()))
    for (const [index, result] of results.entries()) {
      if (result.status === 'fulfilled') continue
      this.hosts.splice(this.hosts.indexOf(starting[index]!), 1)
    }
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    const byOccupation = this.hosts.toSorted((a, b) => a.tenants - b.tenants)
    return Array.from({ length: count }, (_, index) => byOccupation[index % byOccupation.length]!)
  }

  link(events: WorkerLinkEvents): WorkerLink {
    return new WorkerLink(this.#bell, events)
  }

  async start(link: WorkerLink): Promise<void> {
    const { setup, transferList } = link.setup()
    const limitMs = this.#options.startTimeoutMs ?? defaultStartTimeoutMs
    let timer: unknown
    const timedOut = new Promise<never>((_, reject) => {
      // Piscina leaves the tasks of a worker that never comes up pending for ever.
      timer = this.#clock.setTimer(() => reject(new Error(`The worker did not start within ${limitMs} ms.`)), limitMs)
    })
    try {
      const run = this.#pool().run(setup, { transferList }) as Promise<WorkerReady>
      this.#ready = await Promise.race([run, timedOut])
    } catch (error) {
      link.abandon()
      throw error
    } finally {
      this.#clock.clearTimer(timer)
    }
  }

  failure(): Promise<string> {
    const known = this.#reasons.shift()
    if (known !== undefined) return Promise.resolve(known)
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#clock.setTimer(() => resolve('the worker thread ended'), reasonWaitMs)
    })
  }

  /** Ends all threads; one that is still inside ONNX Runtime after `timeoutMs` is left to itself. */
  async close(timeoutMs: number): Promise<void> {
    const ended = await Promise.all(this.hosts.map((host) => host.close(timeoutMs)))
    this.hosts.length = 0
    const piscina = this.#piscina
    this.#piscina = null
    if (piscina !== null && ended.every(Boolean)) await piscina.destroy()
  }

  #pool(): Piscina {
    if (this.#piscina !== null) return this.#piscina
    const { resourceLimits, execArgv, env } = this.#options
    const piscina = new Piscina({
      filename: workerFile(),
      minThreads: 0,
      maxThreads: this.#maxWorkers,
      idleTimeout: Infinity,
      // A parked worker would run no timers and handle no messages.
      atomics: 'disabled',
      recordTiming: false,
      // Each thread gets exactly one init task: whoever has had one is never a candidate again.
      loadBalancer: (_task, workers) => {
        const worker = workers.find(({ id, destroyed }) => !destroyed && !this.#initialised.has(id))
        if (worker !== undefined) this.#initialised.add(worker.id)
        return worker ?? null
      },
      ...(resourceLimits === undefined ? {} : { resourceLimits }),
      ...(execArgv === undefined ? {} : { execArgv }),
      ...(env === undefined ? {} : { env }),
    })
    piscina.on('error', (error: Error) => {
      const waiting = this.#waiting.splice(0)
      if (waiting.length === 0) this.#reasons.push(error.message)
      for (const resolve of waiting) resolve(error.message)
    })
    this.#piscina = piscina
    return piscina
  }
}

/** The compiled worker beside this file, or in `dist/` when this file runs from its TypeScript source. */
function workerFile(): string {
  const beside = fileURLToPath(new URL('../worker/main.js', import.meta.url))
  return existsSync(beside) ? beside : fileURLToPath(new URL('../../dist/worker/main.js', import.meta.url))
}
