import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('../../src/', import.meta.url))

/** Lines of a file of src/. */
export const linesOf = (file: string): number => readFileSync(source + file, 'utf8').split('\n').length - 1

/** The list in docs of the files that run for a request: a line each, in the order of the floors, with their lines. */
export function requestFilesText(files: readonly string[]): string {
  const width = Math.max(...files.map((file) => file.length))
  const rows = files.map((file) => `${file.padEnd(width)}  ${String(linesOf(file)).padStart(4)}`)
  const lines = files.reduce((sum, file) => sum + linesOf(file), 0)
  return [...rows, `${`${files.length} files`.padEnd(width)}  ${String(lines).padStart(4)}`].join('\n')
}
