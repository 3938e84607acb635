import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import type { NativeProcesses } from '../memory/native-processes.ts'

/** Something that one process has at a time. */
export interface HeldLock {
  release(): void
}

/**
 * Takes the lock of a file; `null` while somebody else has it. With the addon it ends with its holder, however that ends; without it a file
 * tells whose it is, and that of a process that is gone counts for nothing.
 */
export function takeLock(processes: NativeProcesses | null, path: string): HeldLock | null {
  if (processes === null) return takeByFile(path)
  const descriptor = processes.lock(path)
  return descriptor === null ? null : { release: () => processes.close(descriptor) }
}

function takeByFile(path: string): HeldLock | null {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const file = openSync(`${path}.pid`, 'wx', 0o600)
      writeSync(file, String(process.pid))
      closeSync(file)
      return { release: () => rmSync(`${path}.pid`, { force: true }) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (attempt > 0 || isHeld(`${path}.pid`)) return null
      rmSync(`${path}.pid`, { force: true })
    }
  }
  return null
}

function isHeld(path: string): boolean {
  try {
    const holder = Number(readFileSync(path, 'utf8'))
    if (holder === 0) return true // it is just being written
    process.kill(holder, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
