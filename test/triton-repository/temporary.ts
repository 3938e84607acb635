import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Contents of files by their paths below a folder. */
export type Files = Readonly<Record<string, string | Uint8Array>>

/** A folder with these files, removed when the test ends. */
export function temporaryFolder(files: Files, parent: string = tmpdir()): string {
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'zerohop-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFiles(folder, files)
  return folder
}

/** Writes files below a folder, which need not be there. */
export function writeFiles(folder: string, files: Files): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
}

/** What the promise rejects with, or the function throws; fails the test when there is nothing. */
export async function errorOf(
  failing: Promise<unknown> | (() => unknown),
): Promise<Error & Record<string, unknown>> {
  try {
    await (typeof failing === 'function' ? failing() : failing)
  } catch (error) {
    return error as Error & Record<string, unknown>
  }
  throw new Error('expected an error, and there was none')
}
