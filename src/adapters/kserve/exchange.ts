import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transform } from 'node:stream'
import { finished } from 'node:stream/promises'
import {
  createGunzip,
  createInflate,
  type ZlibOptions,
  constants,
  createDeflate,
  createGzip,
} from 'node:zlib'
import { nextTurn } from '../../base/clock.ts'
import { type Pieces, slices } from '../../base/slices.ts'
import { InferenceError, type InferenceErrorCode } from '../../errors.ts'
import { watch } from '../../base/abort-watch.ts'
import { followConnection } from '../http/http-requests.ts'
import type { ResolvedKserveOptions } from './kserve.ts'

/** The reason of all exchanges whose client has gone, or is answered: without one, each would make an exception. */
let disconnected: HttpFailure | undefined

const ignored = (_reason: unknown): void => {}

/**
 * Controllers of ended exchanges that never fired. No request watches their signals any more, as all that was begun for those
 * exchanges has settled. To make one costs 3 % of the time of a small request.
 */
const spareControllers: AbortController[] = []
const mostSpare = 256

/** Makes a controller whose signal has one listener for good. Requests add callbacks to that one, which is faster than a listener each. */
function watchedController(): AbortController {
  const controller = new AbortController()
  watch(controller.signal, () => {})
  return controller
}

/** One request and its response, until it is answered or the client has gone. */
export class Exchange {
  readonly request: IncomingMessage
  readonly options: ResolvedKserveOptions
  readonly #response: ServerResponse
  readonly #held: HeldBytes
  readonly #stop = spareControllers.pop() ?? watchedController()
  /** Called when it fires, while the body is read. */
  #onStop = ignored
  /** Resolves when the answer has been sent or the client has gone. */
  readonly #over: Promise<void>
  #isOver = false
  readonly #begunAtMs = performance.now()
  readonly #leave: () => void
  #heldBytes = 0
  /** Of the body, as they came. */
  #chunks = 0
  #chunkBytes = 0
  /** Whether the rest of the body is not worth reading. */
  #dropsRest = false
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
    let resolve!: () => void
    this.#over = new Promise((resolved) => (resolve = resolved))
    this.#leave = followConnection(response, () => {
      this.#isOver = true
      resolve()
      if (!response.writableFinished)
        this.#abort((disconnected ??= new HttpFailure(499, 'The client disconnected.')))
    })
  }

  /** Fires when the client has gone, or the time limit set by {@link limit} has passed. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Ends the exchange after `timeoutMs`: with 504, or by cutting off an answer that has begun. */
  limit(): void {
    const { timeoutMs } = this.options
    this.#timer = setTimeout(() => {
      this.#abort(new HttpFailure(504, `The request was not answered within ${timeoutMs} ms (timeoutMs).`))
      if (this.#response.headersSent) this.#response.destroy()
    }, timeoutMs)
  }

  #abort(reason: HttpFailure): void {
    this.#stop.abort(reason)
    this.#onStop(reason)
  }

  /** Does work in pieces, until the exchange ends. */
  work<T>(pieces: Pieces<T>, bytes: number): Promise<T> {
    return slices.run(pieces, bytes, this.signal)
  }

  /** See {@link readBody}. */
  async body(alignedAt: number | null = null, maxBodyBytes = this.options.maxBodyBytes): Promise<Uint8Array> {
    const hold = (bytes: number) => {
      this.#held.take(bytes)
      this.#heldBytes += bytes
    }
    if (this.request.readableFlowing === null) {
      await Promise.resolve() // by then Node.js has read the body, if it came in the packet of the headers
      const arrived = arrivedBody(this.request, alignedAt, maxBodyBytes)
      if (arrived !== null) {
        hold(arrived.length)
        return arrived
      }
    }
    const { signal, count } = this
    const onStop = (callback: (reason: unknown) => void) => {
      this.#onStop = callback
      if (signal.aborted) callback(signal.reason)
    }
    return readBody(this.request, { ...this.options, maxBodyBytes, onStop, hold, count }, alignedAt)
  }

  /**
   * Counts a chunk of the body.
   *
   * @throws HttpFailure of status 400 for thousands of tiny chunks: each costs time, however short.
   */
  readonly count = (bytes: number): void => {
    this.#chunkBytes += bytes
    if (++this.#chunks <= mostShortChunks || this.#chunkBytes >= shortestChunk * this.#chunks) return
    this.#dropsRest = true
    throw new HttpFailure(
      400,
      `The body: expected chunks of ${shortestChunk} bytes or more on average, received ${this.#chunks} chunks with ${this.#chunkBytes} bytes. Send longer chunks.`,
      closing,
    )
  }

  /** Sends the answer, unless the client has gone. */
  async send(reply: Reply): Promise<void> {
    if (this.#isOver || this.#response.destroyed || this.#response.headersSent) return
    this.#response.on('error', ignored) // the client has gone meanwhile
    await (reply.headers?.['connection'] === 'close' ? this.#sendLast(reply) : this.#send(reply))
    if (this.#dropsRest) this.request.socket.destroy() // it would be read until the client has taken the answer
  }

  #send({ status, headers = {}, parts }: Reply): Promise<void> {
    const response = this.#response
    const length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0)
    const [only] = parts
    const encoding =
      length >= this.options.compressFromBytes
        ? acceptedEncoding(this.request.headers['accept-encoding'])
        : 'identity'
    if (encoding === 'identity') {
      response.writeHead(status, { ...headers, 'content-length': length })
      // As text, Node.js sends it in one piece with the headers, and in the same encoding.
      const isAscii = typeof only === 'string' && only.length === length
      if (isAscii) response.end(only, 'latin1')
      else if (length <= joinedBytes) response.end(parts.map(latin1Of).join(''), 'latin1')
      else {
        response.cork()
        for (const part of parts) response.write(bytesOf(part))
        response.end()
        response.uncork()
      }
    } else {
      response.writeHead(status, { ...headers, 'content-encoding': encoding, vary: 'accept-encoding' })
      const options = { level: constants.Z_BEST_SPEED }
      const encoder = encoding === 'gzip' ? createGzip(options) : createDeflate(options)
      encoder.pipe(response)
      void this.#over.then(() => encoder.destroy())
      for (const part of parts) encoder.write(part)
      encoder.end()
    }
    return this.#over
  }

  /**
   * Sends the last answer of a connection while its request may still be arriving. It reads and drops the rest
   * of the request until that has come, or its time is over. Closing earlier could lose the answer before the
   * client reads it.
   */
  async #sendLast({ status, headers, parts }: Reply): Promise<void> {
    const { request } = this
    const response = this.#response
    const all = joined(parts)
    response.writeHead(status, { ...headers, 'content-length': all.byteLength })
    response.write(all)
    const leftMs = Math.ceil(this.#begunAtMs + this.options.bodyTimeoutMs - performance.now())
    if (!request.complete && !this.#dropsRest && leftMs > 0) {
      const read = finished(request.resume(), { signal: AbortSignal.timeout(leftMs) }).catch(() => {})
      await Promise.race([read, this.#over])
    }
    response.end()
    return this.#over
  }

  /** All that was begun for it has settled. */
  end(): void {
    clearTimeout(this.#timer)
    this.#leave()
    this.#held.giveBack(this.#heldBytes)
    if (!this.#stop.signal.aborted && spareControllers.length < mostSpare) spareControllers.push(this.#stop)
  }
}

/** Any body may have so many chunks. */
const mostShortChunks = 1024
/** Average length of the chunks of a body with more, in bytes. */
const shortestChunk = 16

/** The bytes of the bodies of all requests, and their limit. */
export class HeldBytes {
  readonly #most: number
  #held = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @throws HttpFailure of status 503 if the limit is reached. */
  take(bytes: number): void {
    if (this.#held + bytes > this.#most)
      throw new HttpFailure(
        503,
        `The requests in flight hold ${this.#held} of ${this.#most} bytes (maxHeldBytes). Try again when some have been answered.`,
        { 'retry-after': '1', connection: 'close' },
      )
    this.#held += bytes
  }

  giveBack(bytes: number): void {
    this.#held -= bytes
  }
}

/** Longer bodies are paced, in bytes: all that comes in a turn of the event loop could be megabytes. */
const smallBody = 4096

/**
 * A small body that came together with its headers: listeners and a timer for it would take a tenth of the time of its request. `null` for
 * any other.
 */
function arrivedBody(
  request: IncomingMessage,
  alignedAt: number | null,
  maxBodyBytes: number,
): Buffer | null {
  const length = Number(request.headers['content-length'])
  if (request.readableLength !== length || length > Math.min(smallBody, maxBodyBytes)) return null
  if (length === 0 || request.readableDidRead || request.headers['content-encoding'] !== undefined)
    return null
  const body = request.read() as Buffer
  request.resume() // to its end
  if (liesWell(body, alignedAt)) return body
  const before = bytesBefore(alignedAt)
  const copy = Buffer.allocUnsafe(before + length).subarray(before)
  copy.set(body)
  return copy
}

/** Bytes of bodies to read per turn of the event loop. A socket can bring 2 MiB in a turn, for which all other requests wait. */
const bytesPerTurn = 2 ** 18
/** Paused bodies that are read on in one turn: each brings 64 KiB at once. */
const bodiesPerTurn = 4

/** Pauses bodies when a turn has read enough, and resumes them in the next turn. */
class PacedReading {
  readonly #paused = new Set<IncomingMessage>()
  #bytesInTurn = 0
  #turnIsDue = false

  /** Counts a chunk of a body, and pauses the body if this turn has read enough. */
  came(request: IncomingMessage, bytes: number): void {
    this.#turnLater()
    this.#bytesInTurn += bytes
    if (this.#bytesInTurn < bytesPerTurn) return
    request.pause()
    this.#paused.add(request)
  }

  /** Forgets a body that is no longer read: what is left of it flows by. */
  ended(request: IncomingMessage): void {
    if (this.#paused.delete(request)) request.resume()
  }

  #turnLater(): void {
    if (this.#turnIsDue) return
    this.#turnIsDue = true
    nextTurn(this.#turn)
  }

  readonly #turn = (): void => {
    this.#turnIsDue = false
    this.#bytesInTurn = 0
    let left = bodiesPerTurn
    for (const request of this.#paused) {
      if (left-- === 0) break
      this.#paused.delete(request)
      request.resume()
    }
    if (this.#paused.size > 0) this.#turnLater()
  }
}

/** One for all handlers of this thread. */
const reading = new PacedReading()

/** The unread rest of a body would block the next request on the connection. */
const closing = { connection: 'close' }

/** The first tensor of a body is aligned to so many bytes: the size of the largest element. */
const alignment = 8
/** Most bytes allocated for what Content-Length announces, before the body has come. */
const trustedBytes = 2 ** 20

const decoders: Readonly<Record<string, (options: ZlibOptions) => Transform>> = {
  gzip: createGunzip,
  deflate: createInflate,
}

/** Limits of a body, and callbacks for its bytes. */
interface BodyLimits extends Pick<
  ResolvedKserveOptions,
  'maxBodyBytes' | 'maxDecompressedBytes' | 'bodyTimeoutMs'
> {
  /** Has `callback` called with the reason if the exchange ends before its answer: at once, if it has. A later callback replaces it. */
  onStop(callback: (reason: unknown) => void): void
  /** @throws HttpFailure if the limit is reached. */
  hold(bytes: number): void
  /** Called for each chunk as it comes. @throws HttpFailure if they are too short. */
  count(bytes: number): void
}

/**
 * Reads the body of a request. It decompresses as data comes, so it never holds more than is counted. Each
 * received byte is copied once, unless the body came in one piece and lies well.
 *
 * @param alignedAt where a part begins that is to be aligned, so that elements of any size can be viewed in place; `null` for none.
 * @throws HttpFailure 408, 413, 415, 400 if it cannot be decompressed, 503; the reason of an early end.
 */
export async function readBody(
  request: IncomingMessage,
  limits: BodyLimits,
  alignedAt: number | null = null,
): Promise<Uint8Array> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase()
  const decoder = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined
  if (decoder === undefined && encoding !== 'identity')
    throw new HttpFailure(
      415,
      `Content-Encoding: expected identity, gzip or deflate, received '${encoding.slice(0, 40)}'.`,
      closing,
    )
  if (request.readableDidRead)
    throw new HttpFailure(
      500,
      'The body was already read. Mount kserve() before any middleware that parses bodies.',
    )
  const declared = request.headers['content-length']
  const { maxBodyBytes, maxDecompressedBytes, bodyTimeoutMs, onStop, hold, count } = limits
  if (Number(declared ?? 0) > maxBodyBytes) throw tooLarge('maxBodyBytes', maxBodyBytes)
  const decompressor = declared === '0' ? undefined : decoder?.({ chunkSize: 65_536 })
  const source = decompressor === undefined ? request : request.pipe(decompressor)
  const said = decompressor === undefined && declared !== undefined ? Number(declared) : undefined
  const limit =
    decompressor !== undefined && maxDecompressedBytes < maxBodyBytes
      ? 'maxDecompressedBytes'
      : 'maxBodyBytes'
  const mostBytes = limits[limit]
  const before = bytesBefore(alignedAt)
  return new Promise((resolve, reject) => {
    const most = before + (said ?? mostBytes)
    let bytes: Buffer | null = null
    let received = 0
    const end = (settle: () => void) => {
      clearTimeout(timer)
      reading.ended(request)
      source.off('data', onData).off('end', onEnd)
      request.off('data', onChunk).off('error', onGone).off('close', onGone)
      if (decompressor !== undefined) request.unpipe(decompressor.destroy()).resume()
      onStop(ignored)
      settle()
    }
    const fail = (reason: unknown) => end(() => reject(reason))
    const onGone = () => {
      if (!request.complete) fail(new HttpFailure(400, 'The connection ended before the body did.'))
    }
    const onEnd = () => end(() => resolve(bytes?.subarray(before, before + received) ?? noBytes))
    const onChunk = (chunk: Buffer) => {
      try {
        count(chunk.length)
        if (decompressor === undefined) reading.came(request, chunk.length)
      } catch (error) {
        request.pause() // else chunks that have already come would still be read
        fail(error)
      }
    }
    const onData = (chunk: Buffer) => {
      try {
        if (received + chunk.length > mostBytes) throw tooLarge(limit, mostBytes)
        hold(chunk.length)
        if (chunk.length === said && liesWell(chunk, alignedAt)) return end(() => resolve(chunk))
        bytes ??= Buffer.allocUnsafeSlow(said === undefined ? 0 : Math.min(most, trustedBytes))
        if (before + received + chunk.length > bytes.length)
          bytes = longer(bytes, before + received + chunk.length, most)
        bytes.set(chunk, before + received)
        received += chunk.length
      } catch (error) {
        fail(error)
      }
    }
    const timer = setTimeout(
      () =>
        fail(
          new HttpFailure(
            408,
            `The body did not arrive within ${bodyTimeoutMs} ms (bodyTimeoutMs).`,
            closing,
          ),
        ),
      bodyTimeoutMs,
    )
    // First what counts and paces: what comes after it may be the end of reading.
    request.on('data', onChunk).on('error', onGone).on('close', onGone)
    source.on('data', onData).on('end', onEnd)
    decompressor?.on('error', (error) =>
      fail(new HttpFailure(400, `The body does not match its Content-Encoding: ${error.message}.`)),
    )
    onStop(fail)
  })
}

const noBytes = Buffer.alloc(0)

/** Unused bytes before a body in memory, so that the part at `alignedAt` is aligned. */
function bytesBefore(alignedAt: number | null): number {
  return alignedAt === null ? 0 : (alignment - (alignedAt % alignment)) % alignment
}

/** Whether a body is aligned as it came, and keeps no more memory than twice its own. */
function liesWell({ buffer, byteOffset, length }: Buffer, alignedAt: number | null): boolean {
  return buffer.byteLength <= 2 * length && (alignedAt === null || (byteOffset + alignedAt) % alignment === 0)
}

/** Doubles the buffer within the limit, so that a long body is copied only a few times. */
function longer(bytes: Buffer, least: number, most: number): Buffer<ArrayBuffer> {
  const copy = Buffer.allocUnsafeSlow(Math.max(least, Math.min(2 * bytes.length, most)))
  copy.set(bytes)
  return copy
}

function tooLarge(limit: 'maxBodyBytes' | 'maxDecompressedBytes', most: number): HttpFailure {
  return new HttpFailure(
    413,
    `The body${limit === 'maxBodyBytes' ? '' : ', decompressed'}: expected ${most} bytes at most (${limit}), received more.`,
    closing,
  )
}

/** Answers up to this size are joined: one copy costs less than writing several parts. */
const joinedBytes = 16_384

/** An answer. Its parts are written in order. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly parts: readonly (Uint8Array | string)[]
}

const bytesOf = (part: Uint8Array | string): Uint8Array =>
  typeof part === 'string' ? Buffer.from(part) : part
/** A part as text that has a character for each of its bytes. */
function latin1Of(part: Uint8Array | string): string {
  if (typeof part === 'string' && Buffer.byteLength(part) === part.length) return part
  return (Buffer.isBuffer(part) ? part : Buffer.from(part as string)).toString('latin1')
}
const joined = (parts: Reply['parts']): Buffer => Buffer.concat(parts.map(bytesOf))

export function jsonReply(value: unknown, status = 200, headers: Reply['headers'] = {}): Reply {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    parts: [JSON.stringify(value)],
  }
}

/** An answer with a status only. */
export const emptyReply: Reply = { status: 200, parts: [] }

/** The encoding that the client prefers: gzip, deflate or none. */
function acceptedEncoding(header: string | string[] | undefined): 'gzip' | 'deflate' | 'identity' {
  let [best, most]: [ReturnType<typeof acceptedEncoding>, number] = ['identity', 0]
  for (const each of String(header ?? '')
    .toLowerCase()
    .split(',')
    .slice(0, 16)) {
    const [, name, weight = '1'] =
      /^\s*(gzip|deflate|identity)\s*(?:;\s*q=([\d.]{1,8}))?\s*$/.exec(each) ?? []
    if (name !== undefined && Number(weight) > most) [best, most] = [name as typeof best, Number(weight)]
  }
  return best
}

/** An error response. */
export class HttpFailure extends Error {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    this.status = status
    this.headers = headers
  }
}

/** HTTP status of each error code of the library; Triton's status where it has one. */
export const statusOfCode: Readonly<Record<InferenceErrorCode, number>> = {
  ERR_INVALID_ARG: 400,
  ERR_MODEL_CONFIG: 400,
  ERR_SEQUENCE_ENDED: 400,
  ERR_IMAGE_DECODE: 400,
  ERR_MODEL_NOT_FOUND: 404,
  ERR_MODEL_IN_USE: 409,
  ERR_MODEL_LOAD: 500,
  ERR_NATIVE_LOAD: 500,
  ERR_PLATFORM: 500,
  ERR_EXECUTION: 500,
  ERR_INSTANCE_CRASHED: 500,
  ERR_LEASE_ENDED: 500,
  ERR_MODEL_NOT_READY: 503,
  ERR_QUEUE_FULL: 503,
  ERR_CLOSED: 503,
  ERR_DISCONNECTED: 503,
  ERR_TIMEOUT: 504,
  ERR_DEADLINE: 504,
}

/** The response for an error. For a foreign error it has no details, as its message may contain anything. */
export function httpFailureOf(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error
  if (!(error instanceof InferenceError))
    return new HttpFailure(500, 'The server failed in an unexpected way.')
  const { code, message, retryAfterMs } = error
  const headers: Record<string, string> =
    retryAfterMs === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
  return new HttpFailure(statusOfCode[code], message, headers)
}
