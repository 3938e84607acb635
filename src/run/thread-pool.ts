import type { WorkerOptions } from '../options/engine-options.ts'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import type {
  StartAnswer,
  StartTask,
  ThreadExecutor,
  WorkerReady,
  WorkerSetup,
  StartRefusal,
} from './executors/protocol.ts'
import { ownFile, requireFromPackage } from '../base/own-package.ts'
import { switchOffTelemetry } from './telemetry.ts'
import { InferenceError } from '../errors.ts'

/** What a thread of each kind runs, in `dist/`. */
const threadFiles: Readonly<Record<WorkerSetup['kind'], string>> = {
  native: 'run/worker-thread/native-thread.cjs',
  binding: 'run/worker-thread/serve.cjs',
  function: 'run/function-thread/function-server.cjs',
}

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
      filename: ownFile(threadFiles[kind]),
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
  ready.catch(() => {}) // it may reject when no start waits for it any more
  return ready
}

/** A worker thread's own word that it cannot serve. */
export class StartFailure extends Error {
  /** The code of the underlying error, if it has one. */
  readonly code: string | undefined
  /** Whether onnxruntime-node could not be loaded. */
  readonly onnxruntime: boolean

  constructor({ message, code, onnxruntime }: StartRefusal) {
    super(message)
    this.code = code
    this.onnxruntime = onnxruntime
  }
}

const expected = 'onnxruntime-node 1.25 or newer, loadable on this machine'

const install = 'Run `npm install onnxruntime-node`'
const installAgain = 'Remove node_modules/onnxruntime-node and run `npm install onnxruntime-node` again'

/** What to do, by the words of Node's loaders and the system's; the first that fits counts. */
const remedies: readonly (readonly [words: RegExp, remedy: string])[] = [
  [/Cannot find (?:module|package) 'onnxruntime-(?:node|common)'/, install],
  [
    /is older than/,
    'Run `npm install onnxruntime-node@1`: older ones cannot be loaded again once the thread that had them has ended',
  ],
  [
    /loading addons is disabled/,
    'Start Node, and the workers (workers.execArgv), without --no-addons; with --permission, add --allow-addons',
  ],
  [
    /version `VERS_[\d.]+' not found|did not self-register/,
    'Another version of it is loaded in this process. See `npm ls onnxruntime-node`, and bring all that need it to one version',
  ],
  [
    /version `(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found/,
    'Its binary needs glibc 2.28 and the libstdc++ of GCC 8, or newer ones: use a newer system or container image',
  ],
  [
    /Error (?:loading shared library|relocating)|ld-(?:musl|linux)-/,
    'Its binaries are made for glibc, not for musl (Alpine): use an image such as node:22-slim',
  ],
  [
    /Cannot find module '[^']*onnxruntime_binding\.node'/,
    `It has no binary for ${process.platform}-${process.arch} (there are ones for linux x64 and arm64, macOS arm64, Windows x64 and arm64), or its installation lost it: install it on the platform that runs it`,
  ],
  [/specified module could not be found/, 'On Windows it needs the Microsoft Visual C++ Redistributable'],
  [
    /cannot open shared object file|ELF|mach-o|not a valid Win32|file too short|image not found|Library not loaded/i,
    installAgain,
  ],
]

/**
 * Why a thread could not be started, as a load should reject with it: an `ERR_NATIVE_LOAD` that says what to do when
 * onnxruntime-node cannot be loaded; any other error as it is.
 */
export function startError(error: Error): Error {
  if (!(error instanceof StartFailure) || !error.onnxruntime) return error
  const received = error.message.split('\nRequire stack:', 1)[0]!.trim()
  const remedy = remedies.find(([words]) => words.test(received))?.[1] ?? installAgain
  const message = `onnxruntime-node cannot be loaded: expected ${expected}, received '${received}'. ${remedy}.`
  return new InferenceError('ERR_NATIVE_LOAD', message, { expected, received, cause: error })
}
