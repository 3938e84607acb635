import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { lstatSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import type { Pieces } from '../../base/slices.ts'
import type { InferenceEngine } from '../../engine.ts'
import { InferenceError } from '../../errors.ts'
import type { Model } from '../../model.ts'
import type { ModelConfig } from '../../options/model-config.ts'
import { untilAborted } from '../../base/abort-watch.ts'
import { checkServeOptions, type ServeOptions } from './process-options.ts'
import { RingPace, ServerConnection, type Serving } from './server-connection.ts'
import {
  takeLock,
  type HeldLock,
  addressOf,
  checkFolder,
  nativeProcesses,
  userOfPeer,
} from './serving-place.ts'
import { toTextAndBytes, writtenPieces } from './tagged-json.ts'

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
  readonly #clients = new Set<ServerConnection>()
  readonly #idleMs: number | undefined
  #requestsOfGone = 0
  #hadClients = false
  #idle: NodeJS.Timeout | undefined
  #closing: Promise<void> | null = null
  #onClosed!: () => void

  private constructor(
    engine: InferenceEngine,
    options: ReturnType<typeof checkServeOptions>,
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
      processes: nativeProcesses(),
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
    const server = new EngineServer(engine, options, lock)
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
    await once(this.#server.listen(address), 'listening')
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
    this.#clients.add(new ServerConnection(socket, this.#serving))
  }

  /**
   * The folder keeps other users out. Whoever can enter all the same, such as an administrator, is rejected.
   */
  #isOwn(socket: Socket): boolean {
    const user = userOfPeer(socket)
    return user === undefined || user === process.getuid!()
  }

  #gone(client: ServerConnection): void {
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
    lock = takeLock(`${path}.lock`)
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

/** Bytes of a model hashed in one piece. */
const hashedBytes = 2 ** 19

interface SharedLoad {
  readonly config: string
  readonly loading: Promise<Model>
  readonly stop: AbortController
  /** Clients waiting for the load. */
  waiting: number
  model: Model | null
}

/**
 * The methods of an engine, other than inference, that clients may call. One instance serves all clients, so
 * that they share loaded models.
 */
export class ServedMethods {
  readonly #engine: InferenceEngine
  readonly #loads = new Map<string, SharedLoad>()

  constructor(engine: InferenceEngine) {
    this.#engine = engine
  }

  /**
   * Begins a call, in pieces.
   *
   * @param signal fires when the client has gone.
   * @returns a promise that rejects with `ERR_INVALID_ARG` for an unknown method, and with the engine's
   * errors.
   */
  *begin(
    method: string,
    args: readonly unknown[],
    signal?: AbortSignal,
  ): Pieces<{ readonly result: Promise<unknown> }> {
    if (method !== 'load') return { result: this.#call(method, args) }
    const [name, config] = args as [string, ModelConfig | null]
    const text = yield* configText(config)
    return { result: this.#load(name, config, text, signal) }
  }

  async #call(method: string, args: readonly unknown[]): Promise<unknown> {
    const engine = this.#engine
    const [name, second] = args as [string, never]
    switch (method) {
      case 'unload':
        await engine.unload(name, second ?? {})
        return this.#forgetUnloaded()
      case 'alive':
        return null
      case 'stats':
        return engine.stats()
      case 'modelStats':
        return engine.model(name, second ?? undefined).stats()
      case 'metadata':
        return engine.model(name, second ?? undefined).metadata
      case 'classes': {
        const { metadata, labels } = engine.model(name, second ?? undefined)
        return { metadata, labels: [...labels] }
      }
      case 'models':
        return engine
          .models()
          .map((model) => ({ name: model.name, state: model.state, versions: model.versions }))
      case 'capabilities':
        return engine.capabilities()
      default:
        throw new InferenceError('ERR_INVALID_ARG', `The serving process knows no method '${method}'.`)
    }
  }

  #forgetUnloaded(): void {
    for (const [key, { model }] of this.#loads)
      if (model !== null && model.state === 'closed') this.#loads.delete(key)
  }

  /**
   * Processes that start with the same configuration load a model once: later clients share the loaded or
   * loading model. A load without waiting clients is aborted.
   */
  async #load(
    name: string,
    config: ModelConfig | null,
    text: string,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly version: number }> {
    signal?.throwIfAborted()
    const key = JSON.stringify([name, String(config?.version ?? 1)])
    const known = this.#loads.get(key)
    const isShared =
      config !== null &&
      known?.config === text &&
      (known.model === null ? !known.stop.signal.aborted : known.model.state === 'ready')
    const load = isShared ? known : this.#begin(key, name, config, text)
    load.waiting++
    try {
      const { version } = await untilAborted(load.loading, signal)
      return { version }
    } finally {
      if (--load.waiting === 0 && load.model === null) load.stop.abort(signal?.reason) // no client wants it
    }
  }

  #begin(key: string, name: string, config: ModelConfig | null, text: string): SharedLoad {
    const stop = new AbortController()
    const load: SharedLoad = {
      config: text,
      loading: this.#engine.load(name, config ?? undefined, { signal: stop.signal }),
      stop,
      waiting: 0,
      model: null,
    }
    this.#loads.set(key, load)
    load.loading.then(
      (model) => (load.model = model),
      () => this.#loads.get(key) === load && this.#loads.delete(key),
    )
    return load
  }
}

/** A text that identifies a configuration. It has hashes of model bytes, so that the bytes are not kept. */
function* configText(config: ModelConfig | null): Pieces<string> {
  const arrays: Uint8Array[] = []
  const text = yield* writtenPieces(config, (leaf) => {
    const written = toTextAndBytes(leaf)
    arrays.push(...written.arrays)
    return written.text
  })
  if (arrays.length === 0) return text!
  const hash = createHash('sha256')
  for (const array of arrays) {
    for (let at = 0; at < array.byteLength; at += hashedBytes) {
      hash.update(array.subarray(at, at + hashedBytes))
      yield
    }
  }
  return text! + hash.digest('hex')
}
