import { execFile } from 'node:child_process'
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

/** The same where there is no addon. */
export const zerohopWithoutAddon = (...line: readonly string[]): Promise<Ended> =>
  runScript(`${root}dist/cli/main.js`, line, { ...process.env, ZEROHOP_NATIVE: 'off' })

/** Compiles a file as strict TypeScript; what the compiler has to say. */
export function compile(file: string, more: readonly string[] = []): Promise<Ended> {
  const options =
    '--ignoreConfig --noEmit --strict --target es2023 --module nodenext --types node --allowImportingTsExtensions --skipLibCheck'
  return runScript(`${root}node_modules/typescript/bin/tsc`, [...options.split(' '), ...more, file])
}
