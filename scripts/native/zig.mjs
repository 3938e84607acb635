// The cross compiler, zig's clang: from PyPI, pinned, in a virtual environment of this checkout.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from './toolchain.mjs'

const version = '0.17.1'
const environment = join(root, '.cache', 'zig')
const python = join(environment, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')

/** Installs the compiler where it is not there yet; throws where it cannot be had. */
export function installZig() {
  if (installed() === version) return
  if (!existsSync(python)) run(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', environment])
  run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary', ':all:', `ziglang==${version}`])
}

/** Runs one of its tools: c++, dlltool. Its files are kept in this checkout, and what it finds there is as good as compiled anew. */
export function zig(...args) {
  const cache = join(root, 'build', 'zig')
  run(python, ['-m', 'ziglang', ...args], { ZIG_GLOBAL_CACHE_DIR: cache, ZIG_LOCAL_CACHE_DIR: cache })
}

function installed() {
  return existsSync(python) ? spawnSync(python, ['-m', 'ziglang', 'version'], { encoding: 'utf8' }).stdout?.trim() : undefined
}
