import type { IncomingMessage, ServerResponse } from 'node:http'
import { followConnection } from '../http/connection-end.ts'
import { slices, type Pieces } from '../../base/slices.ts'
import type { HeldBytes } from './held-bytes.ts'
import { HttpFailure } from './http-failure.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'
import { send, sendLast, type Reply } from './reply.ts'
import { readBody } from './request-body.ts'

/** One request, and what goes for it until it is answered or its client has gone. */
export class Exchange {
  readonly request: IncomingMessage
  readonly options: ResolvedKserveOptions
  readonly #response: ServerResponse
  readonly #held: HeldBytes
  readonly #stop = new AbortController()
  /** Fires when there is nobody to answer any more. */
  readonly #gone = new AbortController()
  readonly #begunAtMs = performance.now()
  readonly #leave: () => void
  #heldBytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    options: ResolvedKserveOptions,
    held: HeldBytes,
  ) {
    this.request = request
    this.options = options
    this.#response = response
    this.#held = held
    this.#leave = followConnection(response, () => {
      this.#gone.abort()
      if (!response.writableFinished) this.#stop.abort(new HttpFailure(499, 'The client has gone.'))
    })
  }

  /** Fires when the client goes, or the time is over that {@link limit} sets. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Has it end after `timeoutMs`: with 504, or where the answer is under way by cutting it off. */
  limit(): void {
    const { timeoutMs } = this.options
    this.#timer = setTimeout(() => {
      this.#stop.abort(
        new HttpFailure(504, `The request was not answered within ${timeoutMs} ms (timeoutMs).`),
      )
      if (this.#response.headersSent) this.#response.destroy()
    }, timeoutMs)
  }

  /** Does work for it in pieces, until it ends. */
  work<T>(pieces: Pieces<T>, bytes: number): Promise<T> {
    return slices.run(pieces, bytes, this.signal)
  }

  /** See {@link readBody}. */
  body(alignedAt = 0, maxBodyBytes = this.options.maxBodyBytes): Promise<Uint8Array> {
    const hold = (bytes: number) => {
      this.#held.take(bytes)
      this.#heldBytes += bytes
    }
    const { maxDecompressedBytes, bodyTimeoutMs } = this.options
    return readBody(
      this.request,
      { maxBodyBytes, maxDecompressedBytes, bodyTimeoutMs, signal: this.signal, hold },
      alignedAt,
    )
  }

  /** Sends the answer, unless there is nobody to send it to. */
  async send(reply: Reply): Promise<void> {
    if (this.#gone.signal.aborted || this.#response.destroyed || this.#response.headersSent) return
    const { compressFromBytes, bodyTimeoutMs } = this.options
    const gone = this.#gone.signal
    const sent =
      reply.headers?.['connection'] === 'close'
        ? sendLast(this.request, this.#response, reply, this.#begunAtMs + bodyTimeoutMs, gone)
        : send(this.request, this.#response, reply, compressFromBytes, gone)
    await sent.catch(() => {}) // it has gone meanwhile
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#leave()
    this.#held.giveBack(this.#heldBytes)
  }
}
