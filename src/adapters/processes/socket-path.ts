import { lstatSync, mkdirSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, resolve } from 'node:path'
import { requireFromPackage } from '../../base/own-package.ts'
import { invalidArgument } from '../../errors.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'

/** Most bytes of a socket path: the system cuts off longer ones. */
const longestBytes = process.platform === 'linux' ? 107 : 103

/** The address to listen at for a path: the path itself or, on Windows, a pipe. */
export function addressOf(path: string): string {
  const full = resolve(path)
  if (process.platform === 'win32')
    return full.startsWith('\\\\.\\pipe\\') ? full : `\\\\.\\pipe\\zerohop-${hashOf(full)}`
  const bytes = Buffer.byteLength(full)
  if (bytes > longestBytes)
    throw invalidArgument('path', `at most ${longestBytes} bytes, with its folders`, bytes, {
      hint: 'The system allows no longer socket paths: use a folder with a shorter path',
    })
  return full
}

/** Loaded on Windows only: on other systems clients save the memory of `node:crypto`. */
function hashOf(path: string): string {
  const { createHash } = requireFromPackage('node:crypto') as typeof import('node:crypto')
  return createHash('sha256').update(path).digest('hex').slice(0, 32)
}

/**
 * Checks that no other user can reach a socket: its folder belongs to this user, and is closed to all others.
 *
 * @param makes whether to create a missing folder.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkFolder(path: string, makes: boolean): void {
  if (process.platform === 'win32') return
  const folder = dirname(resolve(path))
  try {
    if (makes) mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    if (uid !== process.getuid!()) throw unsafe(folder, `one of user ${uid}`)
    if ((mode & 0o077) !== 0) throw unsafe(folder, `one of mode ${(mode & 0o777).toString(8)}`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (!makes && (code === 'ENOENT' || code === 'ENOTDIR')) return // no server there
    throw code === 'ERR_INVALID_ARG'
      ? error
      : invalidArgument('path', 'a socket in a separate folder', (error as Error).message, { cause: error })
  }
}

function unsafe(folder: string, received: string) {
  return invalidArgument('path', `a folder that only this user may access (mode 700)`, received, {
    hint: `Other users could put a server at ${folder}: choose a separate folder, which is created if missing`,
  })
}

/**
 * Checks that the connected server belongs to this user. Another user may have changed a link between the
 * check of the folder and the connection. Without the addon the folder and the socket are checked once more.
 *
 * @throws Error if it belongs to another user.
 */
export function checkServer(path: string, processes: NativeProcesses | null, socket: Socket): void {
  if (process.platform === 'win32') return
  const descriptor = descriptorOf(socket)
  if (processes !== null && descriptor !== undefined) {
    if (processes.peer(descriptor).user !== process.getuid!())
      throw new Error('a process of another user serves there')
    return
  }
  checkFolder(path, false)
  if (lstatSync(addressOf(path)).uid !== process.getuid!())
    throw new Error('a process of another user serves there')
}

/** The file descriptor of a socket. Node has it on the underlying handle, if there is one. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: { fd?: number } | null }
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}
