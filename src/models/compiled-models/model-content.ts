import { createHash, webcrypto } from 'node:crypto'
import { fstatSync, readSync, statSync, type BigIntStats } from 'node:fs'
import { dirname, isAbsolute, join, relative, sep } from 'node:path'
import { withRegularFile, withRegularFileSync } from '../../base/files.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { hashOfText, readSealed, stateOf, writeSealed, type CacheFolder } from './cache-folder.ts'

/** The content of a model at the time it was read. */
export interface ModelContent {
  /** Equal for models with equal content, at any path. */
  readonly hash: string
  /** Of all its files. */
  readonly byteLength: number
  /** Whether its files are still the hashed ones. They are read again if their modification times are inconclusive. */
  isCurrent(signal: AbortSignal): Promise<boolean>
  /** Whether it is one file alone, which was in this state for a while before `atMs`: who read it since then read what was hashed. */
  wasInState(state: string, atMs: number): boolean
}

/** Files by path, with their states when they were hashed. */
interface KnownContent {
  readonly path: string
  readonly files: readonly (readonly [path: string, state: string])[]
  readonly hash: string
  readonly byteLength: number
  /** Of the files, in their order; see {@link fingerprintOf}. */
  readonly fingerprints?: readonly (string | null)[]
}

/**
 * A file modified this shortly before it was hashed may change again without a new modification time: file system
 * clocks advance in steps, and those of other machines differ.
 */
export const settledAfterMs = 2000

/** Hashes a model and its weight files. A file whose state is unchanged since an earlier hash is not read again. */
export async function contentOf(
  { path, bytes, sessionOptions }: ResolvedConfig,
  folder: CacheFolder,
  signal: AbortSignal,
): Promise<ModelContent> {
  const given: string[] = []
  for (const file of sessionOptions.externalData ?? []) {
    const { path: name, data } = file as { path: string; data: Uint8Array }
    given.push(name, await hashOfBytes(data, signal))
  }
  const model = bytes === null ? path : new Uint8Array(bytes)
  const startMs = Date.now()
  const { files, hash, byteLength } =
    typeof model === 'string' ? await contentOfFile(model, folder, signal) : await hashed(model, signal)
  const isCurrent = async (stopped: AbortSignal) =>
    areCurrent(files) && (areSettled(files, startMs) || (await hashed(model, stopped)).hash === hash)
  const wasInState = (state: string, atMs: number) =>
    files.length === 1 && files[0]![1] === state && areSettled(files, atMs)
  const whole = given.length === 0 ? hash : hashOfText(JSON.stringify([hash, given]))
  return { hash: whole, byteLength, isCurrent, wasInState }
}

/** The state of a model's file, for callers that only need to know whether the model has been seen before. */
export function fileStateOf(path: string): string {
  const stats = statsOf(path)
  return stats === undefined ? 'none' : `${stats.dev} ${stateOf(stats)}`
}

/** Whether a file has to be read to know what it is, and is not just being written. */
export function isToBeHashed(path: string, folder: CacheFolder): boolean {
  return rememberedOf(path, folder) === null && areSettled([[path, '']], Date.now())
}

function rememberedOf(path: string, folder: CacheFolder): KnownContent | null {
  const known = readSealed<KnownContent>(folder.known(path))
  return known?.path === path && (areCurrent(known.files) || areCopies(known, folder)) ? known : null
}

async function contentOfFile(path: string, folder: CacheFolder, signal: AbortSignal): Promise<KnownContent> {
  const remembered = rememberedOf(path, folder)
  if (remembered !== null) return remembered
  const startMs = Date.now()
  const found = await hashed(path, signal)
  const fingerprints = found.files.map(([file]) => fingerprintOf(file))
  const isKnown = folder.readOnly === null && areCurrent(found.files) && areSettled(found.files, startMs)
  if (isKnown) await writeSealed(folder.known(path), { ...found, fingerprints }).catch(() => {})
  return found
}

/**
 * Whether files look like those that were hashed, as they do in a container image. Counts only with a folder that is
 * read-only: any other remembers their states, so that they are read at most once.
 */
function areCopies({ files, fingerprints = [] }: KnownContent, folder: CacheFolder): boolean {
  if (folder.readOnly === null || files.length !== fingerprints.length) return false
  return files.every(
    ([file], index) => fingerprints[index] !== null && fingerprintOf(file) === fingerprints[index],
  )
}

