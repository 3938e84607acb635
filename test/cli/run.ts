import { execFile, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { vi } from 'vitest'
import { toolCommands } from '../../src/cli/hand-over.ts'
import { full } from '../support/full.ts'

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

/** Runs `zerohop` in a process of its own. */
export const zerohopAlone = (...line: readonly string[]): Promise<Ended> =>
  runScript(`${root}dist/cli/main.js`, line)

/** Runs `zerohop`: under `npm test` in this process, which spares a start of Node.js. */
export function zerohop(...line: readonly string[]): Promise<Ended> {
  if (full) return zerohopAlone(...line)
  const run = lastWithin.then(() => runWithin(line))
  lastWithin = run.catch(() => {})
  return run
}

/** One run within this process at a time: the command line and the output are the process's. */
let lastWithin: Promise<unknown> = Promise.resolve()

/** The import of Node.js: that of vitest would take the sources. */
const { nativeImport } = (await import(
  /* @vite-ignore */ 'data:text/javascript,export const nativeImport = (url) => import(url)' as string
)) as { nativeImport: (url: string) => Promise<unknown> }
let runs = 0

/** Runs `zerohop`, or the tools' program to which it would hand a command over, as a module that is new each time. */
async function runWithin(line: readonly string[]): Promise<Ended> {
  const word = line[0] === 'help' ? line[1] : line[0]
  const isTool = word !== undefined && Object.hasOwn(toolCommands, word)
  const ended = { code: 0, stdout: '', stderr: '' }
  const before = { argv: process.argv, exitCode: process.exitCode }
  const streams = ['stdout', 'stderr'] as const
  const writes = streams.map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((...args: unknown[]) => {
      const text = String(args[0])
      if (!text.includes('[ZEROHOP_ENGINE_DROPPED]')) ended[stream] += text // the engine of another test may be meant
      const written = args.at(-1)
      if (typeof written === 'function') process.nextTick(written)
      return true
    }),
  )
  const listeners = streams.map((stream) => process[stream].listeners('error'))
  process.argv = [process.execPath, 'zerohop', ...line]
  process.exitCode = undefined
  try {
    await nativeImport(`file://${root}${isTool ? 'packages/perf/' : ''}dist/cli/main.js?run=${++runs}`)
    ended.code = Number(process.exitCode ?? 0)
  } finally {
    Object.assign(process, before)
    for (const write of writes) write.mockRestore()
    for (const [index, stream] of streams.entries())
      for (const listener of process[stream].listeners('error'))
        if (!listeners[index]!.includes(listener)) process[stream].off('error', listener as () => void)
  }
  return ended
}

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
