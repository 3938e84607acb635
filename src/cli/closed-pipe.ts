import { failureOf, tell } from './failure.ts'

/**
 * Lets a program come to its end when its output cannot be written: as usual, with exit code 0, when whoever reads it has had enough,
 * as `| head` has, and with an error when there is no room for it. What cannot be written to standard error cannot be told.
 */
export function outliveClosedPipes(exitCode: number): void {
  process.stderr.on('error', () => {})
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    tell(failureOf(error))
    process.exitCode = exitCode
  })
}
