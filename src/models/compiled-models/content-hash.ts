import { createHash, webcrypto } from 'node:crypto'
import { constants, fstatSync, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { withRegularFileSync } from '../../base/files.ts'

/** Bytes per hash call, on Node.js's thread pool: each call takes some tenths of a millisecond of this thread. */
const pieceBytes = 2 ** 18

/**
 * The hash of a file's content: SHA-256 over the SHA-384 hashes of its pieces. On a processor without instructions for
 * SHA-256, SHA-384 takes half the time, and a first load tries the model on the same cores meanwhile. On others it takes
 * longer, but less than the trial.
 *
 * @param look receives each piece, whose memory is reused afterwards.
 */
export async function hashOfFile(
  path: string,
  signal?: AbortSignal,
  look?: (piece: Buffer) => void,
): Promise<string> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    if (!(await file.stat()).isFile()) throw new Error(`${path} is not a regular file`)
    // One is hashed while the other is read.
    const buffers = [Buffer.allocUnsafeSlow(pieceBytes), Buffer.allocUnsafeSlow(pieceBytes)] as const
    const tree = new HashTree()
    let hashed = Promise.resolve()
    for (let count = 0; ; count++) {
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
  } finally {
    await file.close()
  }
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
    this.#digests.push(new Uint8Array(await webcrypto.subtle.digest('SHA-384', piece)))
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
