import { readFileSync } from 'node:fs'
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { ownFile } from '../../base/own-package.ts'

/** A page, and its content security policy, which is sent as a header as well. */
export interface SelfContainedPage {
  readonly text: string
  readonly policy: string
}

/** The page of an engine, which fills itself with the events that it receives. Its source is packages/perf/src/inspector-page; `npm run build:ts` writes it. */
export function inspectorPage(title: string): SelfContainedPage {
  const { text, policy } = JSON.parse(
    readFileSync(ownFile('adapters/inspector/page.json'), 'utf8'),
  ) as SelfContainedPage
  return { text: text.replaceAll('{{title}}', () => escaped(title)), policy }
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escaped(text: string): string {
  return text.toWellFormed().replace(/[&<>"']/g, (character) => entities[character]!)
}

/** Headers of every answer: it is not cached, sniffed or framed, and its links send no referrer. */
const always: OutgoingHttpHeaders = {
  'cache-control': 'no-store, no-transform', // compression would delay events
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  vary: 'accept',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Headers by which a service lets pages of other origins read its answers. */
const crossOrigin = [
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
]

/** Sends the page, or its head alone. */
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
  response.shouldKeepAlive = false // the connection ends with the events: a closing server would wait for it
  begin(response, 200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'content-security-policy': "default-src 'none'",
    'x-accel-buffering': 'no',
  })
}

/** Answers with a status and a line of text. */
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
