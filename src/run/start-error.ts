import { InferenceError } from '../errors.ts'
import type { StartRefusal } from './executors/thread-start.ts'

/** A worker thread's own word that it cannot serve. */
export class StartFailure extends Error {
  /** The code of the underlying error, if it has one. */
  readonly code: string | undefined
  /** Whether onnxruntime-node could not be loaded. */
  readonly onnxruntime: boolean

  constructor({ message, code, onnxruntime }: StartRefusal) {
    super(message)
    this.code = code
    this.onnxruntime = onnxruntime
  }
}

const expected = 'onnxruntime-node 1.25 or newer, loadable on this machine'

const install = 'Run `npm install onnxruntime-node`'
const installAgain = 'Remove node_modules/onnxruntime-node and run `npm install onnxruntime-node` again'

/** What to do, by the words of Node's loaders and the system's; the first that fits counts. */
const remedies: readonly (readonly [words: RegExp, remedy: string])[] = [
  [/Cannot find (?:module|package) 'onnxruntime-(?:node|common)'/, install],
  [
    /is older than/,
    'Run `npm install onnxruntime-node@1`: older ones cannot be loaded again once the thread that had them has ended',
  ],
  [
    /loading addons is disabled/,
    'Start Node, and the workers (workers.execArgv), without --no-addons; with --permission, add --allow-addons',
  ],
  [
    /version `VERS_[\d.]+' not found|did not self-register/,
    'Another version of it is loaded in this process. See `npm ls onnxruntime-node`, and bring all that need it to one version',
  ],
  [
    /version `(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found/,
    'Its binary needs glibc 2.28 and the libstdc++ of GCC 8, or newer ones: use a newer system or container image',
  ],
  [
    /Error (?:loading shared library|relocating)|ld-(?:musl|linux)-/,
    'Its binaries are made for glibc, not for musl (Alpine): use an image such as node:22-slim',
  ],
  [
    /Cannot find module '[^']*onnxruntime_binding\.node'/,
    `It has no binary for ${process.platform}-${process.arch} (there are ones for linux x64 and arm64, macOS arm64, Windows x64 and arm64), or its installation lost it: install it on the platform that runs it`,
  ],
  [/specified module could not be found/, 'On Windows it needs the Microsoft Visual C++ Redistributable'],
  [
    /cannot open shared object file|ELF|mach-o|not a valid Win32|file too short|image not found|Library not loaded/i,
    installAgain,
  ],
]

/**
 * Why a thread could not be started, as a load should reject with it: an `ERR_NATIVE_LOAD` that says what to do when
 * onnxruntime-node cannot be loaded; any other error as it is.
 */
export function startError(error: Error): Error {
  if (!(error instanceof StartFailure) || !error.onnxruntime) return error
  const received = error.message.split('\nRequire stack:', 1)[0]!.trim()
  const remedy = remedies.find(([words]) => words.test(received))?.[1] ?? installAgain
  const message = `onnxruntime-node cannot be loaded: expected ${expected}, received '${received}'. ${remedy}.`
  return new InferenceError('ERR_NATIVE_LOAD', message, { expected, received, cause: error })
}
