import { lstat, readdir, rm, stat, unlink, utimes, writeFile, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { neededBytes, type CacheFolder } from './cache-folder.ts'
import { hasEnded } from './entry-lock.ts'

/** See {@link StoredEntry.isInUse}. */
const inUseForMs = 30_000
/** Age at which unfinished work of another container is removed. */
const abandonedAfterMs = 24 * 60 * 60 * 1000
/** Age at which the hash of a file that is no longer loaded, and files without an entry, are removed. */
const forgottenAfterMs = 30 * 24 * 60 * 60 * 1000

interface StoredEntry {
  readonly key: string
  readonly byteLength: number
  readonly unusedForMs: number
  /** Used so recently that it may be about to be opened. */
  readonly isInUse: boolean
}

/** Records the use of an entry, as the modification time of a file next to it. The entry's own files stay unchanged. */
export async function touch(cache: CacheFolder, key: string): Promise<void> {
  if (cache.readOnly !== null) return
  const now = new Date()
  await utimes(cache.used(key), now, now).catch(() =>
    writeFile(cache.used(key), '', { mode: 0o600 }).catch(() => {}),
  )
}

/** Evicts the least recently used entries until at most `maxBytes` remain. A process that has a file open keeps it. */
export async function evict(cache: CacheFolder, maxBytes: number, keep: string): Promise<void> {
  const entries = await entriesOf(cache)
  const others = entries.filter(({ key, isInUse }) => key !== keep && !isInUse)
  await removeOldest(cache, others, sumOf(entries) - maxBytes)
}

/** Evicts entries to free the bytes that the disk lacks; none if all of them would not be enough. */
async function makeRoom(cache: CacheFolder, bytes: number): Promise<void> {
  const entries = (await entriesOf(cache)).filter(({ isInUse }) => !isInUse)
  if (sumOf(entries) >= bytes) await removeOldest(cache, entries, bytes)
}

async function entriesOf(cache: CacheFolder): Promise<StoredEntry[]> {
  const keys = await readdir(join(cache.root, 'entries'))
  return Promise.all(
    keys.map(async (key) => {
      const used = await stat(cache.used(key)).catch(() => null)
      const agoMs = Date.now() - (used?.mtimeMs ?? 0)
      const isAhead = agoMs < -inUseForMs // a clock was wrong: treat as never used
      return {
        key,
        byteLength: await bytesIn(cache.entry(key)),
        unusedForMs: isAhead ? Infinity : agoMs,
        isInUse: !isAhead && agoMs < inUseForMs,
      }
    }),
  )
}

async function removeOldest(
  cache: CacheFolder,
  entries: readonly StoredEntry[],
  bytes: number,
): Promise<void> {
  let left = bytes
  for (const { key, byteLength } of entries.toSorted((a, b) => b.unusedForMs - a.unusedForMs || 0)) {
    if (left <= 0) return
    await cache.remove(key)
    await unlink(cache.notes(key)).catch(() => {})
    left -= byteLength
  }
}

function sumOf(entries: readonly StoredEntry[]): number {
  return entries.reduce((sum, { byteLength }) => sum + byteLength, 0)
}

/**
 * Removes unfinished work of processes that have ended. Also removes hashes, notes and other files without an entry
 * after a month without use.
 */
export async function sweep(cache: CacheFolder): Promise<void> {
  for (const name of await readdir(cache.unfinished)) {
    const path = join(cache.unfinished, name)
    const owner = name.split('-')[0]!
    if (hasEnded(owner) || (await isOlderThan(path, abandonedAfterMs)))
      await rm(path, { recursive: true, force: true }).catch(() => {})
  }
  const keys = new Set(await readdir(join(cache.root, 'entries')))
  for (const room of ['known', 'notes', 'used', 'locks']) {
    for (const name of await readdir(join(cache.root, room))) {
      const path = join(cache.root, room, name)
      if (!keys.has(name.replace(/\.json$/, '')) && (await isOlderThan(path, forgottenAfterMs)))
        await unlink(path).catch(() => {})
    }
  }
}

async function isOlderThan(path: string, ms: number): Promise<boolean> {
  const stats = await lstat(path).catch(() => null)
  return stats !== null && Date.now() - stats.mtimeMs > ms
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  const sizes = await Promise.all(
    names.map((name) =>
      lstat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/**
 * Why the disk has no room for the compiled form of a model of this size; `null` if there is room, if necessary after
 * an eviction.
 */
export async function lackOfRoom(cache: CacheFolder, byteLength: number): Promise<string | null> {
  const needed = neededBytes(byteLength)
  let free = await freeBytes(cache)
  if (free < needed) {
    await makeRoom(cache, needed - free).catch(() => {})
    free = await freeBytes(cache)
  }
  return free >= needed
    ? null
    : `the disk of ${cache.root} has ${free} bytes free, and up to ${needed} may be needed`
}

/** Infinite if unknown. */
async function freeBytes({ root }: CacheFolder): Promise<number> {
  const disk = await statfs(root).catch(() => null)
  return disk === null ? Infinity : disk.bavail * disk.bsize
}
