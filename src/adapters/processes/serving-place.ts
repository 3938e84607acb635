import {
  lstatSync,
  mkdirSync,
  statSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, resolve } from 'node:path'
import { requireFromPackage } from '../../base/own-package.ts'
import { invalidArgument } from '../../errors.ts'
import { loadBinding } from '../../native/addon.ts'
import type { NativeProcesses } from '../../native/native-binding.ts'

/** Most bytes of a socket path: the system cuts off longer ones. */
const longestBytes = process.platform === 'linux' ? 107 : 103

/** What the addon has for processes that share memory; `null` where memory cannot be shared. */
export const nativeProcesses = (): NativeProcesses | null => loadBinding().binding?.processes ?? null

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
export function checkServer(path: string, socket: Socket): void {
  if (process.platform === 'win32') return
  let user = userOfPeer(socket)
  if (user === undefined) {
    checkFolder(path, false)
    user = lstatSync(addressOf(path)).uid
  }
  if (user !== process.getuid!()) throw new Error('a process of another user serves there')
}

/** The user of the process at the other end; `undefined` if the system cannot be asked. */
export function userOfPeer(socket: Socket): number | undefined {
  const descriptor = descriptorOf(socket)
  return descriptor === undefined ? undefined : nativeProcesses()?.peer(descriptor).user
}

/** The file descriptor of a socket. Node has it on the underlying handle, if there is one. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: { fd?: number } | null }
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}

/** A lock that one process holds at a time. */
export interface HeldLock {
  release(): void
}

/**
 * Takes the lock of a file; `null` if another process holds it. With the addon the system releases the lock
 * when its holder ends, however it ends. Without it a file names the holder, and is ignored once that process
 * is gone.
 */
export function takeLock(path: string, processes = nativeProcesses()): HeldLock | null {
  if (processes === null) return takeByFile(path)
  const descriptor = processes.lock(path)
  return descriptor === null ? null : { release: () => processes.close(descriptor) }
}

function takeByFile(path: string): HeldLock | null {
  const file = `${path}.pid`
  const own = `${file}.${process.pid}-${Math.random().toString(36).slice(2)}`
  writeFileSync(own, `${process.pid} ${startOf(process.pid)}`, { mode: 0o600 })
  try {
    for (let attempt = 0; attempt < 2; attempt++) {
      if (link(own, file)) return { release: () => rmSync(file, { force: true }) }
      if (isHeld(file)) return null
      // Several processes may find a stale file; one moves it aside. A process that has moved a fresh lock
      // puts it back.
      const aside = `${own}-aside`
      renameSync(file, aside)
      const isOthers = isHeld(aside)
      if (isOthers) link(aside, file)
      rmSync(aside, { force: true })
      if (isOthers) return null
    }
    return null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null // another process was faster
    throw error
  } finally {
    rmSync(own, { force: true })
  }
}

/** Links a file to a name unless that is taken. The file is complete when the name appears. */
function link(file: string, name: string): boolean {
  try {
    linkSync(file, name)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function isHeld(file: string): boolean {
  const [holder, start] = readFileSync(file, 'utf8').split(' ') as [string, string | undefined]
  try {
    process.kill(Number(holder), 0)
    return isSame(startOf(Number(holder)), start)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** An unknown start time counts as equal. */
const isSame = (start: string, noted: string | undefined) => start === '' || !noted || start === noted

/**
 * Start time of a process, which tells it from a later process with the same id; '' if the system does not
 * provide it.
 */
function startOf(pid: number): string {
  try {
    // The program's name, in brackets, may contain anything.
    return /.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
