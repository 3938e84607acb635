// What the native scripts share: where things lie, and how commands are run.
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The folder of this platform's prebuild; the same rule as `prebuildName()` in src/native/addon.ts. */
export function prebuildName() {
  return `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`
}

export const prebuildPath = join(root, 'prebuilds', prebuildName(), 'zerohop.node')

/** Which C library this Node was linked with stands in its program header, as the loader's name. */
function isMusl() {
  if (process.platform !== 'linux') return false
  const header = Buffer.alloc(4096)
  const file = openSync(process.execPath, 'r')
  readSync(file, header, 0, header.length, 0)
  closeSync(file)
  return header.includes('ld-musl-')
}

/** The path of a file inside a development dependency, or undefined where it is not installed. */
export function packageFile(name, file) {
  try {
    return join(dirname(require.resolve(`${name}/package.json`)), file)
  } catch {
    return undefined
  }
}

/** Whether a command can be started at all. */
export function has(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined
}

/** Whether there is a C++ compiler; Windows keeps it off the path, so there the build itself finds out. */
export function hasCompiler() {
  if (process.platform === 'win32') return true
  return [process.env.CXX, 'c++', 'g++', 'clang++'].some(
    (name) => name !== undefined && name !== '' && has(name),
  )
}

/** Runs a command in the package's root; throws where it fails. */
export function run(command, args, env = {}) {
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  if (status === 0) return
  throw new Error(`${command} ${args[0]} ended with ${error?.message ?? signal ?? `status ${status}`}`)
}

/** Prints the failure in one line and ends with status 1. */
export function fail(error) {
  console.error(`zerohop: ${error.message}`)
  process.exitCode = 1
}
