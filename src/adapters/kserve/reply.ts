import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished } from 'node:stream/promises'
import { constants, createDeflate, createGzip } from 'node:zlib'

/** Answers of so many bytes at most are joined: to copy them costs less than to write their parts. */
const joinedBytes = 16_384

/** What is answered: parts that are written one behind the other. */
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

/** An answer that says all by its status. */
export const emptyReply: Reply = { status: 200, parts: [] }

/** Sends an answer, and waits until it has been sent, or `gone` fires. */
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
 * Sends the last answer of a connection, of whose request more may come: that is taken, and dropped, until it has come or it is
 * `untilMs`. Were the connection closed before, the answer could be lost on its way to who still sends.
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

/** Of those that a client accepts, the one that it likes most: gzip, deflate or none. */
export function acceptedEncoding(header: string | string[] | undefined): 'gzip' | 'deflate' | 'identity' {
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
