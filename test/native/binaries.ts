import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { prebuildName } from '../../src/native/addon.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))

const folders = [
  `prebuilds/${prebuildName()}`,
  ...['Release', 'Debug', 'Asan'].map((configuration) => `build/cmake/${configuration}`),
  ...['Release', 'Debug'].map((configuration) => `build/${configuration}`),
]

/** Every binary that is built, by its path in the checkout. */
export const binaries = folders
  .map((folder) => `${folder}/zerohop.node`)
  .filter((path) => existsSync(join(root, path)))

/** A place for `describe.each`; where nothing is built it says so in the name of the skipped suite. */
export const suites = binaries.length > 0 ? binaries : ['no binary: npm run build:native makes one']
export const nothingBuilt = binaries.length === 0

/** A fake CUDA driver, made together with the C++ tests. */
export const fakeCudaFolder = ['Debug', 'Asan', 'Tsan']
  .map((configuration) => join(root, 'build/native-test', configuration, 'fake-cuda'))
  .find((folder) => existsSync(folder))

export interface ChildResult {
  status: number | null
  signal: string | null
  /** What the child answered, from its last line of output. */
  answer: unknown
  stderr: string
}

/** Runs a fixture in a separate process, since what is tested here may end a process. */
export function runChild(
  file: string,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  flags: string[] = [],
): ChildResult {
  const fixture = fileURLToPath(new URL(`fixtures/${file}`, import.meta.url))
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [...flags, fixture, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  const lastLine = stdout.trimEnd().split('\n').at(-1)
  return { status, signal, answer: lastLine ? JSON.parse(lastLine) : undefined, stderr }
}

/** Runs a fixture over one binary and returns its answer; the process must end with status 0. */
export function runOver(
  binary: string,
  file: string,
  args: string[] = [],
  env: NodeJS.ProcessEnv = {},
): unknown {
  const environment = { ZEROHOP_TEST_BINARY: join(root, binary), ...sanitizer(binary), ...env }
  const { status, signal, answer, stderr } = runChild(file, args, environment, ['--expose-gc'])
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${signal ?? status}\n${stderr}`)
  return answer
}

/** Node itself is not instrumented, so the sanitizer's library has to be there before it; V8 does not free at exit. */
function sanitizer(binary: string): NodeJS.ProcessEnv {
  if (!binary.includes('/Asan/')) return {}
  const library = spawnSync('c++', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).stdout.trim()
  return { LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0' }
}
