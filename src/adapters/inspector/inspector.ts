import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse, OutgoingHttpHeaders } from 'node:http'
import * as v from 'valibot'
import { systemClock } from '../../base/clock.ts'
import { ownFile } from '../../base/own-package.ts'
import type { InferenceEngine } from '../../engine.ts'
import { resourcesOf } from '../../engine/engine-resources.ts'
import { optionsOf, parseOptions, wholeFrom } from '../../options/options-schema.ts'
import { isByForeignName, isOfAnotherSite } from '../http/http-requests.ts'
import { FrameSource } from './frame-source.ts'
import { LiveFeed } from './live-feed.ts'

/**
 * Handles requests for the page of an engine. For any other path it calls `next`, or answers 404 without it.
 * With `next`, it also passes on what is not reading (`POST` and others).
 */
export interface Inspector {
  (request: IncomingMessage, response: ServerResponse, next?: () => void): void
  /**
   * Ends the open pages, so that a server can close, and answers later requests with 503. May be called
   * twice.
   */
  close(): void
}

/**
 * A live page of an engine, as a request handler for `node:http`, Express and others. It answers its path with the
 * page or, for requests that accept server-sent events, with the page's data.
 *
 * The page shows names, counts and times, never the contents of requests and answers, and it is read-only.
 * Anybody who can reach it can read it: mount it behind your service's access control. It does no work while
 * no page is open.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if `engine` is no InferenceEngine, or an option is wrong.
 */
export function inspector(engine: InferenceEngine, options: InspectorOptions = {}): Inspector {
  const { observers } = resourcesOf(engine)
  const { title, path, intervalMs, maxClients, allowedHosts } = parseOptions(
    optionsSchema,
    options,
    'options',
  )
  const feed = new LiveFeed(
    new FrameSource(engine, observers, intervalMs),
    systemClock,
    intervalMs,
    maxClients,
  )
  const paths = path === undefined ? ['', '/inspector'] : [path]
  let page: SentPage | null = null
  let isClosed = false

  const answer = (request: IncomingMessage, response: ServerResponse, next?: () => void): void => {
    const { method, headers } = request
    const isOwn = isForPage(request, paths)
    const isRead = method === 'GET' || method === 'HEAD'
    if (next !== undefined && !(isOwn && isRead)) return next()
    if (response.destroyed) return // the client left while earlier handlers, such as authentication, ran
    if (!isOwn) return refuse(response, 404, `The page is at ${paths.at(-1) || '/'}.`)
    if (!isRead) return refuse(response, 405, 'This page is read-only.', { allow: 'GET, HEAD' })
    if (isClosed) return refuse(response, 503, 'The inspector is closed.')
    if (isByForeignName(request, allowedHosts))
      return refuse(
        response,
        403,
        'This host name is not known to belong to this server. Use its address or localhost, or add the name to allowedHosts.',
      )
    if (!asksForEvents(headers.accept))
      return sendPage(response, (page ??= encoded(inspectorPage(title))), method === 'HEAD')
    if (isOfAnotherSite(request)) return refuse(response, 403, 'Only the page itself may request this.')
    if (feed.isFull)
      return refuse(response, 503, `${maxClients} pages are open, the most allowed. Close one.`, {
        'retry-after': '5',
      })
    startEvents(response)
    if (method === 'HEAD') response.end()
    else feed.add(response)
  }
  const close = (): void => {
    isClosed = true
    feed.close()
  }
  return Object.assign(answer, { close })
}

/**
 * Whether the URL is that of the page, with or without a slash at its end; or the handler belongs to a `route` of
 * Express, which has compared it.
 */
function isForPage(
  { url = '', route }: IncomingMessage & { readonly route?: unknown },
  paths: readonly string[],
): boolean {
  return route !== undefined || paths.includes(withoutSlash(url.split(/[?#]/, 1)[0]!))
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, '')
}

/** The header that an `EventSource` always sends, and other clients do not. */
function asksForEvents(accept: string | undefined): boolean {
  return accept !== undefined && /^\s*text\/event-stream\s*(;|,|$)/i.test(accept)
}

/** Options of an inspector. */
export interface InspectorOptions {
  /** Heading of the page, at most 200 characters. Default: `zerohop inspector`. */
  readonly title?: string | undefined
  /**
   * Path of the page in the URLs of requests. Express removes the path of `app.use()` from them. Default: `/` and `/inspector`.
   */
  readonly path?: string | undefined
  /** Interval between frames, in milliseconds: 100 to 60 000. Default: 1000. */
  readonly intervalMs?: number | undefined
  /** Most open pages at once, 1 to 1000. Further ones get 503 and retry. Default: 16. */
  readonly maxClients?: number | undefined
  /**
   * More `Host` names that are allowed over the loopback interface, besides `localhost` and addresses; for
   * example the name of a proxy on this machine. Any other name gets 403, as it could belong to a page of
   * another site. Default: none.
   */
  readonly allowedHosts?: readonly string[] | undefined
}

const optionsSchema = optionsOf({
  title: v.optional(
    v.custom<string>(
      (given) => typeof given === 'string' && given.length > 0 && given.length <= 200,
      'a string of 1 to 200 characters',
    ),
    'zerohop inspector',
  ),
  path: v.optional(
    v.pipe(
      v.custom<string>(
        (given) => typeof given === 'string' && /^\/[^?#]*$/.test(given),
        "a path, as '/inspector'",
      ),
      v.transform(withoutSlash),
    ),
  ),
  intervalMs: v.optional(wholeFrom(100, 60_000), 1000),
  maxClients: v.optional(wholeFrom(1, 1000), 16),
  allowedHosts: v.optional(
    v.pipe(
      v.custom<string[]>((given) => v.is(v.array(v.string()), given), 'an array of names'),
      v.transform((names) => names.map((name) => name.toLowerCase())),
    ),
    [],
  ),
})

/** A page, and its content security policy, which is sent as a header as well. */
export interface SelfContainedPage {
  readonly text: string
  readonly policy: string
}

/** A page whose text may be encoded already, so that no request has to wait for that. */
interface SentPage {
  readonly text: string | Buffer
  readonly policy: string
}

const encoded = ({ text, policy }: SelfContainedPage): SentPage => ({ text: Buffer.from(text), policy })

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
export function sendPage(response: ServerResponse, { text, policy }: SentPage, isHead: boolean): void {
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
function refuse(
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
