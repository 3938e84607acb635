import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { InferenceError } from '../../errors.ts'
import { loadBinding } from '../../native/addon.ts'
import { untilAborted } from '../../request/abort-watch.ts'
import { ClientConnection } from './client-connection.ts'
import type { CheckedConnectOptions } from './connect-options.ts'
import { addressOf, checkFolder } from './socket-path.ts'

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
    this.#path = resolve(path) // this process may change its working folder
    this.#address = addressOf(path)
    this.#options = options
  }

  /** A new connection; who asks meanwhile gets the same. @throws InferenceError `ERR_DISCONNECTED`, and what {@link end} is given. */
  connected(): Promise<ClientConnection> {
    this.#reached ??= this.#reach().finally(() => (this.#reached = null))
    return untilAborted(this.#reached, this.#ending.signal) // a process that is being started takes its time
  }

  /** Tries no more; who waits is rejected with this. */
  end(error: InferenceError): void {
    this.#ending.abort(error)
  }

  async #reach(): Promise<ClientConnection> {
    const { timeoutMs, spawn, sharedMemory } = this.#options
    const processes = loadBinding().binding?.processes ?? null
    const endMs = performance.now() + timeoutMs
    for (let pauseMs = shortestPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      const leftMs = Math.max(1, endMs - performance.now())
      try {
        checkFolder(this.#path, false)
        const connection = await ClientConnection.open(
          this.#path,
          this.#address,
          processes,
          sharedMemory,
          leftMs,
        )
        if (!this.#ending.signal.aborted) return connection
        connection.close('it was reached too late')
      } catch (error) {
        const isAbsent = absences.includes((error as NodeJS.ErrnoException).code)
        if (error instanceof InferenceError) throw error
        if (!isAbsent || performance.now() >= endMs) throw this.#unreachable(error as Error, isAbsent)
      }
      const starting = spawn === null ? null : await import('./spawn-server.ts') // others do not take the memory of what it needs
      this.#ending.signal.throwIfAborted()
      if (spawn !== null) await starting!.startServer(this.#path, spawn, processes, leftMs)
      // Of many that look at once, not all look again at once.
      await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal: this.#ending.signal }).catch(() => {})
    }
  }

  #unreachable(cause: Error, isAbsent: boolean): InferenceError {
    const what = isAbsent
      ? `No process serves at ${this.#path}`
      : `The process that serves at ${this.#path} cannot be connected to`
    const next =
      isAbsent && this.#options.spawn === null
        ? 'Start the process that serves there, or have it started with `spawn`.'
        : 'See the cause.'
    return new InferenceError('ERR_DISCONNECTED', `${what}: ${cause.message}. ${next}`, {
      name: 'path',
      received: this.#path,
      cause,
    })
  }
}
