import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * Writes parts one after the other, at the reader's pace. Stops if the reader closes standard output early.
 *
 * @param path a file; omitted or `undefined` for standard output.
 */
export async function writeParts(parts: Iterable<string | Uint8Array>, path?: string): Promise<void> {
  try {
    await pipeline(Readable.from(parts), path === undefined ? process.stdout : createWriteStream(path), {
      end: path !== undefined,
    })
  } catch (error) {
    if (path !== undefined || !wasClosed.has((error as NodeJS.ErrnoException).code!)) throw error
  }
}

const wasClosed = new Set(['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])
