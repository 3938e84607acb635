import { join } from 'node:path'
import type { OutputConfig } from '../../options/tensor-config.ts'
import { NotReadable, readRegularFile } from '../../base/files.ts'

const limitBytes = 2 ** 24

/**
 * Reads a file of labels, one in each line.
 *
 * @throws Error in words when there is none that can be read.
 */
export async function readLabels(modelFolder: string, name: string): Promise<string[]> {
  const path = join(modelFolder, name)
  try {
    const text = new TextDecoder().decode(await readRegularFile(path, limitBytes)) // without a mark of its byte order
    const lines = text.split(/\r?\n/)
    if (lines.at(-1) === '') lines.pop()
    return lines
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Error(
      code === 'ENOENT'
        ? `no file at ${path}`
        : error instanceof NotReadable && code === 'EFBIG'
          ? `${message}, of at most ${limitBytes}`
          : message,
    )
  }
}

/** The outputs, with their labels. */
export function withLabels<T extends Pick<OutputConfig, 'labels'>>(
  outputs: readonly T[],
  labels: ReadonlyMap<number, readonly string[]>,
): T[] {
  return outputs.map((output, index) => {
    const own = labels.get(index)
    return own === undefined ? output : { ...output, labels: own }
  })
}
