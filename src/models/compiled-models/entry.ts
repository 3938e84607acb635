import { chmod, lstat, open, readdir, rm, stat, statfs, unlink, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import {
  type CacheFolder,
  neededBytes,
  readSealed,
  stateOf,
  trustedStats,
  writeSealed,
} from './cache-folder.ts'
import { differences, graphFile, keyOf, type MadeFor } from './compiled-form.ts'
import { EntryLock, hasEnded, startOfSystem } from './entry-lock.ts'
import { fingerprintOf, hashOfFile } from './model-content.ts'

/** A file of a compiled model. */
export interface CompiledFile {
  readonly name: string
  readonly byteLength: number
  /** `null` before it is known: the file is then believed by its state alone, until the system is started again. */
  readonly hash: string | null
  /** Its state when it was hashed; see {@link stateOf}. */
  readonly state: string
  /** What a copy of it is recognised by; see {@link fingerprintOf}. */
  readonly fingerprint: string
}

/** The cache's record of a model that has been tried. */
export interface Manifest {
  readonly key: string
  readonly madeFor: MadeFor
  /** `null` for a model without a compiled form. */
  readonly files: readonly CompiledFile[] | null
  /** Why it has a compiled form, or none. */
  readonly reason: string
  /** Size of files that were too large to keep; else 0. */
  readonly tooLargeBytes: number
  /** Whether it never will have a compiled form. */
  readonly isFinal: boolean
  readonly triedAtMs: number
  /** Whether the trial ran the model, or only loaded it. */
  readonly wasRun: boolean
  /** The start of the system in which its files were written, but not yet flushed and hashed; see {@link sealEntry}. */
  readonly unsealedIn: string | null
}

/** How long a failed compilation is remembered: memory, time or a quota may have been short. */
const believedForMs = 24 * 60 * 60 * 1000

/** Whether a model without a compiled form is worth another attempt. */
export function mayBeCompiled(
  { files, tooLargeBytes, isFinal, triedAtMs }: Manifest,
  maxBytes: number,
): boolean {
  if (files !== null || isFinal) return false
  return tooLargeBytes > 0 ? tooLargeBytes <= maxBytes : !(Math.abs(Date.now() - triedAtMs) < believedForMs)
}

const manifestFile = 'manifest.json'
const onlyToRead = 0o400

/** Makes finished files in a folder of this process read-only. */
export async function closeFiles(folder: string): Promise<CompiledFile[]> {
  const names = await readdir(folder)
  return Promise.all(
    names.map(async (name) => {
      const path = join(folder, name)
      await chmod(path, onlyToRead)
      const stats = await lstat(path, { bigint: true })
      const [state, fingerprint] = [stateOf(stats), fingerprintOf(path)!]
      return { name, byteLength: Number(stats.size), hash: null, state, fingerprint }
    }),
  )
}

/**
 * Hashes files, and flushes them to disk.
 *
 * @param rest waited for again and again.
 */
export async function sealFiles(
  folder: string,
  files: readonly CompiledFile[],
  signal: AbortSignal,
  rest?: () => Promise<void>,
): Promise<CompiledFile[]> {
  const sealed: CompiledFile[] = []
  for (const each of files) {
    const path = join(folder, each.name)
    sealed.push({ ...each, hash: await hashOfFile(path, signal, undefined, rest) })
    const file = await open(path)
    await file.sync().finally(() => file.close())
  }
  return sealed
}

/**
 * Makes an entry last beyond the next start of the system. It is removed if that fails: what could not be flushed may not be what was
 * compared.
 */
export async function sealEntry(
  cache: CacheFolder,
  manifest: Manifest,
  signal: AbortSignal,
  rest: () => Promise<void>,
): Promise<void> {
  const folder = cache.entry(manifest.key)
  try {
    const files = await sealFiles(folder, manifest.files!, signal, rest)
    if (files.some(({ name, fingerprint }) => fingerprintOf(join(folder, name)) !== fingerprint))
      throw new Error('its files are not those that were compared')
    if (!isAsRead(cache, manifest)) return // another one is there by now
    await writeSealed(join(folder, manifestFile), { ...manifest, files, unsealedIn: null }, onlyToRead)
    await cache.flush(manifest.key)
  } catch (error) {
    if (!signal.aborted && isAsRead(cache, manifest)) await cache.remove(manifest.key)
    throw error
  }
}

/** Publishes a folder and its files as an entry, and replaces an existing one. */
export async function publishEntry(cache: CacheFolder, folder: string, manifest: Manifest): Promise<void> {
  if (manifest.files === null)
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true })
  const isLasting = manifest.unsealedIn === null
  await writeSealed(join(folder, manifestFile), manifest, onlyToRead, isLasting)
  await touch(cache, manifest.key)
  await cache.publish(folder, manifest.key)
  if (isLasting) await cache.flush(manifest.key)
}

/**
 * Reads an entry. Files whose state is unchanged since they were hashed are trusted, and in a read-only folder
 * those that look like them; others are hashed again.
 *
 * @returns `null` for an entry that is missing, damaged, or writable by another user.
 */
