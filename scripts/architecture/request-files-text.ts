import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('../../src/', import.meta.url))

/** Lines of code of a file of src/: those that are neither blank nor all comment. */
export function linesOfCode(file: string): number {
  const code = readFileSync(source + file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '')
  return code.split('\n').filter((line) => !/^\s*(\/\/.*)?$/.test(line)).length
}

/** The list in docs of the files that run for a request: a line each, and how many they are. */
export function requestFilesText(files: readonly string[]): string {
  return [...files, `${files.length} files`].join('\n')
}
