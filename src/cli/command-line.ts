import type { Command } from 'commander'
import { InferenceError } from '../errors.ts'

/** What a command exits with. Commands may have exit codes of their own. */
export interface ExitCodes {
  /** A model, a file or the machine is not as it would have to be. */
  readonly wrong: number
  /** The command line is. */
  readonly usage: number
}

/** What `zerohop` exits with. */
export const usualExitCodes = { wrong: 1, usage: 2 } as const satisfies ExitCodes

/** Words about an error of the command line in place of commander's, where there is more to say. */
export type Explain = (message: string) => string

/**
 * Runs the command that the arguments of this process name, and tells of an error in one line; sets the exit code.
 *
 * @param program with `exitOverride()`, and with no output of errors of its own.
 */
export async function runProgram(
  program: Command,
  exitCodes: ExitCodes = usualExitCodes,
  explain: Explain = (message) => message,
): Promise<void> {
  outliveClosedPipes(exitCodes.wrong)
  try {
    await program.parseAsync()
  } catch (error) {
    process.exitCode = failed(error, exitCodes, explain)
  }
}

/** Tells of an error; the exit code that it makes. */
function failed(error: unknown, exitCodes: ExitCodes, explain: Explain): number {
  if (isOfCommander(error)) {
    if (error.exitCode === 0) return 0 // help or version was asked for
    error.message = explain(error.message)
  }
  const { exitCode, ...failure } = failureOf(error, exitCodes)
  if (isOfCommander(error) && error.code === 'commander.help') return exitCode // help was shown for want of a command
  tellFailure({ ...failure, exitCode })
  return exitCode
}

/** Tells of a failure in one line, and as JSON where JSON was asked for. */
export function tellFailure({ exitCode, ...failure }: Failure): void {
  if (wantsJson()) printJson({ error: failure })
  tell({ ...failure, exitCode })
}

/** Also where the command line cannot be read otherwise; among `-r`, `-f`, `-t` and `-v`, too, which take no value. */
function wantsJson(): boolean {
  return process.argv.some((word) => word === '--json' || /^-[rftv]*j/.test(word))
}

/**
 * Lets a program come to its end when its output cannot be written: as usual, with exit code 0, when the reader has had enough,
 * as `| head` has, and with an error when there is no room for it. What cannot be written to standard error cannot be told.
 */
function outliveClosedPipes(exitCode: number): void {
  process.stderr.on('error', () => {})
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    tell(failureOf(error))
    process.exitCode = exitCode
  })
}

/** An error as a program can read it. */
export interface Failure {
  /** Of `InferenceError`, of Node.js for a file (`ENOENT`), `ERR_USAGE`, or `ERR_UNEXPECTED` for a fault of the program's own. */
  readonly code: string
  readonly message: string
  readonly exitCode: number
}

/** What an error comes to. */
export function failureOf(error: unknown, exitCodes: ExitCodes = usualExitCodes): Failure {
  if (error instanceof InferenceError)
    return { code: error.code, message: error.message, exitCode: exitCodes.wrong }
  if (isOfCommander(error))
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

/** Of any copy of commander: the tools' package may have one of its own. */
function isOfCommander(
  error: unknown,
): error is Error & { readonly code: string; readonly exitCode: number } {
  return (
    error instanceof Error && /^(Commander|InvalidArgument)Error$/.test(error.name) && 'exitCode' in error
  )
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

/** What moves the cursor, begins a line or turns the direction of writing: text of a file could forge what is shown beside it. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** A text in one line, with nothing in it but what can be seen. */
export function oneLine(text: string): string {
  const lines = text.split('\n').map((each) => each.replace(unprintable, ' ').trim())
  return lines.filter((each) => each !== '').join(' ')
}

/** A text in which what cannot be seen is written as JavaScript and TypeScript have it between quotes. */
export function escaped(text: string): string {
  return text.replace(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A value as JSON, to standard output. What JSON has no number for (an infinite difference) is text. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(
    value,
    (_, item: unknown) => (typeof item === 'number' && !Number.isFinite(item) ? String(item) : item),
    2,
  )
  process.stdout.write(`${text}\n`)
}
