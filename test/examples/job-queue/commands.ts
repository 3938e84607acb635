import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

/**
 * Calls back with each command that a Redis runs, from now on: its name, and its first arguments, as the server writes them.
 * (By a socket of our own: ioredis takes what comes before the answer to MONITOR for one to another command.)
 */
export async function watchCommands(
  port: number,
  onCommand: (command: string, key: string, field: string) => void,
): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}) // when Redis is killed
  await once(socket, 'connect')
  const lines = createInterface({ input: socket })
  const begun = once(lines, 'line')
  lines.on('line', (line) => {
    const [, command, key = '', field = ''] =
      /^\+[\d.]+ \[[^\]]*\] "([^"]*)"(?: "([^"]*)")?(?: "([^"]*)")?/.exec(line) ?? []
    if (command !== undefined) onCommand(command.toLowerCase(), key, field)
  })
  socket.write('MONITOR\r\n')
  await begun
  return socket
}
