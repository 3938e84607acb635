import { randomUUID } from 'node:crypto'
import { rmSync, type Stats, statSync, writeFileSync } from 'node:fs'
import { realpath, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import * as v from 'valibot'
import { invalidArgument, messageOf, readRegularFile } from 'zerohop/internals'
import { type PerfResult, perfResult } from '../result-schema.ts'

/** 64 MiB, enough for 10 000 levels. */
const mostBytes = 2 ** 26

/** The text of a result for a file. */
export function savedText(saved: PerfResult): string {
  return `${JSON.stringify(saved, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value), 2)}\n`
}

/**
 * Reads a result that `zerohop perf --json` has written.
 *
 * @throws InferenceError `ERR_INVALID_ARG` if the file is no such result, with what is wrong and where;
 * errors of Node.js if it cannot be read.
 */
export async function readSavedResult(path: string): Promise<PerfResult> {
  const text = (await readRegularFile(path, mostBytes)).toString()
  const wrong = (why: string) =>
    invalidArgument(path, 'a result that zerohop perf --json has written', path, {
      hint: `${why}. Write it again`,
    })
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    throw wrong(`It is no JSON: ${messageOf(error)}`)
  }
  const checked = v.safeParse(perfResult, json, { abortEarly: true })
  if (checked.success) return checked.output
  const [issue] = checked.issues
  throw wrong(`${v.getDotPath(issue) ?? 'It'} is not as it has to be: ${issue.message}`)
}

/**
 * Checks before measuring whether a file can be written, by writing an empty file beside it.
 *
 * @param option that names the file, for the message.
 * @throws InferenceError `ERR_INVALID_ARG` if the folder does not exist or is not writable, or the path is
 * something other than a file; errors of Node.js if it cannot be checked.
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
 * Writes a file atomically: a complete file replaces an earlier one, so that no reader finds a part of it.
 * For a link, the target is replaced, not the link.
 *
 * @throws as {@link checkFilePlace}, and errors of Node.js if it cannot be written; then nothing of it
 * remains.
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
