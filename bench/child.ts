import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A program started in a process of its own. */
export interface Running<T> {
  readonly child: ChildProcess
  readonly result: Promise<T>
}

/** Starts a program of this folder, TypeScript or plain JavaScript, with `input`; it answers with one message. */
export function start<T>(
  program: string,
  input: unknown,
  nodeOptions: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
  execPath = process.execPath,
): Running<T> {
  const file = fileURLToPath(new URL(program, import.meta.url))
  const execArgv = [...(program.endsWith('.ts') ? ['--import', 'tsx'] : []), ...nodeOptions]
  // What a trial measures depends on no earlier one, unless it says so.
  const ours = { ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' }
  // No program needs certificates, which Node.js would read for 60 ms first.
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: '', ...ours, ...environment }
  const child = fork(file, [JSON.stringify(input)], { execArgv, env, execPath })
  const result = new Promise<T>((resolve, reject) => {
    let answer: { value: T } | undefined
    child.on('message', (value: T) => (answer = { value }))
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      if (answer !== undefined && code === 0) resolve(answer.value)
      else
        reject(
          new Error(
            `${program} ended with ${signal ?? `code ${code}`}${answer === undefined ? ' and no answer' : ''}`,
          ),
        )
    })
  })
  return { child, result }
}

/** Runs a program to its end. */
export function run<T>(
  program: string,
  input: unknown,
  nodeOptions: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
): Promise<T> {
  return start<T>(program, input, nodeOptions, environment).result
}

/** In a program: its input. */
export function input<T>(): T {
  return JSON.parse(process.argv[2]!) as T
}

/** In a program: sends its answer and lets the process end. */
export function answer(value: unknown): void {
  process.send!(value, () => process.disconnect())
}
