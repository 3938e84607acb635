import { lstat, readdir, rm, stat, unlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CacheFolder } from './cache-folder.ts'
import { hasEnded } from './process-identity.ts'

/** An entry that was used so shortly ago may just be being opened. */
const inUseForMs = 30_000
/** What another container has left unfinished for so long is nobody's any more. */
const abandonedAfterMs = 24 * 60 * 60 * 1000
/** Of a file that nobody loads any more. */
const forgottenAfterMs = 30 * 24 * 60 * 60 * 1000

/** Notes that an entry is used now, in the time of change of a file beside it: its own files stay as they are. */
export async function touch(cache: CacheFolder, key: string): Promise<void> {
  const now = new Date()
  await utimes(cache.used(key), now, now).catch(() => writeFile(cache.used(key), '', { mode: 0o600 }).catch(() => {}))
}

/** Takes away what was not used for the longest time until no more than `maxBytes` are left. Who has a file open keeps it. */
export async function evict(cache: CacheFolder, maxBytes: number, keep: string): Promise<void> {
  const keys = await readdir(join(cache.root, 'entries'))
  const entries = await Promise.all(
    keys.map(async (key) => {
      const used = await stat(cache.used(key)).catch(() => null)
      return { key, byteLength: await bytesIn(cache.entry(key)), usedMs: used?.mtimeMs ?? 0 }
    }),
  )
  let total = entries.reduce((sum, { byteLength }) => sum + byteLength, 0)
  for (const { key, byteLength, usedMs } of entries.toSorted((a, b) => a.usedMs - b.usedMs)) {
    if (total <= maxBytes) return
    if (key === keep || Date.now() - usedMs < inUseForMs) continue
    await cache.remove(key)
    await unlink(cache.notes(key)).catch(() => {})
    total -= byteLength
  }
}

/** Takes away what processes that have ended left unfinished, and what is known of files that nobody has loaded for a month. */
export async function sweep(cache: CacheFolder): Promise<void> {
  for (const name of await readdir(cache.unfinished)) {
    const path = join(cache.unfinished, name)
    const owner = name.split('-')[0]!
    if (hasEnded(owner) || (await isOlderThan(path, abandonedAfterMs))) await rm(path, { recursive: true, force: true }).catch(() => {})
  }
  const known = join(cache.root, 'known')
  for (const name of await readdir(known)) {
    if (await isOlderThan(join(known, name), forgottenAfterMs)) await unlink(join(known, name)).catch(() => {})
  }
}

async function isOlderThan(path: string, ms: number): Promise<boolean> {
  const stats = await lstat(path).catch(() => null)
  return stats !== null && Date.now() - stats.mtimeMs > ms
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  const sizes = await Promise.all(names.map((name) => lstat(join(folder, name)).then(({ size }) => size, () => 0)))
  return sizes.reduce((sum, size) => sum + size, 0)
}
