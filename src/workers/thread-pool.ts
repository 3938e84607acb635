import type { WorkerOptions } from '../config/engine-options.ts'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { TransferListItem } from 'node:worker_threads'
import { ArrayTaskQueue, Piscina } from 'piscina'
import type { WorkerReady, WorkerSetup } from '../executor/binding/protocol.ts'

/** A thread that was asked for. */
export interface StartedThread {
  /** What its init task answered. Stays pending when the thread dies before it can run the task. */
  readonly ready: Promise<WorkerReady>
  /** Resolves when the thread is gone, with the reason in words. */
  readonly ended: Promise<string>
}

/** Travels with an init task, so that the thread that was started for it runs it, and no other. */
interface Ticket {
  threadId: number
}

const ticketOf = Piscina.queueOptionsSymbol as unknown as 'ticket'

/**
 * Piscina with one task per thread: the one that puts it to serve. Which thread serves what is known, and what becomes
 * of it: Piscina would leave the task of a thread that dies at its start pending, for the next thread to find.
 */
export class ThreadPool {
  readonly #queue = new ArrayTaskQueue()
  readonly #piscina: Piscina

  constructor(maxThreads: number, { resourceLimits, execArgv, env }: WorkerOptions) {
    this.#piscina = new Piscina({
      filename: workerFile(),
      minThreads: 0,
      maxThreads,
      idleTimeout: Infinity,
      // A parked worker would run no timers and handle no messages.
      atomics: 'disabled',
      recordTiming: false,
      taskQueue: this.#queue,
      loadBalancer: (task, workers) => {
        const { threadId } = (task as unknown as { ticket: Ticket })[ticketOf]
        return workers.find(({ id, destroyed }) => id === threadId && !destroyed) ?? null
      },
      ...(resourceLimits === undefined ? {} : { resourceLimits }),
      ...(execArgv === undefined ? {} : { execArgv }),
      ...(env === undefined ? {} : { env }),
    })
    this.#piscina.on('error', () => {}) // each thread's end is listened for below
  }

  /** Starts a thread; throws what `new Worker` throws. */
  start(setup: WorkerSetup, transferList: TransferListItem[]): StartedThread {
    const piscina = this.#piscina
    const before = new Set(piscina.threads)
    const ticket: Ticket = { threadId: 0 } // the main thread's: none of the pool's
    const dropTask = () => {
      const task = this.#queue.tasks.find((queued) => (queued as unknown as { ticket: Ticket })[ticketOf] === ticket)
      if (task !== undefined) this.#queue.remove(task)
    }
    let ready: Promise<WorkerReady>
    try {
      ready = piscina.run({ ...setup, [ticketOf]: ticket }, { transferList }) as Promise<WorkerReady>
    } catch (error) {
      dropTask()
      throw error
    }
    const thread = piscina.threads.find((candidate) => !before.has(candidate))!
    ticket.threadId = thread.threadId
    const ended = new Promise<string>((resolve) => {
      let reason: string | null = null
      thread.once('error', (error: Error) => (reason = error.message))
      thread.once('exit', (code) => {
        dropTask()
        resolve(reason ?? `the worker thread ended with exit code ${code}`)
      })
    })
    return { ready, ended }
  }

  /** Terminates all threads; none may be inside ONNX Runtime. */
  destroy(): Promise<void> {
    return this.#piscina.destroy()
  }
}

/** The compiled worker beside this file, or in `dist/` when this file runs from its TypeScript source. */
function workerFile(): string {
  const beside = fileURLToPath(new URL('../worker-thread/start.js', import.meta.url))
  return existsSync(beside) ? beside : fileURLToPath(new URL('../../dist/worker-thread/start.js', import.meta.url))
}
