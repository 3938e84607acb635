import { statSync } from 'node:fs'
import type { Command } from 'commander'
import { InferenceError } from '../errors.ts'

/** Exit codes of a command. Commands may have codes of their own. */
interface ExitCodes {
  /** Something is wrong with a model, a file or the machine. */
  readonly wrong: number
  /** Something is wrong with the command line. */
  readonly usage: number
}

/** The exit codes of `zerohop`. */
export const usualExitCodes = { wrong: 1, usage: 2 } as const satisfies ExitCodes

/** Makes an error message of the command line more helpful than commander's. */
type Explain = (message: string) => string

/**
 * Runs the command in this process's arguments, prints an error in one line, and sets the exit code.
 *
 * @param program with `exitOverride()`, and with output of errors turned off.
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

/** Prints an error; returns its exit code. */
function failed(error: unknown, exitCodes: ExitCodes, explain: Explain): number {
  if (isOfCommander(error)) {
    if (error.exitCode === 0) return 0 // help or version was asked for
    error.message = explain(error.message)
  }
  const failure = failureOf(error, exitCodes)
  const wasHelp = isOfCommander(error) && error.code === 'commander.help' // shown, as no command was given
  if (!wasHelp) tellFailure(failure)
  return failure.exitCode
}

/** Prints a failure in one line, and as JSON if JSON was requested. */
export function tellFailure(failure: Failure): void {
  const { code, message } = failure
  if (wantsJson()) printJson({ error: { code, message } })
  tell(failure)
}

/**
 * Works even if the command line is invalid. Also recognises the flag combined with `-r`, `-f`, `-t` and
 * `-v`, which take no value.
 */
function wantsJson(): boolean {
  return process.argv.some((word) => word === '--json' || /^-[rftv]*j/.test(word))
}

/**
 * Ends a program normally when its output cannot be written: with exit code 0 if the reader has closed the
 * pipe, as `| head` does; with an error if the disk is full. Failures of standard error are ignored.
 */
export function outliveClosedPipes(exitCode: number): void {
  process.stderr.on('error', () => {})
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    tell(failureOf(error))
    process.exitCode = exitCode
  })
}

/** An error in machine-readable form. */
export interface Failure {
  /**
   * The code of an `InferenceError`; of Node.js for a file (`ENOENT`); `ERR_USAGE`; or `ERR_UNEXPECTED` for a
   * bug in the program.
   */
  readonly code: string
  readonly message: string
  readonly exitCode: number
}

/** Converts an error. */
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
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error) // a bug in the program: the stack helps
  return { code: 'ERR_UNEXPECTED', message: text, exitCode: exitCodes.wrong }
}

/** Of any copy of commander: the tools' package may have its own. */
function isOfCommander(
  error: unknown,
): error is Error & { readonly code: string; readonly exitCode: number } {
  return (
    error instanceof Error && /^(Commander|InvalidArgument)Error$/.test(error.name) && 'exitCode' in error
  )
}

/** An explanation of a system error about a file, which names the file and suggests a remedy. */
export function fileErrorText(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException
  return code in nextSteps ? `${message}. ${nextSteps[code]}` : message
}

const nextSteps: Readonly<Record<string, string>> = {
  ENOENT: 'Check the path: a file to read must exist, and so must the folder of a file to write',
  ENOTDIR: 'Check the path: every part before the last must be a folder',
  EISDIR: 'Expected a file, received a folder: name a file in it',
  EACCES: 'Check the permissions of the file and its folder',
  ENOSPC: 'Free space on that disk, or name a file on another',
}

/** Prints a failure as one line on standard error. */
export function tell({ code, message }: Failure): void {
  tellLine(`${code.startsWith('ERR_') && code !== 'ERR_USAGE' ? code : 'error'}: ${message}`)
}

/** Prints one line on standard error. */
export function tellLine(text: string): void {
  process.stderr.write(`${oneLine(text)}\n`)
}

/**
 * Characters that move the cursor, break lines or change the text direction. Text from a file could use them
 * to fake the surrounding output.
 */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** A text in one line, with printable characters only. */
export function oneLine(text: string): string {
  const lines = text.split('\n').map((each) => each.replace(unprintable, ' ').trim())
  return lines.filter((each) => each !== '').join(' ')
}

/** A text with unprintable characters escaped as in JavaScript and TypeScript strings. */
export function escaped(text: string): string {
  return text.replace(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * Prints a value as JSON on standard output. Numbers that JSON cannot express (an infinite difference) become
 * strings.
 */
export function printJson(value: unknown): void {
  const text = JSON.stringify(
    value,
    (_, item: unknown) => (typeof item === 'number' && !Number.isFinite(item) ? String(item) : item),
    2,
  )
  process.stdout.write(`${text}\n`)
}

/** Prints a report as JSON or as text, and after it why it is incomplete, which sets the exit code. */
export function printReport<Report extends { readonly error?: Failure }>(
  report: Report,
  asJson: boolean,
  text: (report: Report) => string,
): void {
  if (asJson) printJson(report)
  else process.stdout.write(text(report))
  if (report.error === undefined) return
  tell(report.error)
  process.exitCode = report.error.exitCode
}

/** Table rows: each name with its lines. Empty lines are skipped. */
export function tableText(
  nameWidth: number,
  rows: readonly (readonly [name: string, lines: readonly string[]])[],
): string {
  return rows
    .flatMap(([name, lines]) =>
      lines
        .filter((text) => text !== '')
        .map((text, index) => `${(index === 0 ? name : '').padEnd(nameWidth)}${oneLine(text)}\n`),
    )
    .join('')
}

/** Whether two paths lead to the same existing file. */
export function isSameFile(path: string, other: string): boolean {
  try {
    const [one, two] = [path, other].map((each) => statSync(each, { bigint: true }))
    return one!.ino === two!.ino && one!.dev === two!.dev
  } catch {
    return false // reading or writing them reports what is wrong
  }
}
