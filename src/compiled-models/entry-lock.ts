import { randomUUID } from 'node:crypto'
import { open, readFile, stat, unlink, utimes } from 'node:fs/promises'
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
   * @throws what the file system says, and the signal's reason.
   */
  static async take(path: string, limitMs: number, signal: AbortSignal, staleAfterMs = 15_000): Promise<EntryLock | null> {
    const startMs = performance.now()
    let seen = { state: '', atMs: startMs }
    for (;;) {
      const content = `${ownIdentity()} ${randomUUID()}`
      if (await created(path, content)) return new EntryLock(path, content)
      const nowMs = performance.now()
      const state = await stateOf(path)
      if (state !== seen.state) seen = { state, atMs: nowMs }
      const stale = nowMs - seen.atMs > staleAfterMs || hasEnded((await ownerOf(path)) ?? '')
      // It may be another's by now: two processes then do the same work.
      if (state !== '' && stale && (await stateOf(path)) === state) await unlink(path).catch(() => {})
      else if (nowMs - startMs > limitMs) return null
      else await sleep(lookEveryMs, undefined, { signal })
    }
  }

  async release(): Promise<void> {
    clearInterval(this.#heartbeat)
    const content = await readFile(this.#path, 'utf8').catch(() => '')
    if (content === this.#content) await remove(this.#path)
    else forget(this.#path)
  }
}

async function created(path: string, content: string): Promise<boolean> {
  try {
    const file = await open(path, 'wx', 0o600)
    await file.writeFile(content).finally(() => file.close())
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    await unlink(path).catch(() => {}) // of a full disk, say
    throw error
  }
}

async function beat(path: string): Promise<void> {
  const now = new Date()
  await utimes(path, now, now).catch(() => {})
}

async function ownerOf(path: string): Promise<string | undefined> {
  return (await readFile(path, 'utf8').catch(() => '')).split(' ')[0]
}

async function stateOf(path: string): Promise<string> {
  const stats = await stat(path, { bigint: true }).catch(() => null)
  return stats === null ? '' : `${stats.ino} ${stats.mtimeNs}`
}
