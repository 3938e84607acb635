import type { WorkerOptions } from '../options/engine-options.ts'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import type {
  StartAnswer,
  StartTask,
  ThreadExecutor,
  WorkerReady,
  WorkerSetup,
} from './executors/thread-start.ts'
import { ownFile, requireFromPackage } from '../base/own-package.ts'
import { StartFailure } from './start-error.ts'
import { switchOffTelemetry } from './telemetry.ts'

/** A thread that was asked for. */
export interface StartedThread {
  /**
   * What it says once it serves; rejects with a {@link StartFailure} when it says that it cannot. Stays pending when
   * the thread ends, or hangs, before it can say either.
   */
  readonly ready: Promise<WorkerReady>
  /** Resolves when the thread is gone, with the reason in words. */
  readonly ended: Promise<string>
  /**
   * Ends the thread as soon as it is not inside ONNX Runtime, which it may not enter any more; resolves when it is gone.
   * Until then it holds neither the process nor a place for another thread.
   */
  end(): Promise<void>
}

/**
 * Starts and ends threads, a Piscina of one thread and one task for each: a Piscina ends all its threads or none, and
 * leaves the task of a thread that dies at its start to the next one it starts.
 */
export class ThreadPool {
  readonly #options: WorkerOptions
  readonly #threads = new Set<StartedThread>()

  constructor(options: WorkerOptions) {
    this.#options = options
  }

  /** Starts a thread; throws what `new Worker` throws. */
  start(executor: ThreadExecutor): StartedThread {
    switchOffTelemetry(this.#options.env)
    const { setup, transferList } = executor.setup()
    const piscina = this.#newPiscina(setup.kind)
    const { port1: answers, port2: answer } = new MessageChannel()
    const task: StartTask = { setup, answer }
    try {
      // Settles long before the thread serves; how that went comes as a message.
      piscina.run(task, { transferList: [...transferList, answer] }).catch(() => {})
    } catch (error) {
      answers.close()
      throw error
    }
    const ended = endOf(piscina, () => answers.close())
    void ended.then(() => executor.threadEnded())
    const thread = { ready: readyFrom(answers), ended, end: () => this.#end(thread, piscina, executor) }
    this.#threads.add(thread)
    executor.started?.(thread.end)
    void ended.then(() => this.#threads.delete(thread))
    return thread
  }

  /** Ends all threads, as {@link StartedThread.end} does; waits for none that was to be ended before. */
  async destroy(): Promise<void> {
    await Promise.all([...this.#threads].map((thread) => thread.end()))
  }

  #newPiscina(kind: WorkerSetup['kind']): Piscina {
    const { resourceLimits, execArgv, env } = this.#options
    // By its own files, as it starts its threads from one: not out of a bundle.
    const { Piscina } = requireFromPackage('piscina') as typeof import('piscina')
    const piscina = new Piscina({
      filename: ownFile(
        kind === 'function' ? 'run/function-thread/function-entry.cjs' : 'run/worker-thread/entry.cjs',
      ),
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: Infinity,
      // A parked worker would run no timers and handle no messages.
      atomics: 'disabled',
      recordTiming: false,
      ...(resourceLimits === undefined ? {} : { resourceLimits }),
      ...(execArgv === undefined ? {} : { execArgv }),
      ...(env === undefined ? {} : { env }),
    })
    return piscina.on('error', () => {}) // each thread's end is listened for
  }

  async #end(thread: StartedThread, piscina: Piscina, executor: ThreadExecutor): Promise<void> {
    this.#threads.delete(thread)
    await executor.stop()
    await Promise.all([piscina.destroy(), thread.ended])
  }
}

/** Resolves with the reason when the only thread of `piscina` has ended, after `closed` was called. */
function endOf(piscina: Piscina, closed: () => void): Promise<string> {
  const thread = piscina.threads[0]!
  return new Promise((resolve) => {
    let reason: string | null = null
    thread.once('error', (error: Error) => (reason = error.message))
    thread.once('exit', (code) => {
      closed()
      resolve(reason ?? `the worker thread ended with exit code ${code}`)
    })
  })
}

function readyFrom(answers: MessagePort): Promise<WorkerReady> {
  const ready = new Promise<WorkerReady>((resolve, reject) => {
    answers.once('message', (answer: StartAnswer) => {
      answers.close()
      if ('ready' in answer) resolve(answer.ready)
      else reject(new StartFailure(answer.failed))
    })
  })
  answers.unref()
  ready.catch(() => {}) // it may come when nobody waits any more
  return ready
}
