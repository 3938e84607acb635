import { Buffer } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gunzip, inflate, type ZlibOptions } from 'node:zlib'
import { HttpFailure } from './http-failure.ts'
import type { ResolvedKserveOptions } from './kserve-options.ts'

/** What is left of a body that is not read would hold up the next request of its connection. */
const closing = { connection: 'close' }

/** Bytes to which the first tensor of a body is aligned: the longest element's. */
const alignment = 8
/** Of the length that is said of a body, what is believed before it has come. */
const trustedBytes = 2 ** 20

const decoders: Readonly<Record<string, (data: Uint8Array, options: ZlibOptions) => Promise<Buffer>>> = { gzip: promisify(gunzip), deflate: promisify(inflate) }

/** What is asked of a body, and who is told of its bytes. */
export interface BodyLimits extends Pick<ResolvedKserveOptions, 'maxBodyBytes' | 'bodyTimeoutMs'> {
  readonly signal: AbortSignal
  /** @throws HttpFailure where they are too many. */
  hold(bytes: number): void
}

/**
 * Reads the body of a request, decompressed. It lies so that what begins at `alignedAt` can be looked at as elements of any
 * size where it is: to copy what has arrived once is all that is done to it.
 *
 * @throws HttpFailure 408, 413, 415, 400 where it cannot be decompressed, 503; the signal's reason.
 */
export async function readBody(request: IncomingMessage, limits: BodyLimits, alignedAt = 0): Promise<Uint8Array> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase()
  const decode = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined
  if (decode === undefined && encoding !== 'identity') throw new HttpFailure(415, `Content-Encoding: expected identity, gzip or deflate, received '${encoding.slice(0, 40)}'.`, closing)
  if (request.readableDidRead) throw new HttpFailure(500, 'The body has been read already. Mount kserve() before any middleware that parses bodies.')
  const bytes = await receive(request, limits, alignedAt)
  if (decode === undefined || bytes.byteLength === 0) return bytes
  const { maxBodyBytes } = limits
  const decoded = await decode(bytes, { maxOutputLength: maxBodyBytes }).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge(maxBodyBytes) : new HttpFailure(400, `The body is no ${encoding}: ${error.message}.`)
  })
  limits.hold(decoded.byteLength)
  return decoded
}

function receive(request: IncomingMessage, { maxBodyBytes, bodyTimeoutMs, signal, hold }: BodyLimits, alignedAt: number): Promise<Uint8Array> {
  const declared = request.headers['content-length']
  if (Number(declared ?? 0) > maxBodyBytes) throw tooLarge(maxBodyBytes)
  const before = (alignment - (alignedAt % alignment)) % alignment
  return new Promise((resolve, reject) => {
    const most = before + Number(declared ?? maxBodyBytes)
    let bytes = Buffer.allocUnsafeSlow(Math.min(most, declared === undefined ? 0 : trustedBytes))
    let received = 0
    const end = (settle: () => void) => {
      clearTimeout(timer)
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    const fail = (reason: unknown) => end(() => reject(reason))
    const onAbort = () => fail(signal.reason)
    const onGone = () => fail(new HttpFailure(400, 'The connection ended before the body did.'))
    const onEnd = () => end(() => resolve(bytes.subarray(before, before + received)))
    const onData = (chunk: Buffer) => {
      try {
        if (received + chunk.length > maxBodyBytes) throw tooLarge(maxBodyBytes)
        hold(chunk.length)
        if (before + received + chunk.length > bytes.length) bytes = longer(bytes, before + received + chunk.length, most)
        bytes.set(chunk, before + received)
        received += chunk.length
      } catch (error) {
        fail(error)
      }
    }
    const timer = setTimeout(() => fail(new HttpFailure(408, `The body did not arrive within ${bodyTimeoutMs} ms (bodyTimeoutMs).`, closing)), bodyTimeoutMs)
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort)
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** Twice as long where it may be, so that a long body is copied a few times only. */
function longer(bytes: Buffer, least: number, most: number): Buffer<ArrayBuffer> {
  const copy = Buffer.allocUnsafeSlow(Math.max(least, Math.min(2 * bytes.length, most)))
  copy.set(bytes)
  return copy
}

function tooLarge(maxBodyBytes: number): HttpFailure {
  return new HttpFailure(413, `The body: expected ${maxBodyBytes} bytes at most (maxBodyBytes), received more.`, closing)
}
