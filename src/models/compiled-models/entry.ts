import { lstatSync, type BigIntStats, readSync } from 'node:fs'
import { chmod, lstat, open, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { withRegularFileSync } from '../../base/files.ts'
import { type CacheFolder, distrustOf, stateOf, readSealed, writeSealed } from './cache-folder.ts'
import { graphFile, graphOptionsOf } from './prepared-model.ts'
import { fingerprintOf, hashOfFile } from './content-hash.ts'
import { startOfSystem } from './entry-lock.ts'
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
  /** `null` before it is known: the file is then believed by its state alone, until the system is started again. */
  readonly hash: string | null
  /** Its state when it was hashed; see {@link stateOf}. */
  readonly state: string
  /** What a copy of it is recognised by; see {@link fingerprintOf}. */
  readonly fingerprint: string
}

/** What an entry is made for. Its key is a hash of all of it. */
export interface MadeFor {
  /** The hash of the model and its weight files. */
  readonly content: string
  readonly executor: string
  /** ONNX Runtime's version. */
  readonly ortVersion: string
  /** Operating system and architecture. */
  readonly system: string
  /** The processor's features that kernels are chosen by, or else its name. */
  readonly processor: string
  readonly providers: string
  /** Why there is no compiled form; else `null`. */
  readonly obstacle: string | null
  /** The session options that affect the graph. */
  readonly options: Readonly<Record<string, string>>
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

/** Hashes files, and flushes them to disk. */
export async function sealFiles(
  folder: string,
  files: readonly CompiledFile[],
  signal: AbortSignal,
): Promise<CompiledFile[]> {
  const sealed: CompiledFile[] = []
  for (const each of files) {
    const path = join(folder, each.name)
    sealed.push({ ...each, hash: await hashOfFile(path, signal) })
    const file = await open(path)
    await file.sync().finally(() => file.close())
  }
  return sealed
}

/**
 * Makes an entry last beyond the next start of the system. It is removed if that fails: what could not be flushed may not be what was
 * compared.
 */
export async function sealEntry(cache: CacheFolder, manifest: Manifest, signal: AbortSignal): Promise<void> {
  const folder = cache.entry(manifest.key)
  try {
    const files = await sealFiles(folder, manifest.files!, signal)
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
  const stats = statsOf(folder)
  if (stats === undefined || !stats.isDirectory() || distrustOf(stats) !== null) return null
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
  const { key, madeFor, files, reason, tooLargeBytes, isFinal, triedAtMs, wasRun, unsealedIn } =
    value as Record<string, unknown>
  const isWhole =
    typeof key === 'string' &&
    typeof madeFor === 'object' &&
    madeFor !== null &&
    keyOf(madeFor as MadeFor) === key &&
    typeof reason === 'string' &&
    typeof tooLargeBytes === 'number' &&
    typeof triedAtMs === 'number'
  if (!isWhole || typeof isFinal !== 'boolean' || typeof wasRun !== 'boolean') return false
  if (unsealedIn !== null && typeof unsealedIn !== 'string') return false
  return (
    files === null ||
    (Array.isArray(files) && files.every(isCompiledFile) && files.some(({ name }) => name === graphFile))
  )
}

function isCompiledFile(value: unknown): value is CompiledFile {
  if (typeof value !== 'object' || value === null) return false
  const { name, byteLength, hash, state, fingerprint } = value as Record<string, unknown>
  if (typeof name !== 'string' || name !== basename(name) || name === '..' || name === '.') return false
  const texts = [hash ?? '', state, fingerprint]
  return Number.isSafeInteger(byteLength) && texts.every((text) => typeof text === 'string')
}

async function checked(
  folder: string,
  file: CompiledFile,
  isReadOnly: boolean,
): Promise<CompiledFile | null> {
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
  if (file.hash === null) return null
  if (isReadOnly && fingerprintOf(path) === file.fingerprint) return { ...file, state }
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
 * All that changes the compiled form of a model, or whether it can be compiled.
 *
 * @param obstacle why there is no compiled form; else `null`.
 */
export function madeFor(
  content: string,
  { executor, ortVersion, onCpuOnly }: ModelRuntime,
  config: ResolvedConfig,
  obstacle: string | null,
): MadeFor {
  const providers = onCpuOnly
    ? 'cpu'
    : inspect([config.executionProviders, config.instanceGroup.map(({ kind, gpus }) => [kind, gpus])], {
        depth: null,
      })
  return {
    content,
    executor,
    ortVersion,
    system: `${process.platform} on ${process.arch}`,
    processor: processorFeatures(),
    providers,
    obstacle,
    options: graphOptionsOf(config),
  }
}

/** The name of an entry. */
export function keyOf(made: MadeFor): string {
  return createHash('sha256').update(JSON.stringify(made)).digest('hex')
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

/** In what an entry was made for something else. */
function differences(made: MadeFor, wanted: MadeFor): string[] {
  const found: string[] = []
  if (made.system !== wanted.system) found.push(`${made.system} (this is ${wanted.system})`)
  if (made.system === wanted.system && made.processor !== wanted.processor)
    found.push(otherProcessor(made.processor, wanted.processor))
  if (made.ortVersion !== wanted.ortVersion)
    found.push(`ONNX Runtime ${made.ortVersion} (this is ${wanted.ortVersion})`)
  if (made.executor !== wanted.executor)
    found.push(`executor: '${made.executor}' (this is '${wanted.executor}')`)
  if (made.providers !== wanted.providers || made.obstacle !== wanted.obstacle)
    found.push('other execution providers')
  const names = new Set([...Object.keys(made.options), ...Object.keys(wanted.options)])
  const others = [...names].filter((name) => made.options[name] !== wanted.options[name])
  if (others.length > 0) found.push(`other options (${others.join(', ')})`)
  return found
}

function otherProcessor(made: string, here: string): string {
  const [needed, has] = [made.split(' '), here.split(' ')]
  const lacking = needed.filter((feature) => !has.includes(feature))
  if (lacking.length > 0) return `a processor with ${firstOf(lacking)}, which this one lacks`
  const more = has.filter((feature) => !needed.includes(feature))
  return `a processor without ${firstOf(more)}, which this one has`
}

const featuresNamed = 8

function firstOf(features: readonly string[]): string {
  const rest = features.length - featuresNamed
  return `${features.slice(0, featuresNamed).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}

let ownFeatures: string | undefined

/**
 * The features of this machine's processor that kernels, and with them the layout of compiled weights, are chosen by; if
 * the system does not list them, the processor's name.
 */
function processorFeatures(): string {
  return (ownFeatures ??= featuresOf(processorInfo()) ?? cpus()[0]?.model ?? '')
}

/**
 * The instruction sets for vectors and matrices in a list of Linux. What else is in it (of virtual machines, of the
 * kernel's protections) differs between machines of one kind.
 */
export function featuresOf(info: string | null): string | null {
  const list = /^(?:flags|Features)\s*:(.*)$/m.exec(info ?? '')?.[1]
  const features = list
    ?.trim()
    .split(/\s+/)
    .filter((feature) => ofVectors.test(feature))
  return features === undefined ? null : features.sort().join(' ')
}

/** x86: up to AMX; ARM: from NEON (asimd) to SME. */
const ofVectors =
  /^(?:s?sse|pni$|avx|amx|fma|f16c$|xop$|gfni$|vaes$|vpclmul|asimd|neon|vfp|fp(?:hp)?$|fcma$|sve|sme|i8mm$|bf16$|ebf16$|i16i64$|f64f64$)/

const mostBytes = 16_384

/** What Linux says of its first processor (with hundreds of them the full list is slow); else `null`. */
function processorInfo(): string | null {
  try {
    const buffer = Buffer.alloc(mostBytes)
    return withRegularFileSync('/proc/cpuinfo', (file) =>
      buffer.toString('latin1', 0, readSync(file, buffer, 0, mostBytes, 0)),
    )
  } catch {
    return null // not available
  }
}
