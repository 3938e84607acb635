import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A way to a port of this machine on which everything takes so long, in either direction, and no longer where much is on it. */
export async function slowCable(
  port: number,
  delayMs: number,
): Promise<{ readonly port: number; close(): void }> {
  const sockets = new Set<Socket>()
  const join = (from: Socket, to: Socket) => {
    sockets.add(from)
    from.on('data', (data) => setTimeout(() => to.write(data), delayMs))
    from.on('close', () => to.destroy())
    from.on('error', () => {})
  }
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1')
    join(near, far)
    join(far, near)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
