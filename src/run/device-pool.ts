import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { Piscina } from 'piscina'
import type { Clock } from '../base/clock.ts'
import { ownFile, requireFromPackage } from '../base/own-package.ts'
import { InferenceError } from '../errors.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import type { WorkerOptions } from '../options/engine-options.ts'
import type { Executors } from './executor-choice.ts'
import type { ExecutorEvents } from './executors/executor.ts'
import { NativeExecutor } from './executors/native/native-executor.ts'
import type {
  StartAnswer,
  StartRefusal,
  StartTask,
  ThreadExecutor,
  WorkerReady,
  WorkerSetup,
} from './executors/protocol.ts'
import { switchOffTelemetry } from './telemetry.ts'
import type { InlineBudget } from './thread-time.ts'
import { Worker } from './worker.ts'
import type { ThreadSource, WorkerThread } from './worker-threads.ts'

/** What a thread of each kind runs, in `dist/`. */
const threadFiles: Readonly<Record<WorkerSetup['kind'], string>> = {
  binding: 'run/worker-thread/serve.cjs',
  function: 'run/function-thread/function-server.cjs',
}

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
 * The workers of one device, threads of the addon or of Node.js. Piscina owns the lives of the latter; work reaches them through shared
 * memory, never through `pool.run`, which only carries the init task that puts a thread to serve.
 */
export class DevicePool implements ThreadSource {
  workers: Worker[] = []
  /** What a worker said of its runtime, the last that started; `null` before one has. */
  ready: WorkerReady | null = null
  /** Those that were started, and are neither gone nor about to be. */
  readonly threads = new Set<DeviceThread>()
  readonly #options: DevicePoolOptions
  readonly #made = new WeakSet<Worker>()

  constructor(options: DevicePoolOptions) {
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
    const { executors, workers, clock } = this.#options
    const made = executors.make(events)
    return made instanceof NativeExecutor ? made : new DeviceThread(this, made, workers, clock)
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
    const threads = new Set([...this.threads, ...workers.map(({ threads }) => threads.thread)])
    const destroyed = Promise.all([...threads].map((thread) => thread.end()))
    if (ended.every(Boolean)) await destroyed
  }
}

/**
 * A thread of a pool, from before it is started: a Piscina of one thread and one task. A Piscina ends all its threads or none,
 * and leaves the task of a thread that dies at its start to the next one it starts.
 */
class DeviceThread implements WorkerThread {
  readonly executor: ThreadExecutor
  readonly #pool: DevicePool
  readonly #options: WorkerOptions
  readonly #clock: Clock
  #piscina: Piscina | null = null
  /** Resolves when the thread is gone, with the reason in words. */
  #ended = Promise.resolve('the worker thread was never started')

  constructor(pool: DevicePool, executor: ThreadExecutor, options: WorkerOptions, clock: Clock) {
    this.#pool = pool
    this.executor = executor
    this.#options = options
    this.#clock = clock
  }

  async start(): Promise<void> {
    const limitMs = this.#options.startTimeoutMs ?? defaultStartTimeoutMs
    let timer: unknown
    const timedOut = new Promise<never>((_, reject) => {
      timer = this.#clock.setTimer(
        () => reject(new Error(`The worker did not start within ${limitMs} ms.`)),
        limitMs,
      )
    })
    try {
      const ready = this.#begin()
      const died = this.#ended.then((reason) => {
        throw new Error(reason)
      })
      this.#pool.ready = await Promise.race([ready, died, timedOut])
    } catch (error) {
      this.executor.abandon()
      void this.end() // not waited for: it may hang
      throw startError(error as Error)
    } finally {
      this.#clock.clearTimer(timer)
    }
  }

  /**
   * Starts it; throws what `new Worker` of Node throws.
   *
   * @returns what it says once it serves. Stays pending when the thread ends, or hangs, before it can say either.
   */
  #begin(): Promise<WorkerReady> {
    switchOffTelemetry(this.#options.env)
    const { setup, transferList } = this.executor.setup()
    const piscina = newPiscina(setup.kind, this.#options)
    const { port1: answers, port2: answer } = new MessageChannel()
    const task: StartTask = { setup, answer }
    try {
      // Settles long before the thread serves; how that went comes as a message.
      piscina.run(task, { transferList: [...transferList, answer] }).catch(() => {})
    } catch (error) {
      answers.close()
      throw error
    }
    this.#piscina = piscina
    this.#ended = endOf(piscina, () => answers.close())
    this.#pool.threads.add(this)
    this.executor.started?.(() => this.end())
    void this.#ended.then(() => {
      this.executor.threadEnded()
      this.#pool.threads.delete(this)
    })
    return readyFrom(answers)
  }

  failure(): Promise<string> {
    return this.#ended
  }

  detach(): Promise<void> {
    this.executor.abandon()
    void this.end()
    return this.executor.stop()
  }

  /**
   * Ends the thread as soon as it is not inside ONNX Runtime, which it may not enter any more; resolves when it is gone.
   * Until then it holds neither the process nor a place for another thread.
   */
  async end(): Promise<void> {
    if (this.#piscina === null) return
    this.#pool.threads.delete(this)
    await this.executor.stop()
    await Promise.all([this.#piscina.destroy(), this.#ended])
  }
}

function newPiscina(kind: WorkerSetup['kind'], { resourceLimits, execArgv, env }: WorkerOptions): Piscina {
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
