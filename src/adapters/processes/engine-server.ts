import { lstatSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError } from '../../errors.ts'
import { loadBinding } from '../../native/addon.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'
import { checkServeOptions, type ServeOptions } from './process-options.ts'
import { RingPace, ServedClient, type Serving, ServedMethods } from './served-client.ts'
import { takeLock, type HeldLock, addressOf, checkFolder, userOfPeer } from './serving-place.ts'

/** A new server waits so long for its first client, however short `idleMs` is. */
const firstClientMs = 10_000

/** Activity of a server. */
export interface ServerStatistics {
  /** Clients connected now. */
  readonly clients: number
  /** Clients whose requests come through shared memory. */
  readonly sharingMemory: number
  /**
   * Requests answered, for all past and present clients. Counts per model are in the statistics of the
   * engine.
   */
  readonly requests: number
  /** Requests taken and not answered yet. */
  readonly inFlight: number
}

/** Serves an engine to other processes and threads. Created by {@link serve}. */
export class EngineServer {
  /** The socket path for clients. */
  readonly path: string
  /** Resolves when the server is closed, by {@link close} or because it had no clients for `idleMs`. */
  readonly closed: Promise<void>
  readonly #server: Server
  readonly #lock: HeldLock
  readonly #serving: Serving
  readonly #clients = new Set<ServedClient>()
  readonly #idleMs: number | undefined
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
    this.#serving = {
      engine,
      methods: new ServedMethods(engine),
      processes,
      limits: { maxRequests, maxBytes },
      ringPace: new RingPace(),
      gone: (client) => this.#gone(client),
    }
    this.#server = createServer((socket) => this.#accept(socket))
    this.#server.on('error', () => {}) // a client refused for lack of descriptors tries again
  }

  /**
   * See {@link serve}.
   *
   * @param held the lock of the path, if {@link reserve} took it already. The server owns it from now on.
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

  /** The number of clients and requests. */
  stats(): ServerStatistics {
    let [sharingMemory, requests, inFlight] = [0, this.#requestsOfGone, 0]
    for (const client of this.#clients) {
      if (client.sharesMemory) sharingMemory++
      requests += client.requests
      inFlight += client.inFlight
    }
    return { clients: this.#clients.size, sharingMemory, requests, inFlight }
  }

  /**
   * Refuses new requests, answers the accepted ones, and disconnects all clients. The engine stays open. May
   * be called more than once.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  /** Same as {@link close}. */
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
    await closed // resolves with the last connection
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

  /**
   * The folder keeps other users out. Whoever can enter all the same, such as an administrator, is rejected.
   */
  #isOwn(socket: Socket): boolean {
    const user = userOfPeer(this.#serving.processes, socket)
    return user === undefined || user === process.getuid!()
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

/** `null` if memory cannot be shared. */
const nativeProcesses = () => loadBinding().binding?.processes ?? null

/**
 * Takes the lock of a path, so that no other server can use the path.
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

/**
 * Removes a socket that a crashed server left behind: the lock shows that no server is running. Anything else
 * at that path is kept.
 */
function removeLeftSocket(address: string): void {
  const found = lstatSync(address, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isSocket())
    throw new Error(found.isDirectory() ? 'it is a folder' : 'there is a file that is not a socket')
  rmSync(address, { force: true })
}

/** The `expected` of an error for a path that another server uses. */
export const freePath = 'a path where no other process serves'

function cannotListen(path: string, cause: Error): InferenceError {
  const message = `options.path: cannot listen at ${path}: ${cause.message}. Choose another path.`
  return new InferenceError('ERR_INVALID_ARG', message, {
    name: 'options.path',
    expected: 'a path where a socket can be created',
    received: path,
    cause,
  })
}

function taken(path: string): InferenceError {
  const message = `options.path: expected ${freePath}, received ${path}, where another process serves. Connect to it, or choose another path.`
  return new InferenceError('ERR_INVALID_ARG', message, {
    name: 'options.path',
    expected: freePath,
    received: path,
  })
}
