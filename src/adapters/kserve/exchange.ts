import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Pieces, slices } from '../../base/slices.ts'
import { followConnection } from '../http/connection-end.ts'
import { HttpFailure } from './http-failure.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'
import { type Reply, send, sendLast } from './reply.ts'
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

/** Bytes of the bodies of all requests, of which there may be so many at once. */
export class HeldBytes {
  readonly #most: number
  #held = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @throws HttpFailure of status 503 where there is no room. */
  take(bytes: number): void {
    if (this.#held + bytes > this.#most)
      throw new HttpFailure(
        503,
        `The requests that are under way hold ${this.#held} of ${this.#most} bytes (maxHeldBytes). Try again when some are answered.`,
        { 'retry-after': '1', connection: 'close' },
      )
    this.#held += bytes
  }

  giveBack(bytes: number): void {
    this.#held -= bytes
  }
}
