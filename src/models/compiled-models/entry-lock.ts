import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readFile, rm, unlink, utimes } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { forget, remove, removeAtExit } from './leftovers.ts'
import { hasEnded, ownIdentity } from './process-identity.ts'

const beatEveryMs = 2000
const lookEveryMs = 50

/**
 * Has one process at a time make an entry. Nothing depends on that but work done twice: entries come into being at once.
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
   * Takes the lock, when need be after whoever has it.
   *
   * @param staleAfterMs without a heartbeat for so long its owner is gone, in another container, say.
   * @returns `null` when it could not be had within `limitMs`.
   * @throws what the file system says, also of a lock that is nobody's and cannot be removed; the signal's reason.
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
      const stale = nowMs - seen.atMs > staleAfterMs || hasEnded((await contentOf(path)).split(' ')[0]!)
      if (state !== '' && stale && (await stateOf(path)) === state) {
        signal.throwIfAborted()
        await rm(path, { recursive: true, force: true }) // It may be another's by now: two processes then do the same work.
      } else if (nowMs - startMs > limitMs) return null
      else await sleep(lookEveryMs, undefined, { signal })
    }
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
    await unlink(path).catch(() => {}) // of a full disk, say
    throw error
  }
}

async function beat(path: string): Promise<void> {
  const now = new Date()
  await utimes(path, now, now).catch(() => {})
}

/** `''` for what cannot be read, or is no file of ours. */
function contentOf(path: string): Promise<string> {
  const flag = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
  return readFile(path, { encoding: 'utf8', flag }).catch(() => '')
}

async function stateOf(path: string): Promise<string> {
  const stats = await lstat(path, { bigint: true }).catch(() => null)
  return stats === null ? '' : `${stats.ino} ${stats.mtimeNs}`
}
