import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** What a process says that has loaded a model with a cache. */
export interface LoadedElsewhere {
  readonly y: readonly number[]
  readonly compiled: boolean
  readonly reason: string
  /** How many processes it has started. */
  readonly children: number
}

/**
 * Starts a process that loads a model with a cache; `null` comes of one that ends without a word.
 *
 * @param more `exits`: it ends by itself (7) as soon as it has started another one.
 */
export function loadElsewhere(dir: string, path: string, more: { exits?: boolean } = {}): { readonly child: ChildProcess; readonly loaded: Promise<LoadedElsewhere | null> } {
  const child = fork(fileURLToPath(new URL('fixtures/load.mjs', import.meta.url)), [JSON.stringify({ dir, path, ...more })], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const loaded = new Promise<LoadedElsewhere | null>((resolve) => {
    let word: LoadedElsewhere | null = null
    child.on('message', (said: LoadedElsewhere | { pid: number }) => {
      if ('y' in said) word = said
    })
    child.once('close', () => resolve(word))
  })
  return { child, loaded }
}
