import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'

const paths = new Set<string>()

function removeAll(): void {
  for (const path of paths) {
    try {
      rmSync(path, { recursive: true, force: true, maxRetries: 3 })
    } catch {
      // who compiles next takes it away
    }
  }
}

/** Has a file or folder removed when the process ends, as by `process.exit()`, unless {@link remove} or {@link forget} comes first. */
export function removeAtExit(path: string): void {
  if (paths.size === 0) process.on('exit', removeAll)
  paths.add(path)
}

/** Removes a file or folder now. */
export async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch(() => {})
  forget(path)
}

/** It is not this process's any more. */
export function forget(path: string): void {
  if (paths.delete(path) && paths.size === 0) process.off('exit', removeAll)
}
