import { randomUUID } from 'node:crypto'
import { constants, rmSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { lstat, open, readFile, rm, unlink, utimes } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { untilAborted } from '../../base/abort-watch.ts'
import { hostname } from 'node:os'
import { basename } from 'node:path'

const beatEveryMs = 2000
const lookEveryMs = 50

/**
 * A lock for making an entry, held by one thread at a time. It only avoids duplicate work: entries are published
 * atomically.
 */
export class EntryLock {
  readonly #path: string
  readonly #content: string
  readonly #heartbeat: NodeJS.Timeout

  private constructor(path: string, content: string) {
    this.#path = path
    this.#content = content
    removeAtExit(path)
    this.#heartbeat = setInterval(() => void beat(path), beatEveryMs).unref()
  }

  /**
   * Acquires the lock, if necessary after its owner.
   *
   * @param staleAfterMs milliseconds without a heartbeat after which the owner is assumed dead; for owners in another
   * container.
   * @returns `null` if it was not acquired within `limitMs`.
   * @throws errors of the file system, also for a stale lock that cannot be removed; the signal's reason.
   */
  static async take(
    path: string,
    limitMs: number,
    signal: AbortSignal,
    staleAfterMs = 15_000,
  ): Promise<EntryLock | null> {
    const startMs = performance.now()
    let seen = { state: '', atMs: startMs }
    for (;;) {
      const content = `${ownIdentity()} ${randomUUID()}`
      if (await created(path, content)) return new EntryLock(path, content)
      const nowMs = performance.now()
      const state = await stateOf(path)
      if (state !== seen.state) seen = { state, atMs: nowMs }
      const [owner] = (await contentOf(path)).split(' ')
      const stale = nowMs - seen.atMs > staleAfterMs || hasEnded(owner!)
      if (state !== '' && stale && (await stateOf(path)) === state) {
        signal.throwIfAborted()
        await rm(path, { recursive: true, force: true }) // It may have a new owner by now: two processes then do the same work.
      } else if (nowMs - startMs > limitMs) return null
      else await sleep(lookEveryMs, undefined, { signal })
    }
  }

  /**
   * Acquires the lock without waiting.
   *
   * @returns `null` if the lock has an owner. If that owner has ended, its lock is removed, and a later call can acquire it.
   */
  static takeNow(path: string): EntryLock | null {
    const content = `${ownIdentity()} ${randomUUID()}`
    try {
      writeFileSync(path, content, { flag: 'wx', mode: 0o600 })
      return new EntryLock(path, content)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') void EntryLock.removeDead(path)
      else void remove(path) // a full disk, for example
      return null
    }
  }

  /** Removes the lock of an owner that has ended. */
  static async removeDead(path: string): Promise<void> {
    const [owner] = (await contentOf(path)).split(' ')
    if (hasEnded(owner!)) await rm(path, { force: true }).catch(() => {})
  }

  async release(): Promise<void> {
    clearInterval(this.#heartbeat)
    if ((await contentOf(this.#path)) === this.#content) await remove(this.#path)
    else forget(this.#path)
  }
}

async function created(path: string, content: string): Promise<boolean> {
  const file = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return null
    throw error
  })
  if (file === null) return false
  try {
    await file.writeFile(content).finally(() => file.close())
    return true
  } catch (error) {
    await unlink(path).catch(() => {}) // a full disk, for example
    throw error
  }
}

async function beat(path: string): Promise<void> {
  const now = new Date()
  await utimes(path, now, now).catch(() => {})
}

/** `''` for a file that cannot be read, or is not ours. */
function contentOf(path: string): Promise<string> {
  const flag = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
  return readFile(path, { encoding: 'utf8', flag }).catch(() => '')
}

async function stateOf(path: string): Promise<string> {
  const stats = await lstat(path, { bigint: true }).catch(() => null)
  return stats === null ? '' : `${stats.ino} ${stats.mtimeNs}`
}

/** Runs work with equal keys one after the other, and at most `most` pieces of work at the same time. */
export class Turns {
  readonly #most: number
  readonly #busy = new Map<string, Promise<unknown>>()

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `work` in turn; rejects with the signal's reason if that fires first. */
  async take<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      const before =
        this.#busy.get(key) ?? (this.#busy.size < this.#most ? undefined : Promise.race(this.#busy.values()))
      if (before === undefined) break
      await untilAborted(before, signal)
    }
    signal.throwIfAborted()
    const working = work()
    this.#busy.set(
      key,
      working.catch(() => {}),
    )
    try {
      return await working
    } finally {
      this.#busy.delete(key)
    }
  }
}

const paths = new Set<string>()

function removeAll(): void {
  for (const path of paths) {
    try {
      rmSync(path, { recursive: true, force: true, maxRetries: 3 })
    } catch {
      // the next process that compiles removes it
    }
  }
}

/**
 * Removes a file or folder when the process ends, also by `process.exit()`, unless {@link remove} or {@link forget} is
 * called first.
 */
export function removeAtExit(path: string): void {
  if (paths.size === 0) process.on('exit', removeAll)
  paths.add(path)
}

/** Removes a file or folder now. */
export async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch(() => {})
  forget(path)
}

/** Keeps it at exit: it is no longer this process's. */
function forget(path: string): void {
  if (paths.delete(path) && paths.size === 0) process.off('exit', removeAll)
}

let own: string | undefined

/**
 * Identifies this thread among all that ever had its number, in characters that are valid in a file name. A worker thread that is
 * terminated leaves what it holds while its process goes on. Except on Linux: this process.
 */
export function ownIdentity(): string {
  if (own === undefined) {
    const id = ownThread()
    own = `${namespace()}.${id}.${startOf(id)}`
  }
  return own
}

/** Whether the thread of an {@link ownIdentity} has ended; false if that cannot be known from here. */
export function hasEnded(identity: string): boolean {
  const [place, id, start] = identity.split('.')
  if (place !== namespace() || !/^\d+$/.test(id ?? '')) return false
  const now = startOf(Number(id))
  if (now !== '') return now !== start
  try {
    process.kill(Number(id), 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** The number of this thread, which of the main thread is that of the process. */
function ownThread(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')))
  } catch {
    return process.pid
  }
}

/** Differs after each start of the system; `null` where that cannot be known. */
export function startOfSystem(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  } catch {
    return null
  }
}

/** The namespace of process ids: two containers or machines that share a folder do not see each other's processes. */
function namespace(): string {
  try {
    return (startOfSystem()! + readlinkSync('/proc/self/ns/pid')).replaceAll(/[^a-z0-9]/g, '')
  } catch {
    return hostname().replaceAll(/[^a-zA-Z0-9]/g, '_')
  }
}

/** Start time of a process, or a thread, in ticks since boot; `''` if unknown. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]! // the process name, before that, may contain anything
  } catch {
    return ''
  }
}
