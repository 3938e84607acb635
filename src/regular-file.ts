import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/** Most bytes read at once; between two reads the limit is looked at. */
const chunkBytes = 2 ** 20

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
async function withRegularFile<T>(path: string, read: (file: Awaited<ReturnType<typeof open>>, byteLength: number) => T): Promise<Awaited<T>> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOCTTY ?? 0))
  try {
    const stats = await file.stat()
    if (stats.isDirectory()) throw new NotReadable('EISDIR', 'it is a directory')
    if (!stats.isFile()) throw new NotReadable('EINVAL', 'it is no regular file but a pipe, a socket or a device')
    return await read(file, stats.size)
  } finally {
    await file.close()
  }
}

/** Rejects with {@link NotReadable} or an error of `open` unless there is a regular file that may be read. */
export function checkRegularFile(path: string): Promise<void> {
  return withRegularFile(path, () => {})
}

/**
 * The content of a regular file; rejects with {@link NotReadable} (code `EFBIG`) before more than `limitBytes` are read, also
 * of a file that grows or does not tell its size.
 */
export function readRegularFile(path: string, limitBytes: number): Promise<Buffer> {
  return withRegularFile(path, async (file, byteLength) => {
    if (byteLength > limitBytes) throw new NotReadable('EFBIG', `it has ${byteLength} bytes`)
    const chunks: Buffer[] = []
    let length = 0
    for (let wanted = byteLength; ; wanted = chunkBytes) {
      // One byte more than there should be: an empty read is the end.
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafeSlow(Math.min(wanted, chunkBytes) + 1))
      if (bytesRead === 0) return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
      length += bytesRead
      if (length > limitBytes) throw new NotReadable('EFBIG', `it has more than ${limitBytes} bytes`)
      chunks.push(buffer.subarray(0, bytesRead))
    }
  })
}
