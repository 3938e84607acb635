import { resolve } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import { InferenceError } from 'zerohop'
import { checkFilePlace } from '../perf/html-report/saved-result.ts'
import type { PerfOptions } from './perf-extension.ts'
import { isSameFile } from 'zerohop/internals'

/** A path where a file could be written: nobody wants to hear otherwise when all is measured. */
export function filePlace(path: string): string {
  try {
    checkFilePlace('file', path)
  } catch (error) {
    if (error instanceof InferenceError)
      throw new InvalidArgumentError(`It has to be ${String(error.expected)}.`)
    throw error
  }
  return path
}

const outputs = ['latencyReportFile', 'profileExportFile', 'json', 'report'] as const
const inputs = ['modelName', 'replay', 'inputData'] as const

/** Ends the program where a file that is asked for is another one, too, that is asked for or read: it would take the place of that. */
export function refuseSharedFiles(options: PerfOptions, command: Command): void {
  const paths = outputs.flatMap((name) => (typeof options[name] === 'string' ? resolve(options[name]) : []))
  const twice = paths.find((path, index) => paths.indexOf(path) !== index)
  if (twice !== undefined)
    command.error(`error: ${twice} is asked for twice: each result needs a file of its own`)
  const read = inputs.flatMap((name) => [options[name]].flat().filter((path) => typeof path === 'string'))
  const lost = paths.find((path) => read.some((other) => isSameFile(path, other)))
  if (lost !== undefined) command.error(`error: ${lost} is what is read: name another file`)
}
