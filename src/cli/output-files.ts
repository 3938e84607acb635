import { resolve } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import { InferenceError } from '../index.ts'
import { checkFilePlace } from '../perf/html-report/whole-file.ts'
import type { PerfOptions } from './perf-extension.ts'

/** A path where a file could be written: nobody wants to hear otherwise when all is measured. */
export function filePlace(path: string): string {
  try {
    checkFilePlace('file', path)
  } catch (error) {
    if (error instanceof InferenceError) throw new InvalidArgumentError(`It has to be ${String(error.expected)}.`)
    throw error
  }
  return path
}

const outputs = ['latencyReportFile', 'profileExportFile', 'json', 'report'] as const

/** Ends the program where two files that are asked for are the same: one would take the place of the other. */
export function refuseSharedFiles(options: PerfOptions, command: Command): void {
  const paths = outputs.flatMap((name) => (typeof options[name] === 'string' ? resolve(options[name]) : []))
  const twice = paths.find((path, index) => paths.indexOf(path) !== index)
  if (twice !== undefined) command.error(`error: ${twice} is asked for twice: each result needs a file of its own`)
}
