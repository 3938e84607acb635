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
  /** When it was hashed. */
  readonly state: string
}

/** What the cache says of a model that has been tried. */
export interface Manifest {
  readonly key: string
  /** `null` for a model that is opened as it is. */
  readonly files: readonly CompiledFile[] | null
  /** Why it has a compiled form, or has none. */
  readonly reason: string
  /** What the files would take, where they were too large to be kept; else 0. */
  readonly tooLargeBytes: number
  /** Whether it will have none, whatever comes. */
  readonly isFinal: boolean
  readonly triedAtMs: number
  /** Whether it was run when it was tried, or loaded only. */
  readonly wasRun: boolean
}

/** Of a model that could not be compiled: memory, time or a quota may have been short. */
const believedForMs = 24 * 60 * 60 * 1000

/** Whether a model that has no compiled form may have one now. */
export function mayBeCompiled(
  { files, tooLargeBytes, isFinal, triedAtMs }: Manifest,
  maxBytes: number,
): boolean {
  if (files !== null || isFinal) return false
  return tooLargeBytes > 0 ? tooLargeBytes <= maxBytes : !(Math.abs(Date.now() - triedAtMs) < believedForMs)
}

const manifestFile = 'manifest.json'
const onlyToRead = 0o400

/** Finished files in a folder of this process: nobody changes them from now on, and they are on the disk. */
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

/** Makes a folder with its files an entry, instead of the one there is. */
export async function publishEntry(cache: CacheFolder, folder: string, manifest: Manifest): Promise<void> {
  if (manifest.files === null)
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true })
  await writeSealed(join(folder, manifestFile), manifest, onlyToRead)
  await touch(cache, manifest.key)
  await cache.publish(folder, manifest.key)
}

/**
 * Reads an entry. Files that are as they were when they were hashed are believed, others are hashed again.
 *
 * @returns `null` when there is none, or any of it is broken, or can have been written by another user.
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
  // As after it was copied or restored: the next one need not hash them.
  if (moved) await writeSealed(join(folder, manifestFile), { ...manifest, files }, onlyToRead).catch(() => {})
  return { ...manifest, files }
}

/**
 * Whether the files of an entry are still those that {@link readEntry} has looked at, and nobody else can have changed any: asked once more
 * after they were opened by their paths.
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

/** The seal says that a file is whole, and not that this version has written it. */
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

/** `undefined` for what cannot be looked at. */
function statsOf(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/**
 * The name of an entry: another one for all that makes another compiled form, or might fail where this did not.
 *
 * @param obstacle why there is to be no compiled form; else `null`.
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

/** What this machine's processor can do, in words: compiled weights are laid out for it. */
function cpuFeatures(): string {
  return (found ??= fromSystem() ?? cpus()[0]?.model ?? '')
}

const mostBytes = 16_384

/** Of the first processor: with hundreds of them the whole list takes its time. */
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
    return null // it does not tell
  }
}
