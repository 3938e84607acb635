import { lstatSync, type BigIntStats, closeSync, openSync, readSync } from 'node:fs'
import { chmod, lstat, open, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type CacheFolder, distrustOf, stateOf, readSealed, writeSealed } from './cache-folder.ts'
import { graphFile, graphOptionsOf } from './prepared-model.ts'
import { hashOfFile } from './content-hash.ts'
import { touch } from './eviction.ts'
import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import { cpus } from 'node:os'

/** A file of a compiled model. */
export interface CompiledFile {
  readonly name: string
  readonly byteLength: number
  readonly hash: string
  /** Its state when it was hashed; see {@link stateOf}. */
  readonly state: string
}

/** The cache's record of a model that has been tried. */
export interface Manifest {
  readonly key: string
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

/** Hashes finished files in a folder of this process, makes them read-only, and flushes them to disk. */
export async function sealFiles(folder: string): Promise<CompiledFile[]> {
  const names = await readdir(folder)
  return Promise.all(
    names.map(async (name) => {
      const path = join(folder, name)
      await chmod(path, onlyToRead)
      const file = await open(path)
      await file.sync().finally(() => file.close())
      const hash = await hashOfFile(path)
      const stats = await lstat(path, { bigint: true })
      return { name, byteLength: Number(stats.size), hash, state: stateOf(stats) }
    }),
  )
}

/** Publishes a folder and its files as an entry, and replaces an existing one. */
export async function publishEntry(cache: CacheFolder, folder: string, manifest: Manifest): Promise<void> {
  if (manifest.files === null)
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true })
  await writeSealed(join(folder, manifestFile), manifest, onlyToRead)
  await touch(cache, manifest.key)
  await cache.publish(folder, manifest.key)
}

/**
 * Reads an entry. Files whose state is unchanged since they were hashed are trusted; others are hashed again.
 *
 * @returns `null` for an entry that is missing, damaged, or writable by another user.
 */
export async function readEntry(cache: CacheFolder, key: string): Promise<Manifest | null> {
  const folder = cache.entry(key)
  const stats = statsOf(folder)
  if (stats === undefined || !stats.isDirectory() || distrustOf(stats) !== null) return null
  const manifest = readSealed<unknown>(join(folder, manifestFile))
  if (!isManifest(manifest) || manifest.key !== key) return null
  if (manifest.files === null) return manifest
  const files = await Promise.all(manifest.files.map((file) => checked(folder, file)))
  if (!files.every((file) => file !== null)) return null
  const moved = files.some((file, index) => file.state !== manifest.files![index]!.state)
  // Such as after a copy or restore: the next reader need not hash them.
  if (moved) await writeSealed(join(folder, manifestFile), { ...manifest, files }, onlyToRead).catch(() => {})
  return { ...manifest, files }
}

/**
 * Whether the files of an entry are unchanged since {@link readEntry} checked them, and only this user can write to
 * them. Called again after the files were opened by path.
 */
export function isAsRead(cache: CacheFolder, { key, files }: Manifest): boolean {
  const folder = cache.entry(key)
  const stats = statsOf(folder)
  if (stats === undefined || !stats.isDirectory() || distrustOf(stats) !== null || !cache.isSafe())
    return false
  return files!.every(({ name, state }) => {
    const found = statsOf(join(folder, name))
    return found !== undefined && found.isFile() && distrustOf(found) === null && stateOf(found) === state
  })
}

/** The path of an entry's graph. */
export function graphOf(cache: CacheFolder, key: string): string {
  return join(cache.entry(key), graphFile)
}

/** The seal proves that a file is complete, not that this version wrote it. */
function isManifest(value: unknown): value is Manifest {
  if (typeof value !== 'object' || value === null) return false
  const { key, files, reason, tooLargeBytes, isFinal, triedAtMs, wasRun } = value as Record<string, unknown>
  const isWhole =
    typeof key === 'string' &&
    typeof reason === 'string' &&
    typeof tooLargeBytes === 'number' &&
    typeof triedAtMs === 'number'
  if (!isWhole || typeof isFinal !== 'boolean' || typeof wasRun !== 'boolean') return false
  return (
    files === null ||
    (Array.isArray(files) && files.every(isCompiledFile) && files.some(({ name }) => name === graphFile))
  )
}

function isCompiledFile(value: unknown): value is CompiledFile {
  if (typeof value !== 'object' || value === null) return false
  const { name, byteLength, hash, state } = value as Record<string, unknown>
  if (typeof name !== 'string' || name !== basename(name) || name === '..' || name === '.') return false
  return Number.isSafeInteger(byteLength) && typeof hash === 'string' && typeof state === 'string'
}

async function checked(folder: string, file: CompiledFile): Promise<CompiledFile | null> {
  const path = join(folder, file.name)
  const stats = statsOf(path)
  if (
    stats === undefined ||
    !stats.isFile() ||
    distrustOf(stats) !== null ||
    stats.size !== BigInt(file.byteLength)
  )
    return null
  const state = stateOf(stats)
  if (state === file.state) return file
  const hash = await hashOfFile(path).catch(() => '')
  return hash === file.hash ? { ...file, state } : null
}

/** `undefined` if there is no access. */
function statsOf(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/**
 * The name of an entry. It differs for everything that changes the compiled form, or whether compilation fails.
 *
 * @param obstacle why there is no compiled form; else `null`.
 */
export function entryKey(
  content: string,
  runtime: ModelRuntime,
  config: ResolvedConfig,
  obstacle: string | null,
): string {
  const { executor, ortVersion, onCpuOnly } = runtime
  const providers = onCpuOnly
    ? 'cpu'
    : inspect([config.executionProviders, config.instanceGroup.map(({ kind, gpus }) => [kind, gpus])], {
        depth: null,
      })
  const parts = [
    content,
    executor,
    ortVersion,
    process.platform,
    process.arch,
    cpuFeatures(),
    providers,
    obstacle,
    inspect(graphOptionsOf(config), { depth: null, maxArrayLength: null, maxStringLength: null }),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

let found: string | undefined

/** Features of this machine's processor, as text: compiled weights are laid out for them. */
function cpuFeatures(): string {
  return (found ??= fromSystem() ?? cpus()[0]?.model ?? '')
}

const mostBytes = 16_384

/** Of the first processor: with hundreds of them the full list is slow. */
function fromSystem(): string | null {
  try {
    const file = openSync('/proc/cpuinfo', 'r')
    try {
      const buffer = Buffer.alloc(mostBytes)
      const length = readSync(file, buffer, 0, mostBytes, 0)
      return (
        /^(?:flags|Features)\s*:(.*)$/m
          .exec(buffer.toString('latin1', 0, length))?.[1]
          ?.trim()
          .split(/\s+/)
          .sort()
          .join(' ') ?? null
      )
    } finally {
      closeSync(file)
    }
  } catch {
    return null // not available
  }
}