export async function readEntry(cache: CacheFolder, key: string): Promise<Manifest | null> {
  const folder = cache.entry(key)
  if (trustedStats(folder, 'folder') === null) return null
  const manifest = readSealed<unknown>(join(folder, manifestFile))
  if (!isManifest(manifest) || manifest.key !== key) return null
  if (manifest.files === null) return manifest
  if (manifest.unsealedIn !== null && manifest.unsealedIn !== startOfSystem()) return null
  const isReadOnly = cache.readOnly !== null
  const files = await Promise.all(manifest.files.map((file) => checked(folder, file, isReadOnly)))
  if (!files.every((file) => file !== null)) return null
  const moved = files.some((file, index) => file.state !== manifest.files![index]!.state)
  // Such as after a copy or restore: the next reader need not hash them.
  if (moved && !isReadOnly)
    await writeSealed(join(folder, manifestFile), { ...manifest, files }, onlyToRead).catch(() => {})
  return { ...manifest, files }
}

/**
 * Whether the files of an entry are unchanged since {@link readEntry} checked them, and only this user can write to
 * them. Called again after the files were opened by path.
 */
export function isAsRead(cache: CacheFolder, { key, files }: Manifest): boolean {
  const folder = cache.entry(key)
  if (trustedStats(folder, 'folder') === null || !cache.isSafe()) return false
  return files!.every(({ name, state }) => {
    const found = trustedStats(join(folder, name), 'file')
    return found !== null && stateOf(found) === state
  })
}

const fieldsOfManifest = {
  key: 'string', madeFor: 'object', reason: 'string', tooLargeBytes: 'number', isFinal: 'boolean', triedAtMs: 'number', wasRun: 'boolean',
} // prettier-ignore

/** The seal proves that a file is complete, not that this version wrote it. */
function isManifest(value: unknown): value is Manifest {
  if (!hasFields(value, fieldsOfManifest)) return false
  const { key, madeFor, files, unsealedIn } = value
  if (madeFor === null || keyOf(madeFor as MadeFor) !== key) return false
  if (unsealedIn !== null && typeof unsealedIn !== 'string') return false
  return (
    files === null ||
    (Array.isArray(files) && files.every(isCompiledFile) && files.some(({ name }) => name === graphFile))
  )
}

function isCompiledFile(value: unknown): value is CompiledFile {
  if (!hasFields(value, { name: 'string', state: 'string', fingerprint: 'string' })) return false
  const { byteLength, hash } = value
  const name = value.name as string
  if (name !== basename(name) || name === '..' || name === '.') return false
  return Number.isSafeInteger(byteLength) && typeof (hash ?? '') === 'string'
}

/** Whether a value has fields of these types. */
function hasFields(value: unknown, types: Record<string, string>): value is Record<string, unknown> {
  const fields = value as Record<string, unknown> | null
  return (
    typeof fields === 'object' &&
    fields !== null &&
    Object.entries(types).every(([name, type]) => typeof fields[name] === type)
  )
}

async function checked(
  folder: string,
  file: CompiledFile,
  isReadOnly: boolean,
): Promise<CompiledFile | null> {
  const path = join(folder, file.name)
  const stats = trustedStats(path, 'file')
  if (stats === null || stats.size !== BigInt(file.byteLength)) return null
  const state = stateOf(stats)
  if (state === file.state) return file
  if (file.hash === null) return null
  if (isReadOnly && fingerprintOf(path) === file.fingerprint) return { ...file, state }
  const hash = await hashOfFile(path).catch(() => '')
  return hash === file.hash ? { ...file, state } : null
}

/** Why a model is not in the cache: what the most similar compiled form of the same model was made for. */
export async function whyMissing(cache: CacheFolder, wanted: MadeFor): Promise<string> {
  let nearest: readonly string[] | null = null
  for (const name of await readdir(join(cache.root, 'entries')).catch(() => [])) {
    const manifest = readSealed<unknown>(join(cache.entry(name), manifestFile))
    if (!isManifest(manifest) || manifest.files === null || manifest.madeFor.content !== wanted.content)
      continue
    const found = differences(manifest.madeFor, wanted)
    if (nearest === null || found.length < nearest.length) nearest = found
  }
  if (nearest === null) return 'it is not in the cache'
  return nearest.length === 0
    ? 'its entry in the cache is damaged, or was not sealed before the system was started again'
    : `the cache has it only for ${nearest.join(', and ')}`
}

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
 * Removes unfinished work and locks of processes that have ended. Also removes hashes, notes and other files without an entry
 * after a month without use.
 */
export async function sweep(cache: CacheFolder): Promise<void> {
  for (const name of await readdir(cache.unfinished)) {
    const path = join(cache.unfinished, name)
    const owner = name.split('-')[0]!
    if (hasEnded(owner) || (await isOlderThan(path, abandonedAfterMs)))
      await rm(path, { recursive: true, force: true }).catch(() => {})
  }
  for (const name of await readdir(join(cache.root, 'locks')))
    await EntryLock.removeDead(join(cache.root, 'locks', name))
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
