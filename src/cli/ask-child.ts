import { fork } from 'node:child_process'

/** What came of a child: its answer, or how it ended without one. */
export type ChildResult<Answer> = { readonly answer: Answer } | { readonly ended: string }

/** Of what a child prints on standard error, the end is kept. */
const lastWordsKept = 500

/**
 * Runs a program in a process of its own and waits for the one message that it sends: what it does to its process it does to
 * that one.
 *
 * @param program its file.
 */
export function askChild<Answer>(program: string, args: readonly string[], limitMs: number): Promise<ChildResult<Answer>> {
  return new Promise((resolve) => {
    // Nothing of how this process was started: no inspector's port, no loader. It is a trial itself, and leaves nothing behind.
    const { NODE_OPTIONS: _, ...env } = process.env
    const child = fork(program, args, {
      execArgv: ['--no-warnings'],
      env: { ...env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    const kill = () => child.kill('SIGKILL')
    const end = (result: ChildResult<Answer>): void => {
      clearTimeout(timer)
      process.off('exit', kill)
      resolve(result)
    }
    const timer = setTimeout(() => {
      kill()
      end({ ended: `was stopped after ${limitMs / 1000} s` })
    }, limitMs)
    process.once('exit', kill)
    let lastWords = ''
    child.stderr!.setEncoding('utf8').on('data', (words: string) => (lastWords = (lastWords + words).slice(-lastWordsKept)))
    child.on('message', (answer) => {
      kill() // it has nothing left to do, and need not take its time
      end({ answer: answer as Answer })
    })
    child.on('error', (error) => end({ ended: `could not be started (${error.message})` }))
    child.on('close', (code, signal) => {
      const words = lastWords.trim() === '' ? '' : ` (${lastWords.trim()})`
      end({ ended: `ended with ${signal ?? `exit code ${code}`}${words}` })
    })
  })
}
