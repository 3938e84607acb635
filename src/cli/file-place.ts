import { InvalidArgumentError } from 'commander'
import { InferenceError } from '../index.ts'
import { checkFilePlace } from '../perf/html-report/whole-file.ts'

/** A path where a file could be written: nobody wants to hear otherwise when all is measured. */
export function filePlace(path: string): string {
  return checked(path, false)
}

/** The same, or of something that takes what is written to it, such as /dev/stdout. */
export function writablePlace(path: string): string {
  return checked(path, true)
}

function checked(path: string, mayBeNoFile: boolean): string {
  try {
    checkFilePlace('file', path, mayBeNoFile)
  } catch (error) {
    if (error instanceof InferenceError) throw new InvalidArgumentError(`It has to be ${String(error.expected)}.`)
    throw error
  }
  return path
}
