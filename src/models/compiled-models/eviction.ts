import { lstat, readdir, rm, stat, unlink, utimes, writeFile, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { CacheFolder } from './cache-folder.ts'
import { hasEnded } from './entry-lock.ts'

/** See {@link StoredEntry.isInUse}. */
const inUseForMs = 30_000
/** What another container has left unfinished for so long is nobody's any more. */
const abandonedAfterMs = 24 * 60 * 60 * 1000
/** Of a file that nobody loads any more, and what is beside an entry that is gone. */
const forgottenAfterMs = 30 * 24 * 60 * 60 * 1000

interface StoredEntry {
  readonly key: string
  readonly byteLength: number
  readonly unusedForMs: number
  /** Used so shortly ago that it may just be being opened. */
  readonly isInUse: boolean
}

/** Notes that an entry is used now, in the time of change of a file beside it: its own files stay as they are. */
export async function touch(cache: CacheFolder, key: string): Promise<void> {
  const now = new Date()
  await utimes(cache.used(key), now, now).catch(() =>
    writeFile(cache.used(key), '', { mode: 0o600 }).catch(() => {}),
  )
}

/** Takes away what was not used for the longest time until no more than `maxBytes` are left. Who has a file open keeps it. */
export async function evict(cache: CacheFolder, maxBytes: number, keep: string): Promise<void> {
  const entries = await entriesOf(cache)
  const others = entries.filter(({ key, isInUse }) => key !== keep && !isInUse)
  await removeOldest(cache, others, sumOf(entries) - maxBytes)
}

/** The same, of so many bytes as the disk lacks; nothing where all of it would not do. */
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
      const isAhead = agoMs < -inUseForMs // a clock was wrong, and this as good as never
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

/** Takes away what processes that have ended left unfinished, and what for a month was of no entry, or of files that nobody has loaded. */
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

/** Weights may be there twice: as the model has them, and as a kernel wants them. */
const timesTheModel = 2
const besideBytes = 2 ** 20

/** Why there is no room on the disk for the compiled form of a model of so many bytes; `null` when there is, or other models made room. */
export async function lackOfRoom(cache: CacheFolder, byteLength: number): Promise<string | null> {
  const needed = timesTheModel * byteLength + besideBytes
  let free = await freeBytes(cache)
  if (free < needed) {
    await makeRoom(cache, needed - free).catch(() => {})
    free = await freeBytes(cache)
  }
  return free >= needed
    ? null
    : `the disk of ${cache.root} has ${free} bytes free, and up to ${needed} may be needed`
}

/** Infinite where it is not told. */
async function freeBytes({ root }: CacheFolder): Promise<number> {
  const disk = await statfs(root).catch(() => null)
  return disk === null ? Infinity : disk.bavail * disk.bsize
}
