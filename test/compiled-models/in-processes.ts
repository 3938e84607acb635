import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Loads a model as its argument says. */
export const loadProgram = fileURLToPath(new URL('fixtures/load.mjs', import.meta.url))

/** What a process says that has loaded a model with a cache. */
export interface LoadedElsewhere {
  readonly y: readonly number[]
  readonly compiled: boolean
  readonly reason: string
  /** How many processes it has started. */
  readonly children: number
  /** Bytes that it read of files during the load, other than by mapping them; 0 where the system does not say. */
  readonly readBytes: number
  readonly loadMs: number
  /** The codes of its warnings. */
  readonly warnings: readonly string[]
}

/**
 * Starts a process that loads a model with a cache, or without (`null`); `null` comes of one that ends without a word.
 *
 * @param more `exits`: it ends by itself (7) as soon as it has started another one; `execPath`: what it takes for Node.js.
 * @param limits what `ulimit` is given before; `flags` of Node.js; `user` it runs as.
 */
export function loadElsewhere(
  dir: string | null,
  path: string,
  more: { exits?: boolean; execPath?: string } = {},
  { limits = '', flags = [] as string[], user }: { limits?: string; flags?: string[]; user?: number } = {},
): { readonly child: ChildProcess; readonly loaded: Promise<LoadedElsewhere | null> } {
  const shell =
    limits === ''
      ? { execArgv: flags }
      : { execPath: '/bin/sh', execArgv: ['-c', `ulimit ${limits}; exec "$0" "$@"`, process.execPath] }
  const child = fork(loadProgram, [JSON.stringify({ dir, path, ...more })], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    ...(user !== undefined && { uid: user, gid: user }),
    ...shell,
  })
  const loaded = new Promise<LoadedElsewhere | null>((resolve) => {
    let word: LoadedElsewhere | null = null
    child.on('message', (said: LoadedElsewhere | { pid: number }) => {
      if ('y' in said) word = said
    })
    child.once('close', () => resolve(word))
  })
  return { child, loaded }
}
