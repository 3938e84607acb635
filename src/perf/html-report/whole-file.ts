import { randomUUID } from 'node:crypto'
import { realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { invalidArgument } from '../../errors.ts'

/**
 * Looks, before anything is measured, whether a file could be written.
 *
 * @param option that names the file, for the message.
 * @throws InferenceError `ERR_INVALID_ARG` where there is no such folder, or something that is no file; what Node.js throws where it cannot be looked at.
 */
export async function checkFilePlace(option: string, path: string): Promise<void> {
  const folder = dirname(resolve(path))
  const found = await statOf(folder)
  if (found?.isDirectory() !== true) {
    const why = found === null ? 'There is no folder' : 'It is no folder:'
    throw invalidArgument(option, 'the path of a file in a folder that is there', path, { hint: `${why} ${folder}. Make it, or name another` })
  }
  const before = await statOf(path)
  if (before !== null && !before.isFile()) throw invalidArgument(option, 'the path of a file', path, { hint: 'There is something that is no file. Name another' })
}

/**
 * Writes a file so that nobody ever finds a part of it: it takes the place of the one before, if there is one, when it is
 * complete. What a link leads to is replaced, not the link.
 *
 * @throws as {@link checkFilePlace}, and what Node.js throws where it cannot be written; then nothing is left of it.
 */
export async function writeWholeFile(option: string, path: string, text: string): Promise<void> {
  await checkFilePlace(option, path)
  const target = await realpath(path).catch(() => resolve(path))
  const unfinished = join(dirname(target), `.${randomUUID()}.tmp`)
  try {
    await writeFile(unfinished, text, { flag: 'wx' })
    await rename(unfinished, target)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

async function statOf(path: string) {
  return stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })
}
