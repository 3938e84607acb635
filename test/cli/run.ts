import { execFile, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** The folder of the project. */
export const root = fileURLToPath(new URL('../..', import.meta.url))

/** How a program ended, and what it printed. */
export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a script, whether it succeeds or not. */
export async function runScript(script: string, line: readonly string[], env = process.env): Promise<Ended> {
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [script, ...line], { env })) }
  } catch (error) {
    return error as Ended
  }
}

/** Runs `zerohop`. */
export const zerohop = (...line: readonly string[]): Promise<Ended> =>
  runScript(`${root}dist/cli/main.js`, line)

/** Runs `zerohop`, and sends it one SIGINT when `isTime` is true of what it has printed. */
export async function interrupted(
  line: readonly string[],
  isTime: (printed: Ended) => boolean,
): Promise<Ended> {
  const child = spawn(process.execPath, [`${root}dist/cli/main.js`, ...line])
  const ended = { code: -1, stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].on('data', (text: Buffer) => {
      ended[stream] += text
      if (!child.killed && isTime(ended)) child.kill('SIGINT')
    })
  ended.code = await new Promise((resolve) => child.on('close', resolve))
  return ended
}

/** The same where there is no addon. */
export const zerohopWithoutAddon = (...line: readonly string[]): Promise<Ended> =>
  runScript(`${root}dist/cli/main.js`, line, { ...process.env, ZEROHOP_NATIVE: 'off' })

/** Compiles a file as strict TypeScript; what the compiler has to say. */
export function compile(file: string, more: readonly string[] = []): Promise<Ended> {
  const options =
    '--ignoreConfig --noEmit --strict --target es2023 --module nodenext --types node --allowImportingTsExtensions --skipLibCheck'
  return runScript(`${root}node_modules/typescript/bin/tsc`, [...options.split(' '), ...more, file])
}