/**
 * Hashes a model and its weight files.
 *
 * @param model its path, or its bytes, whose weight files are relative to the working directory.
 */
async function hashed(model: string | Uint8Array, signal: AbortSignal): Promise<KnownContent> {
  const external = new ExternalFiles()
  const look = (piece: Buffer): void => external.look(piece)
  const isFile = typeof model === 'string'
  const path = isFile ? model : ''
  const files: [path: string, state: string][] = isFile ? [[path, fileStateOf(path)]] : []
  const hashes = [isFile ? await hashOfFile(path, signal, look) : await hashOfBytes(model, signal, look)]
  const folder = isFile ? dirname(path) : process.cwd()
  for (const file of external.in(folder)) {
    const state = fileStateOf(file)
    files.push([file, state])
    // ONNX Runtime reports a file that cannot be read.
    const hash =
      state === 'none'
        ? state
        : await hashOfFile(file, signal).catch(() => (signal.throwIfAborted(), 'unreadable'))
    hashes.push(relative(folder, file), hash)
  }
  const inFiles = files.reduce((sum, [file]) => sum + Number(statsOf(file)?.size ?? 0), 0)
  const byteLength = inFiles + (isFile ? 0 : model.byteLength)
  return { path, files, hash: hashOfText(JSON.stringify(hashes)), byteLength }
}

function areCurrent(files: KnownContent['files']): boolean {
  return files.every(([file, state]) => fileStateOf(file) === state)
}

function areSettled(files: KnownContent['files'], startMs: number): boolean {
  return files.every(([file]) => {
    const stats = statsOf(file)
    return (
      stats === undefined || Math.max(Number(stats.mtimeMs), Number(stats.ctimeMs)) < startMs - settledAfterMs
    )
  })
}

/** `undefined` if there is no access. */
function statsOf(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/**
 * An ONNX file names its weight files in entries `location`: this is the key, field 1 of a message; the name is field
 * 2.
 */
const key = Buffer.from('\x0a\x08location', 'latin1')
const nameField = 0x12
const longestName = 4096
/**
 * Limit on the number and total length of names, above that of any real model, so that a crafted file cannot fill
 * memory.
 */
const mostNames = 65_536
const mostNameBytes = 2 ** 24
/** Bytes of a piece carried over to the next one, so that no entry is cut in two. */
const keptBytes = key.length + 3 + longestName

/** A file refers to more files than can be checked. */
export class TooManyFiles extends Error {
  constructor() {
    super(`it names more than ${mostNames} files, or names with more than ${mostNameBytes} letters in total`)
  }
}

/** Finds the names of a model's weight files as the model is read piece by piece. False positives are harmless. */
export class ExternalFiles {
  readonly #names = new Set<string>()
  #nameBytes = 0
  #searches = 0
  #end: Buffer = Buffer.alloc(0)

  /** @throws TooManyFiles */
  look(piece: Buffer): void {
    this.#search(Buffer.concat([this.#end, piece.subarray(0, keptBytes)]))
    this.#search(piece)
    this.#end = Buffer.from(piece.subarray(-keptBytes))
  }

  /** Sorted paths relative to a model in `folder`. ONNX Runtime accepts no others. */
  in(folder: string): string[] {
    const paths = [...this.#names]
      .filter((name) => name !== '' && !isAbsolute(name))
      .map((name) => join(folder, name))
    return paths.filter((path) => !relative(folder, path).split(sep).includes('..')).sort()
  }

  #search(bytes: Buffer): void {
    for (let at = bytes.indexOf(key); at !== -1; at = bytes.indexOf(key, at + 1)) {
      const next = at + key.length
      if (bytes[next] === nameField) this.#addAt(bytes, next + 1, bytes.length)
      else this.#searchBefore(bytes, at)
    }
  }

  /** Fields may be in any order: here the name ends where the key begins. */
  #searchBefore(bytes: Buffer, at: number): void {
    if (++this.#searches > mostNames) throw new TooManyFiles()
    for (let start = Math.max(0, at - keptBytes); start < at; start++)
      if (bytes[start] === nameField) this.#addAt(bytes, start + 1, at, true)
  }

  /** Adds the name whose length is at a place, if it ends before `end`; with `exactly`, only if it ends there. */
  #addAt(bytes: Buffer, place: number, end: number, exactly = false): void {
    let next = place
    let length = 0
    for (let shift = 0; next < end && shift < 70; shift += 7) {
      const byte = bytes[next++]!
      length += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) break
    }
    if (length <= longestName && (exactly ? next + length === end : next + length <= end))
      this.#add(bytes.toString('utf8', next, next + length))
  }

  /** The system ends a name at a NUL character, so ONNX Runtime opens the file named before it. */
  #add(written: string): void {
    const name = written.split('\0', 1)[0]!
    if (this.#names.has(name)) return
    this.#names.add(name)
    this.#nameBytes += name.length
    if (this.#names.size > mostNames || this.#nameBytes > mostNameBytes) throw new TooManyFiles()
  }
}

