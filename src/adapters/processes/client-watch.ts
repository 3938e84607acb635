import type { Connection } from './connection.ts'
import { frameKinds } from './frames.ts'
import { messageText } from './messages.ts'

const pulseMs = 1000
/** So many looks at a client that takes nothing of what waits for it. */
const mostIdleLooks = 10

/**
 * Looks after a client from which nothing is read, or which does not read: that such a one has gone is seen only when it is written to, and
 * one that is suspended would have its answers pile up for ever.
 */
export class ClientWatch {
  readonly #connection: Connection
  readonly #mostUnsentBytes: number
  readonly #isBlocked: () => boolean
  #timer: NodeJS.Timeout | undefined
  #sentBytes = 0
  #idleLooks = 0

  /** @param isBlocked whether nothing is read from it now. */
  constructor(connection: Connection, mostUnsentBytes: number, isBlocked: () => boolean) {
    this.#connection = connection
    this.#mostUnsentBytes = mostUnsentBytes
    this.#isBlocked = isBlocked
  }

  /** Begins to look, until nothing is the matter any more. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#look(), pulseMs).unref()
  }

  end(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const { sentBytes, unsentBytes } = this.#connection
    const isIdle = unsentBytes >= this.#mostUnsentBytes && sentBytes === this.#sentBytes
    this.#idleLooks = isIdle ? this.#idleLooks + 1 : 0
    this.#sentBytes = sentBytes
    if (this.#idleLooks >= mostIdleLooks) this.#connection.close('it does not take its answers')
    else if (this.#isBlocked()) this.#connection.sendText(frameKinds.result, messageText({ id: 0 })) // of no call: it is skipped
    else if (unsentBytes < this.#mostUnsentBytes) this.end()
  }
}
