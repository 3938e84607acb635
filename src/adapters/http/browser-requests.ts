import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

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