/** Bytes per hash call, on Node.js's thread pool: each call takes some tenths of a millisecond of this thread. */
const pieceBytes = 2 ** 18

/**
 * The hash of a file's content: SHA-256 over the SHA-256 hashes of its pieces, for which most processors of servers have
 * instructions.
 *
 * @param look receives each piece, whose memory is reused afterwards.
 * @param rest waited for before each piece.
 */
export async function hashOfFile(
  path: string,
  signal?: AbortSignal,
  look?: (piece: Buffer) => void,
  rest?: () => Promise<void>,
): Promise<string> {
  return withRegularFile(path, async (file) => {
    // One is hashed while the other is read.
    const buffers = [Buffer.allocUnsafeSlow(pieceBytes), Buffer.allocUnsafeSlow(pieceBytes)] as const
    const tree = new HashTree()
    let hashed = Promise.resolve()
    for (let count = 0; ; count++) {
      await rest?.()
      signal?.throwIfAborted()
      const buffer = buffers[count % 2]!
      let length = 0
      for (let bytesRead = -1; length < pieceBytes && bytesRead !== 0; length += bytesRead) {
        ;({ bytesRead } = await file.read(buffer, length, pieceBytes - length, null))
      }
      if (length > 0) look?.(buffer.subarray(0, length))
      await hashed
      if (length === 0) return tree.root()
      hashed = tree.add(buffer.subarray(0, length))
    }
  })
}

/** As {@link hashOfFile}, for bytes, which may be in shared memory. */
export async function hashOfBytes(
  bytes: Uint8Array,
  signal?: AbortSignal,
  look?: (piece: Buffer) => void,
): Promise<string> {
  const tree = new HashTree()
  for (let at = 0; at < bytes.byteLength; at += pieceBytes) {
    signal?.throwIfAborted()
    const length = Math.min(pieceBytes, bytes.byteLength - at)
    const piece = Buffer.from(new Uint8Array(bytes.buffer, bytes.byteOffset + at, length))
    look?.(piece)
    await tree.add(piece)
  }
  return tree.root()
}

class HashTree {
  readonly #digests: Uint8Array[] = []
  #byteLength = 0

  async add(piece: Uint8Array): Promise<void> {
    this.#byteLength += piece.byteLength
    this.#digests.push(new Uint8Array(await webcrypto.subtle.digest('SHA-256', piece)))
  }

  root(): string {
    const hash = createHash('sha256').update(`${this.#byteLength} `)
    for (const digest of this.#digests) hash.update(digest)
    return hash.digest('hex')
  }
}

const sampleCount = 64
const sampleBytes = 4096

/**
 * What a file has in common with a copy that keeps its time: size, time of change in whole seconds, which is what layers
 * of container images keep, and a hash of samples of its content. Synchronous: it reads at most 256 KiB.
 *
 * @returns `null` for a file that cannot be read.
 */
export function fingerprintOf(path: string): string | null {
  try {
    return withRegularFileSync(path, (file, size) => {
      const hash = createHash('sha256')
      const sample = Buffer.alloc(sampleBytes)
      const step = Math.max(sampleBytes, (size - sampleBytes) / (sampleCount - 1))
      for (let index = 0; index < sampleCount; index++)
        hash.update(sample.subarray(0, readSync(file, sample, 0, sampleBytes, Math.floor(index * step))))
      return `${size} ${Math.floor(fstatSync(file).mtimeMs / 1000)} ${hash.digest('hex')}`
    })
  } catch {
    return null
  }
}
