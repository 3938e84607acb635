// The cross compiler, zig's clang, which is a package of PyPI.
import { join } from 'node:path'
import { pythonWith } from './python.mjs'
import { root, run } from './toolchain.mjs'

/** Runs one of its tools: c++, dlltool. Its files are kept in this checkout, and what it finds there is as good as compiled anew. */
export function zig(...args) {
  const cache = join(root, 'build', 'zig')
  run(pythonWith('ziglang==0.17.1'), ['-m', 'ziglang', ...args], { ZIG_GLOBAL_CACHE_DIR: cache, ZIG_LOCAL_CACHE_DIR: cache })
}
