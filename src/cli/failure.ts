import { CommanderError } from 'commander'
import { InferenceError } from '../errors.ts'
import { oneLine } from './one-line.ts'

/** What `zerohop` exits with. */
export const usualExitCodes = {
  /** A model, a file or the machine is not as it would have to be. */
  wrong: 1,
  /** The command line is. */
  usage: 2,
} as const

/** An error as a program can read it. */
export interface Failure {
  /** Of `InferenceError`, of Node.js for a file (`ENOENT`), `ERR_USAGE`, or `ERR_UNEXPECTED` for a fault of the program's own. */
  readonly code: string
  readonly message: string
  readonly exitCode: number
}

/** What an error comes to. Commands may have exit codes of their own. */
export function failureOf(
  error: unknown,
  exitCodes: Readonly<Record<'wrong' | 'usage', number>> = usualExitCodes,
): Failure {
  if (error instanceof InferenceError)
    return { code: error.code, message: error.message, exitCode: exitCodes.wrong }
  if (error instanceof CommanderError)
    return { code: 'ERR_USAGE', message: error.message.replace(/^error: /, ''), exitCode: exitCodes.usage }
  if (error instanceof Error && 'syscall' in error)
    return {
      code: String((error as NodeJS.ErrnoException).code),
      message: fileErrorText(error),
      exitCode: exitCodes.wrong,
    }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error) // a fault of the program's: where it was made is of use
  return { code: 'ERR_UNEXPECTED', message: text, exitCode: exitCodes.wrong }
}

/** What the system says of a file that cannot be read or written, and what would help: it says neither what it is asked for nor what next. */
export function fileErrorText(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  return code in nextSteps ? `${message}. ${nextSteps[code]}` : message
}

const nextSteps: Readonly<Record<string, string>> = {
  ENOENT: 'What is read has to be there, and of what is written the folder: check the path',
  ENOTDIR: 'Of what is before the last name of the path all has to be folders: check it',
  EISDIR: 'It has to be a file, and is a folder: name a file in it',
  EACCES: 'Whoever runs this has to be allowed to: check the rights of the file and its folder',
  ENOSPC: 'Make room on that disk, or name a file on another',
}

/** Tells of a failure in one line on standard error. */
export function tell({ code, message }: Failure): void {
  tellLine(`${code.startsWith('ERR_') && code !== 'ERR_USAGE' ? code : 'error'}: ${message}`)
}

/** Tells something in one line on standard error. */
export function tellLine(text: string): void {
  console.error(oneLine(text))
}
