import type { Socket } from 'node:net'

/** By which the system knows a socket; Node shows it on what is beneath, where there is one. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: { fd?: number } | null }
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}
