import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Who is to be told of the end of a connection: one listener for all that a client has sent on it. */
const followers = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls `ended` once, when the response is over or its connection has ended. Of several requests that a client sends at once the later
 * responses wait for the first: where the connection ends meanwhile, Node.js tells them nothing, so that the connection itself is
 * followed.
 *
 * @returns ends that.
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
