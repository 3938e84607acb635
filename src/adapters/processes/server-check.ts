import { lstatSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { NativeProcesses } from '../../native/native-processes.ts'
import { descriptorOf } from './socket-descriptor.ts'
import { addressOf, checkFolder } from './socket-path.ts'

/**
 * Sees to it that who was reached is this user's: between the look at a folder and the connection another user may have changed where a
 * link leads. Without the addon the folder and the socket are looked at once more.
 *
 * @throws Error where it is another's.
 */
export function checkServer(path: string, processes: NativeProcesses | null, socket: Socket): void {
  if (process.platform === 'win32') return
  const descriptor = descriptorOf(socket)
  if (processes !== null && descriptor !== undefined) {
    if (processes.peer(descriptor).user !== process.getuid!()) throw new Error('another user serves there')
    return
  }
  checkFolder(path, false)
  if (lstatSync(addressOf(path)).uid !== process.getuid!()) throw new Error('another user serves there')
}
