// The cross compiler, zig's clang, which is a package of PyPI.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { pythonWith } from './python.mjs'
import { root } from './toolchain.mjs'

/** All else of the environment can change what is made: by CPATH clang takes headers from elsewhere, and what it has made of them is kept. */
const taken = ['PATH', 'HOME', 'SystemRoot', 'USERPROFILE', 'LOCALAPPDATA', 'TEMP', 'TMP', 'TMPDIR']

/** Runs one of its tools: c++, dlltool. Its files are kept in this checkout, and what it finds there is as good as compiled anew. */
export async function zig(...args) {
  const cache = join(root, 'build', 'zig')
  const env = {
    ...Object.fromEntries(taken.map((name) => [name, process.env[name]])),
    ZIG_GLOBAL_CACHE_DIR: cache,
    ZIG_LOCAL_CACHE_DIR: cache,
  }
  const child = spawn(pythonWith('ziglang==0.17.1'), ['-m', 'ziglang', ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
  })
  const [status, signal] = await once(child, 'exit')
  if (status !== 0) throw new Error(`zig ${args[0]} ended with ${signal ?? `status ${status}`}`)
}
