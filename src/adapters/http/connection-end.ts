import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

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
