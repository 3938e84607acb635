import { mkdtempSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ProcessTree } from './process-tree.ts'

const folders = new Set<string>()

const ended = new AbortController()

/** Fires when the command is told to end. */
export const isEnded: AbortSignal = ended.signal

/**
 * A folder for what a peer leaves behind, in a short path, as sockets are made in it; it is removed however the command ends.
 *
 * @returns what it was used for.
 */
export async function inPassingFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'peer-'))
  folders.add(folder)
  try {
    return await use(folder)
  } finally {
    remove(folder)
  }
}

function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  folders.delete(folder)
}

/** Ends all that was started when the command is told to end, in whichever way; told once more it ends at once. */
export function endInOrder(): void {
  process.on('exit', () => folders.forEach(remove))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      ended.abort()
      console.error(`${signal}: ending what was started`)
      const end = (): never => process.exit(128 + constants.signals[signal])
      ProcessTree.endAll().then(end, (error: Error) => {
        console.error(error.message)
        end()
      })
    })
  }
}
