import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type { InferenceEngine } from '../engine.ts'
import { InferenceError } from '../errors.ts'
import { loadBinding } from '../memory/addon.ts'
import type { NativeProcesses } from '../memory/native-processes.ts'
import { checkServeOptions, type ServeOptions } from './serve-options.ts'
import { ServedClient, type Serving } from './served-client.ts'
import { ServedMethods } from './served-methods.ts'
import { takeLock, type HeldLock } from './serving-lock.ts'
import { addressOf, checkFolder } from './socket-path.ts'

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

  private constructor(engine: InferenceEngine, options: ReturnType<typeof checkServeOptions>, processes: NativeProcesses | null, lock: HeldLock) {
    const { path, idleMs, maxRequests, maxBytes } = options
    this.path = path
    this.closed = new Promise((resolve) => (this.#onClosed = resolve))
    this.#lock = lock
    this.#idleMs = idleMs
    this.#processes = processes
    this.#serving = { engine, methods: new ServedMethods(engine), processes, limits: { maxRequests, maxBytes }, gone: (client) => this.#gone(client) }
    this.#server = createServer((socket) => this.#accept(socket))
  }

  /** See {@link serve}. */
  static async start(engine: InferenceEngine, given: ServeOptions): Promise<EngineServer> {
    const options = checkServeOptions(given)
    const address = addressOf(options.path)
    checkFolder(options.path, true)
    const processes = loadBinding().binding?.processes ?? null
    const lock = takeLock(processes, `${options.path}.lock`)
    if (lock === null) throw taken(options.path)
    const server = new EngineServer(engine, options, processes, lock)
    try {
      await server.#listen(address)
    } catch (error) {
      lock.release()
      throw new InferenceError('ERR_INVALID_ARG', `options.path: cannot listen at ${options.path}: ${(error as Error).message}`, { name: 'options.path', cause: error })
    }
    return server
  }

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

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #listen(address: string): Promise<void> {
    // What a server left that did not come to close it: the lock says that there is none.
    if (process.platform !== 'win32') rmSync(address, { force: true })
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
    const { fd } = (socket as unknown as { _handle: { fd?: number } })._handle
    if (this.#processes === null || fd === undefined || fd < 0) return true
    return this.#processes.peer(fd).user === process.getuid!()
  }

  #gone(client: ServedClient): void {
    if (!this.#clients.delete(client)) return
    this.#requestsOfGone += client.requests
    this.#watchIdle()
  }

  #watchIdle(): void {
    if (this.#idleMs === undefined || this.#clients.size > 0 || this.#closing !== null) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => void this.close(), this.#hadClients ? this.#idleMs : Math.max(this.#idleMs, firstClientMs))
  }
}

/** What is expected of a path. */
export const freePath = 'a path at which nobody serves'

function taken(path: string): InferenceError {
  const message = `options.path: expected ${freePath}, received ${path}, where another does. Connect to that, or choose another path.`
  return new InferenceError('ERR_INVALID_ARG', message, { name: 'options.path', expected: freePath, received: path })
}

/**
 * Serves an engine to other processes of this user, and to threads of this one, which have it by {@link connect}. Requests and answers
 * lie in memory that both sides share, on Linux with the addon; elsewhere the socket carries them. It holds the process until it is closed.
 *
 * @throws InferenceError `ERR_INVALID_ARG`: for options that are wrong, a folder that others may enter, a path at which another serves.
 */
export function serve(engine: InferenceEngine, options: ServeOptions): Promise<EngineServer> {
  return EngineServer.start(engine, options)
}
