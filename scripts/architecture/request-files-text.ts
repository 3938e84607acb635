import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('../../src/', import.meta.url))

/** Lines of a file of src/. */
export const linesOf = (file: string): number => readFileSync(source + file, 'utf8').split('\n').length - 1

/** The list in docs of the files that run for a request: a line each, and how many they are. */
export function requestFilesText(files: readonly string[]): string {
  return [...files, `${files.length} files`].join('\n')
}
