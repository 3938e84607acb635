import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/** Names that no page of another site can have: nobody else's server of names is asked for them. */
const ownNames = /^(?:[^.]+\.)*localhost$/

/**
 * Whether a browser asks for a page of another site, as it says itself: with `Sec-Fetch-Site` or, where that is not sent, with
 * `Origin`. Others than browsers send neither.
 */
export function isOfAnotherSite({
  headers: { 'sec-fetch-site': site, origin, host },
}: Pick<IncomingMessage, 'headers'>): boolean {
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  return origin !== undefined && hostOf(origin) !== hostOf(`http://${host ?? ''}`)
}

/**
 * Whether a request that came over the loopback interface calls its server by a name that may be anybody's: so does a page whose name was
 * made to stand for this machine after it was loaded (DNS rebinding), and to a browser it is of the same site.
 */
export function isByForeignName(
  { headers: { host }, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  allowed: readonly string[] = [],
): boolean {
  if (host === undefined || !isLoopback(socket.localAddress)) return false
  const name = hostOf(`http://${host}`)?.replace(/:\d+$/, '') ?? ''
  return !ownNames.test(name) && isIP(name.replace(/^\[|\]$/g, '')) === 0 && !allowed.includes(name)
}

/** Of an address, its name or number and its port, if it is not the usual one. */
function hostOf(address: string): string | undefined {
  return URL.canParse(address) ? new URL(address).host : undefined
}

function isLoopback(address = ''): boolean {
  return address === '::1' || /^(?:::ffff:)?127\./.test(address)
}
