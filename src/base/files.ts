import { fileURLToPath } from 'node:url'
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

/** The path that a path or a `file:` URL names, which may be text as well; `null` for what names no file, such as an address of the web. */
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

/** By how much the room grows for a file that is longer than it says. */
const leastGrowthBytes = 65_536

/** Why a path is not read although something is there. `code` is that of the like error of Node.js. */
export class NotReadable extends Error {
  readonly code: 'EISDIR' | 'EINVAL' | 'EFBIG'

  constructor(code: NotReadable['code'], message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Opens a file for `read`. What is no regular file is refused: a FIFO would be waited for, a device has no end. Looked at
 * once it is open, so that nothing can be put in its place in between, and opened without waiting for a writer.
 *
 * @throws NotReadable, or what `open` throws.
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
    throw new NotReadable('EINVAL', 'it is no regular file but a pipe, a socket or a device')
}

/** More characters fit in no string of V8's. */
export const mostTextBytes = 2 ** 29 - 25

/** The text of a regular file, which is refused as those of {@link readRegularFile} are; without a byte order mark. */
export async function readRegularText(path: string): Promise<string> {
  return withoutMark((await readRegularFile(path, mostTextBytes)).toString())
}

/** The same without waiting. */
export function readRegularTextSync(path: string): string {
  return withRegularFileSync(path, (file, byteLength) => {
    if (byteLength > mostTextBytes) throw new NotReadable('EFBIG', `it has ${byteLength} bytes`)
    return withoutMark(readFileSync(file, 'utf8'))
  })
}

/** As {@link withRegularFile}, without waiting. */
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

/** A file as far as its system tells of changes. */
export interface FileStamp {
  /** Changes when it is written or replaced, unless its modification time is set back; `''` for no file. */
  readonly content: string
  /** Changes when anything of it does, its rights and links as well; it cannot be set back. */
  readonly anything: string
}

export function stampOf(path: string): FileStamp {
  const stats = statSync(path, { throwIfNoEntry: false })
  const content = stats === undefined ? '' : `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeMs}`
  return { content, anything: `${content} ${stats?.ctimeMs}` }
}

/** Rejects with {@link NotReadable} or an error of `open` unless there is a regular file that may be read. */
export function checkRegularFile(path: string): Promise<void> {
  return withRegularFile(path, () => {})
}

/** The first bytes of a regular file, so many or as many as there are; rejects as {@link checkRegularFile} does. */
export function beginningOf(path: string, byteLength: number): Promise<Buffer> {
  return withRegularFile(path, async (file) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(byteLength), 0, byteLength, 0)
    return buffer.subarray(0, bytesRead)
  })
}

/**
 * The content of a regular file; rejects with {@link NotReadable} (code `EFBIG`) before more than `limitBytes` are read, also
 * of a file that grows or does not tell its size.
 */
export function readRegularFile(path: string, limitBytes: number): Promise<Buffer> {
  return withRegularFile(path, async (file, byteLength) => {
    if (byteLength > limitBytes) throw new NotReadable('EFBIG', `it has ${byteLength} bytes`)
    // One byte more than there should be: whether the file goes on is seen at once.
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
