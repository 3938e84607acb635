import { lstatSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError } from '../../errors.ts'
import { loadBinding } from '../../native/addon.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'
import { checkServeOptions, type ServeOptions } from './process-options.ts'
import { ServedClient, type Serving } from './served-client.ts'
import { ServedMethods } from './served-methods.ts'
import { takeLock, type HeldLock } from './serving-lock.ts'
import { addressOf, checkFolder, descriptorOf } from './socket-path.ts'

/** Who has a server started has to come to it, however soon it is to end without clients. */
const firstClientMs = 10_000

/** What a server has done so far. */
export interface ServerStatistics {
  /** Connected now. */
  readonly clients: number
  /** Of these, those whose requests come through shared memory. */
  readonly sharingMemory: number
  /** Answered, of all clients that there ever were; those of the models are in the statistics of the engine. */
  readonly requests: number
  /** Taken and not answered yet. */
  readonly inFlight: number
}

/** Serves an engine to other processes and threads; made by {@link serve}. */
export class EngineServer {
  /** Where clients find it. */
  readonly path: string
  /** Resolves when it is closed, by {@link close} or for want of clients. */
  readonly closed: Promise<void>
  readonly #server: Server
  readonly #lock: HeldLock
  readonly #serving: Serving
  readonly #clients = new Set<ServedClient>()
  readonly #idleMs: number | undefined
  readonly #processes: NativeProcesses | null
  #requestsOfGone = 0
  #hadClients = false
  #idle: NodeJS.Timeout | undefined
  #closing: Promise<void> | null = null
  #onClosed!: () => void

  private constructor(
    engine: InferenceEngine,
    options: ReturnType<typeof checkServeOptions>,
    processes: NativeProcesses | null,
    lock: HeldLock,
  ) {
    const { path, idleMs, maxRequests, maxBytes } = options
    this.path = path
    this.closed = new Promise((resolve) => (this.#onClosed = resolve))
    this.#lock = lock
    this.#idleMs = idleMs
    this.#processes = processes
    this.#serving = {
      engine,
      methods: new ServedMethods(engine),
      processes,
      limits: { maxRequests, maxBytes },
      gone: (client) => this.#gone(client),
    }
    this.#server = createServer((socket) => this.#accept(socket))
    this.#server.on('error', () => {}) // a client that the system has no room for asks again
  }

  /**
   * See {@link serve}.
   *
   * @param held the lock of the path, of who has it already by {@link reserve}; it is the server's from now on.
   */
  static async start(engine: InferenceEngine, given: ServeOptions, held?: HeldLock): Promise<EngineServer> {
    const options = checkServeOptions(given)
    const lock = held ?? reserve(options.path)
    const server = new EngineServer(engine, options, nativeProcesses(), lock)
    try {
      await server.#listen(addressOf(options.path))
    } catch (error) {
      lock.release()
      throw cannotListen(options.path, error as Error)
    }
    return server
  }

  /** Who is connected, and what was asked. */
  stats(): ServerStatistics {
    let [sharingMemory, requests, inFlight] = [0, this.#requestsOfGone, 0]
    for (const client of this.#clients) {
      if (client.sharesMemory) sharingMemory++
      requests += client.requests
      inFlight += client.inFlight
    }
    return { clients: this.#clients.size, sharingMemory, requests, inFlight }
  }

  /** Takes no more requests, answers those accepted, and lets all clients go. The engine stays as it is. May be called more than once. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #listen(address: string): Promise<void> {
    if (process.platform !== 'win32') removeLeftSocket(address)
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(address, () => {
        this.#server.off('error', reject)
        resolve()
      })
    })
    this.#watchIdle()
  }

  async #close(): Promise<void> {
    clearTimeout(this.#idle)
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const client of this.#clients) client.end()
    await closed // with the last of its connections
    this.#lock.release()
    this.#onClosed()
  }

  #accept(socket: Socket): void {
    clearTimeout(this.#idle)
    if (this.#closing !== null || !this.#isOwn(socket)) {
      socket.destroy()
      return this.#watchIdle()
    }
    this.#hadClients = true
    this.#clients.add(new ServedClient(socket, this.#serving))
  }

  /** The folder keeps others out; who came in all the same, as the system's administrator may, is turned away. */
  #isOwn(socket: Socket): boolean {
    const descriptor = descriptorOf(socket)
    if (this.#processes === null || descriptor === undefined) return true
    return this.#processes.peer(descriptor).user === process.getuid!()
  }

  #gone(client: ServedClient): void {
    if (!this.#clients.delete(client)) return
    this.#requestsOfGone += client.requests
    this.#watchIdle()
  }

  #watchIdle(): void {
    if (this.#idleMs === undefined || this.#clients.size > 0 || this.#closing !== null) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(
      () => void this.close(),
      this.#hadClients ? this.#idleMs : Math.max(this.#idleMs, firstClientMs),
    )
  }
}

/** `null` where memory cannot be shared. */
const nativeProcesses = () => loadBinding().binding?.processes ?? null

/**
 * Has nobody else serve at a path from now on.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function reserve(path: string): HeldLock {
  addressOf(path)
  checkFolder(path, true)
  let lock: HeldLock | null
  try {
    lock = takeLock(nativeProcesses(), `${path}.lock`)
  } catch (error) {
    throw cannotListen(path, error as Error)
  }
  if (lock === null) throw taken(path)
  return lock
}

/** What a server left that did not come to close it: the lock says that there is none. Whatever else lies there is somebody's. */
function removeLeftSocket(address: string): void {
  const found = lstatSync(address, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isSocket())
    throw new Error(found.isDirectory() ? 'it is a folder' : 'a file is there that is no socket')
  rmSync(address, { force: true })
}

/** What is expected of a path. */
export const freePath = 'a path at which nobody serves'

function cannotListen(path: string, cause: Error): InferenceError {
  const message = `options.path: cannot listen at ${path}: ${cause.message}. Choose another path.`
  return new InferenceError('ERR_INVALID_ARG', message, {
    name: 'options.path',
    expected: 'a path at which a socket can be made',
    received: path,
    cause,
  })
}

function taken(path: string): InferenceError {
  const message = `options.path: expected ${freePath}, received ${path}, where another does. Connect to that, or choose another path.`
  return new InferenceError('ERR_INVALID_ARG', message, {
    name: 'options.path',
    expected: freePath,
    received: path,
  })
}
