import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished } from 'node:stream/promises'
import { constants, createDeflate, createGzip } from 'node:zlib'
import { InferenceError, type InferenceErrorCode } from '../../errors.ts'

/** Answers up to this size are joined: one copy costs less than writing several parts. */
const joinedBytes = 16_384

/** An answer. Its parts are written in order. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly parts: readonly Uint8Array[]
}

export function jsonReply(value: unknown, status = 200, headers: Reply['headers'] = {}): Reply {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    parts: [Buffer.from(JSON.stringify(value))],
  }
}

/** An answer with a status only. */
export const emptyReply: Reply = { status: 200, parts: [] }

/** Sends an answer, and resolves when it has been sent or `gone` fires. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers = {}, parts }: Reply,
  compressFromBytes: number,
  gone: AbortSignal,
): Promise<void> {
  const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const encoding =
    length >= compressFromBytes ? acceptedEncoding(request.headers['accept-encoding']) : 'identity'
  const sent = finished(response, { signal: gone })
  if (encoding === 'identity') {
    response.writeHead(status, { ...headers, 'content-length': length })
    if (length <= joinedBytes) response.end(parts.length === 1 ? parts[0] : Buffer.concat(parts))
    else writeAll(response, parts)
  } else {
    response.writeHead(status, { ...headers, 'content-encoding': encoding, vary: 'accept-encoding' })
    const options = { level: constants.Z_BEST_SPEED }
    const encoder = encoding === 'gzip' ? createGzip(options) : createDeflate(options)
    encoder.pipe(response)
    gone.addEventListener('abort', () => encoder.destroy())
    for (const part of parts) encoder.write(part)
    encoder.end()
  }
  await sent
}

/**
 * Sends the last answer of a connection while its request may still be arriving. It reads and drops the rest
 * of the request until that has come, or until `untilMs`. Closing earlier could lose the answer before the
 * client reads it.
 */
export async function sendLast(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, parts }: Reply,
  untilMs: number,
  gone: AbortSignal,
): Promise<void> {
  const all = Buffer.concat(parts)
  response.writeHead(status, { ...headers, 'content-length': all.byteLength })
  response.write(all)
  const leftMs = Math.ceil(untilMs - performance.now())
  if (!request.complete && leftMs > 0)
    await finished(request.resume(), { signal: AbortSignal.any([AbortSignal.timeout(leftMs), gone]) }).catch(
      () => {},
    )
  response.end()
  await finished(response, { signal: gone })
}

function writeAll(response: ServerResponse, parts: Reply['parts']): void {
  response.cork()
  for (const part of parts) response.write(part)
  response.end()
  response.uncork()
}

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
export function failureOf(error: unknown): HttpFailure {
  if (error instanceof HttpFailure) return error
  if (!(error instanceof InferenceError))
    return new HttpFailure(500, 'The server failed in an unexpected way.')
  const { code, message, retryAfterMs } = error
  const headers: Record<string, string> =
    retryAfterMs === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
  return new HttpFailure(statusOfCode[code], message, headers)
}
