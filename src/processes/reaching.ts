import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceError } from '../errors.ts'
import { loadBinding } from '../memory/addon.ts'
import { ClientConnection } from './client-connection.ts'
import type { CheckedConnectOptions } from './connect-options.ts'
import { addressOf, checkFolder } from './socket-path.ts'
import { startServer } from './spawn-server.ts'

const shortestPauseMs = 5
const longestPauseMs = 500
/** Codes of the system that say that nobody serves there now. */
const absences: readonly (string | undefined)[] = ['ENOENT', 'ECONNREFUSED', 'EAGAIN', 'ECONNRESET', 'EPIPE']

/** Ways to a serving process, found again whenever it has gone. */
export class Reaching {
  readonly #path: string
  readonly #address: string
  readonly #options: CheckedConnectOptions
  readonly #ending = new AbortController()
  #reached: Promise<ClientConnection> | null = null

  constructor(path: string, options: CheckedConnectOptions) {
    this.#path = path
    this.#address = addressOf(path)
    this.#options = options
  }

  /** A new connection; who asks meanwhile gets the same. @throws InferenceError `ERR_DISCONNECTED` */
  connected(): Promise<ClientConnection> {
    return (this.#reached ??= this.#reach().finally(() => (this.#reached = null)))
  }

  /** Tries no more. */
  end(): void {
    this.#ending.abort()
  }

  async #reach(): Promise<ClientConnection> {
    const { timeoutMs, spawn, sharedMemory } = this.#options
    const processes = loadBinding().binding?.processes ?? null
    const endMs = performance.now() + timeoutMs
    for (let pauseMs = shortestPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      const leftMs = Math.max(1, endMs - performance.now())
      try {
        checkFolder(this.#path, false)
        return await ClientConnection.open(this.#path, this.#address, sharedMemory ? processes : null, leftMs)
      } catch (error) {
        const isAbsent = absences.includes((error as NodeJS.ErrnoException).code)
        if (error instanceof InferenceError) throw error
        if (!isAbsent || performance.now() >= endMs || this.#ending.signal.aborted) throw this.#unreachable(error as Error)
      }
      if (spawn !== null) await startServer(this.#path, spawn, processes, leftMs)
      // Of many that look at once, not all look again at once.
      await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal: this.#ending.signal }).catch(() => {})
    }
  }

  #unreachable(cause: Error): InferenceError {
    const next = this.#options.spawn === null ? 'Start the process that serves there, or have it started with `spawn`.' : 'See the cause.'
    return new InferenceError('ERR_DISCONNECTED', `No process serves at ${this.#path}: ${cause.message}. ${next}`, { name: 'path', received: this.#path, cause })
  }
}
