import { fileURLToPath } from 'node:url'
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * The path of a path or `file:` URL, which may be a string; `null` for a value that names no file, such as a
 * web address.
 */
export function filePath(given: unknown): string | null {
  const isUrl =
    given instanceof URL ||
    (typeof given === 'string' && /^(?:file:\/\/|https?:\/\/|data:[a-z]+\/)/i.test(given))
  if (!isUrl) return typeof given === 'string' && given !== '' ? given : null
  try {
    return fileURLToPath(given)
  } catch {
    return null // of another scheme, or with a host
  }
}

/** How much the buffer grows if a file is longer than its size says. */
const leastGrowthBytes = 65_536

/** Why an existing path cannot be read. `code` is that of the similar error of Node.js. */
export class NotReadable extends Error {
  readonly code: 'EISDIR' | 'EINVAL' | 'EFBIG'

  constructor(code: NotReadable['code'], message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Opens a regular file for `read`, and refuses anything else: a FIFO would block, a device has no end. The
 * check comes after opening, so that the file cannot be exchanged in between; opening does not wait for a
 * writer.
 *
 * @throws NotReadable, or the error of `open`.
 */
export async function withRegularFile<T>(
  path: string,
  read: (file: Awaited<ReturnType<typeof open>>, byteLength: number) => T,
): Promise<Awaited<T>> {
  const file = await open(path, withoutWaiting)
  try {
    const stats = await file.stat()
    checkStats(stats)
    return await read(file, stats.size)
  } finally {
    await file.close()
  }
}

const withoutWaiting = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0)

function checkStats(stats: Stats): void {
  if (stats.isDirectory()) throw new NotReadable('EISDIR', 'it is a directory')
  if (!stats.isFile())
    throw new NotReadable('EINVAL', 'it is a pipe, a socket or a device, not a regular file')
}

/** The longest string in V8. */
const mostTextBytes = 2 ** 29 - 25

/** The text of a regular file, without a byte order mark. Refuses what {@link readRegularFile} refuses. */
export async function readRegularText(path: string): Promise<string> {
  return withoutMark((await readRegularFile(path, mostTextBytes)).toString())
}

/** Synchronous {@link readRegularText}. */
export function readRegularTextSync(path: string): string {
  return withRegularFileSync(path, (file, byteLength) => {
    if (byteLength > mostTextBytes) throw new NotReadable('EFBIG', `it has ${byteLength} bytes`)
    return withoutMark(readFileSync(file, 'utf8'))
  })
}

/** Synchronous {@link withRegularFile}. */
export function withRegularFileSync<T>(path: string, read: (file: number, byteLength: number) => T): T {
  const file = openSync(path, withoutWaiting)
  try {
    const stats = fstatSync(file)
    checkStats(stats)
    return read(file, stats.size)
  } finally {
    closeSync(file)
  }
}

function withoutMark(text: string): string {
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}

/** Metadata of a file that changes with it. */
export interface FileStamp {
  /**
   * Changes when the file is written or replaced, unless its modification time is set back; `''` for no file.
   */
  readonly content: string
  /** Changes with any change of the file, including permissions and links. It cannot be set back. */
  readonly anything: string
}

export function stampOf(path: string): FileStamp {
  const stats = statSync(path, { throwIfNoEntry: false })
  const content = stats === undefined ? '' : `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeMs}`
  return { content, anything: `${content} ${stats?.ctimeMs}` }
}

/** Rejects with {@link NotReadable} or an error of `open` unless the path is a readable regular file. */
export function checkRegularFile(path: string): Promise<void> {
  return withRegularFile(path, () => {})
}

/** The first bytes of a regular file, or all if it has fewer. Rejects as {@link checkRegularFile} does. */
export function beginningOf(path: string, byteLength: number): Promise<Buffer> {
  return withRegularFile(path, async (file) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(byteLength), 0, byteLength, 0)
    return buffer.subarray(0, bytesRead)
  })
}

/**
 * The content of a regular file. Rejects with {@link NotReadable} (code `EFBIG`) before more than
 * `limitBytes` are read, even if a file grows or reports no size.
 */
export function readRegularFile(path: string, limitBytes: number): Promise<Buffer> {
  return withRegularFile(path, async (file, byteLength) => {
    if (byteLength > limitBytes) throw new NotReadable('EFBIG', `it has ${byteLength} bytes`)
    // One byte more than expected shows at once whether the file goes on.
    let data = Buffer.allocUnsafeSlow(byteLength + 1)
    for (let length = 0; ;) {
      const { bytesRead } = await file.read(data, length, data.length - length, null)
      length += bytesRead
      if (length > limitBytes) throw new NotReadable('EFBIG', `it has more than ${limitBytes} bytes`)
      if (bytesRead === 0 || (length === byteLength && length < data.length)) return data.subarray(0, length)
      if (length === data.length)
        data = Buffer.concat([data, Buffer.allocUnsafeSlow(Math.max(data.length, leastGrowthBytes))])
    }
  })
}
