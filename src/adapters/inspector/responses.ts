import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { SelfContainedPage } from './inspector-page.ts'

/** Of every answer: nobody keeps it, guesses its type, puts it into a page of theirs, or is told where a link came from. */
const always: OutgoingHttpHeaders = {
  'cache-control': 'no-store, no-transform', // compressed, events would wait for others
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  vary: 'accept',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Headers by which a service, for its own answers, lets pages of others read them. */
const crossOrigin = [
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
]

export function sendPage(
  response: ServerResponse,
  { text, policy }: SelfContainedPage,
  isHead: boolean,
): void {
  begin(response, 200, {
    'content-type': 'text/html; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
  })
  response.end(isHead ? undefined : text)
}

/** Writes the head of server-sent events. */
export function startEvents(response: ServerResponse): void {
  response.shouldKeepAlive = false // when they end the connection does, which a server that closes would wait for
  begin(response, 200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'content-security-policy': "default-src 'none'",
    'x-accel-buffering': 'no',
  })
}

export function refuse(
  response: ServerResponse,
  status: number,
  why: string,
  headers: OutgoingHttpHeaders = {},
): void {
  begin(response, status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-security-policy': "default-src 'none'",
    ...headers,
  })
  response.end(`${why}\n`)
}

function begin(response: ServerResponse, status: number, headers: OutgoingHttpHeaders): void {
  for (const name of crossOrigin) response.removeHeader(name)
  response.writeHead(status, { ...always, ...headers })
}
