import type { IncomingMessage, ServerResponse } from 'node:http'
import { isByForeignName, isOfAnotherSite } from '../http/browser-requests.ts'
import { systemClock } from '../../base/clock.ts'
import type { InferenceEngine } from '../../engine.ts'
import { observersOf } from '../../engine/engine-resources.ts'
import { FrameSource } from './frame-source.ts'
import { inspectorPage, type SelfContainedPage } from './inspector-page.ts'
import { resolveInspectorOptions, type InspectorOptions } from './inspector-options.ts'
import { LiveFeed } from './live-feed.ts'
import { refuse, sendPage, startEvents } from './responses.ts'

export type { InspectorOptions } from './inspector-options.ts'

/**
 * Answers requests for the page of an engine. Without `next` that is every one that comes. With `next`, as in Express, it is one for the
 * very path on which it is mounted, to be looked at; `next` is called for any other.
 */
export interface Inspector {
  (request: IncomingMessage, response: ServerResponse, next?: () => void): void
  /** Ends the pages that are open, so that a server can close, and answers others with 503. May be called twice. */
  close(): void
}

/**
 * A live page of an engine, as a handler of requests for `node:http`, Express and others: it answers on whatever path it is mounted on, with
 * the page or, where server-sent events are asked for, with what the page shows.
 *
 * It tells names, counts and times, and nothing of what is in requests and answers; it changes nothing. Whoever reaches it can read it: mount it
 * behind what your service has for that. While no page is open nothing is done for it.
 *
 * @throws InferenceError `ERR_INVALID_ARG` where `engine` is no InferenceEngine, or an option is wrong.
 */
export function inspector(engine: InferenceEngine, options: InspectorOptions = {}): Inspector {
  const observers = observersOf(engine)
  const { title, intervalMs, maxClients, allowedHosts } = resolveInspectorOptions(options)
  const feed = new LiveFeed(
    new FrameSource(engine, observers, intervalMs),
    systemClock,
    intervalMs,
    maxClients,
  )
  let page: SelfContainedPage | null = null
  let isClosed = false

  const answer = (request: IncomingMessage, response: ServerResponse, next?: () => void): void => {
    if (next !== undefined && !isForPage(request)) return next()
    if (response.destroyed) return // whoever has been asked first, such as for a user, took longer than the client
    const { method, headers } = request
    if (method !== 'GET' && method !== 'HEAD')
      return refuse(response, 405, 'This page is only to be looked at.', { allow: 'GET, HEAD' })
    if (isClosed) return refuse(response, 503, 'The inspector is closed.')
    if (isByForeignName(request, allowedHosts))
      return refuse(
        response,
        403,
        'This name is not known to be of this server. Ask by its address or by localhost, or give the name in allowedHosts.',
      )
    if (!asksForEvents(headers.accept))
      return sendPage(response, (page ??= inspectorPage(title)), method === 'HEAD')
    if (isOfAnotherSite(request)) return refuse(response, 403, 'Only the page itself may ask for this.')
    if (feed.isFull)
      return refuse(response, 503, `${maxClients} pages are open, which is the limit.`, {
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

/** Of a framework: it has taken the path on which it has mounted something from the address, or it says that this is a route's. */
function isForPage({ method, url, route }: IncomingMessage & { readonly route?: unknown }): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  return route !== undefined || /^\/?(?:[?#]|$)/.test(url ?? '')
}

/** What an `EventSource` always says, and nobody else. */
function asksForEvents(accept: string | undefined): boolean {
  return accept !== undefined && /^\s*text\/event-stream\s*(;|,|$)/i.test(accept)
}
