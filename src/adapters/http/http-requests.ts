import type { ServerResponse, IncomingMessage } from 'node:http'
import { type Socket, isIP } from 'node:net'

/** Callbacks for the end of a connection. One listener per connection serves all of its requests. */
const followers = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `ended` once, when the response is finished or its connection has closed. With pipelined requests the
 * later responses wait for the first. If the connection closes meanwhile, Node.js does not notify those
 * responses, so this follows the connection itself.
 *
 * @returns a function that stops following.
 */
export function followConnection(response: ServerResponse, ended: () => void): () => void {
  const { socket } = response.req
  const once = (): void => {
    leave()
    ended()
  }
  const leave = (): void => {
    response.off('close', once)
    followers.get(socket)?.delete(once)
  }
  if (response.destroyed || socket.destroyed) {
    queueMicrotask(once)
    return leave
  }
  response.on('close', once)
  const known = followers.get(socket)
  if (known !== undefined) known.add(once)
  else {
    const all = new Set([once])
    followers.set(socket, all)
    socket.once('close', () => {
      for (const each of all) each()
    })
  }
  return leave
}

/** Names that no other site's page can have: they are never looked up at a foreign DNS server. */
const ownNames = /^(?:[^.]+\.)*localhost$/

/**
 * Whether a browser sends the request for a page of another site. The browser says so with `Sec-Fetch-Site`
 * or, where that is missing, with `Origin`. Other clients send neither.
 */
export function isOfAnotherSite({
  headers: { 'sec-fetch-site': site, origin, host },
}: Pick<IncomingMessage, 'headers'>): boolean {
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  return origin !== undefined && hostOf(origin) !== hostOf(`http://${host ?? ''}`)
}

/**
 * Whether a request over the loopback interface uses a host name that anybody could own. Such a request may
 * come from a page that used DNS rebinding; the browser takes it for same-site.
 */
export function isByForeignName(
  { headers: { host }, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  allowed: readonly string[] = [],
): boolean {
  if (host === undefined || !isLoopback(socket.localAddress)) return false
  const name = hostOf(`http://${host}`)?.replace(/:\d+$/, '') ?? ''
  return !ownNames.test(name) && isIP(name.replace(/^\[|\]$/g, '')) === 0 && !allowed.includes(name)
}

/** The host of an address, and its port unless that is the default one. */
function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).host : undefined
}

function isLoopback(address = ''): boolean {
  return address === '::1' || /^(?:::ffff:)?127\./.test(address)
}
