import { randomUUID } from 'node:crypto'
import { rmSync, statSync, writeFileSync, type Stats } from 'node:fs'
import { realpath, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { invalidArgument } from 'zerohop/internals'

/**
 * Finds out, before anything is measured, whether a file could be written: by writing nothing beside it.
 *
 * @param option that names the file, for the message.
 * @throws InferenceError `ERR_INVALID_ARG` where there is no such folder, nothing may be written in it, or there is something that is no file; what Node.js throws where it cannot be looked at.
 */
export function checkFilePlace(option: string, path: string): void {
  const folder = dirname(resolve(path))
  const found = statOf(folder)
  if (found?.isDirectory() !== true) {
    const why = found === null ? 'There is no folder' : 'It is no folder:'
    throw invalidArgument(option, 'the path of a file in a folder that is there', path, {
      hint: `${why} ${folder}. Make it, or name another`,
    })
  }
  const before = statOf(resolve(path))
  if (before !== null && !before.isFile())
    throw invalidArgument(option, 'the path of a file', path, {
      hint: 'There is something that is no file. Name another',
    })
  const trial = unfinishedIn(folder)
  try {
    writeFileSync(trial, '', { flag: 'wx' })
    rmSync(trial)
  } catch (cause) {
    throw invalidArgument(option, 'the path of a file in a folder that can be written in', path, {
      cause,
      hint: `${(cause as Error).message}. Name another`,
    })
  }
}

/**
 * Writes a file so that nobody ever finds a part of it: it takes the place of the one before, if there is one, when it is
 * complete. What a link leads to is replaced, not the link.
 *
 * @throws as {@link checkFilePlace}, and what Node.js throws where it cannot be written; then nothing is left of it.
 */
export async function writeWholeFile(
  option: string,
  path: string,
  text: string | Iterable<string>,
): Promise<void> {
  checkFilePlace(option, path)
  const target = await realpath(path).catch(() => resolve(path))
  const unfinished = unfinishedIn(dirname(target))
  try {
    await writeFile(unfinished, text, { flag: 'wx' })
    await rename(unfinished, target)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

function unfinishedIn(folder: string): string {
  return join(folder, `.${randomUUID()}.tmp`)
}

function statOf(path: string): Stats | null {
  try {
    return statSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw error
  }
}
