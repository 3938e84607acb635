import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import type { NativeProcesses } from '../../native/native-binding.ts'

/** A lock that one process holds at a time. */
export interface HeldLock {
  release(): void
}

/**
 * Takes the lock of a file; `null` if another process holds it. With the addon the system releases the lock
 * when its holder ends, however it ends. Without it a file names the holder, and is ignored once that process
 * is gone.
 */
export function takeLock(processes: NativeProcesses | null, path: string): HeldLock | null {
  if (processes === null) return takeByFile(path)
  const descriptor = processes.lock(path)
  return descriptor === null ? null : { release: () => processes.close(descriptor) }
}

function takeByFile(path: string): HeldLock | null {
  const file = `${path}.pid`
  const own = `${file}.${process.pid}-${Math.random().toString(36).slice(2)}`
  writeFileSync(own, `${process.pid} ${startOf(process.pid)}`, { mode: 0o600 })
  try {
    for (let attempt = 0; attempt < 2; attempt++) {
      if (link(own, file)) return { release: () => rmSync(file, { force: true }) }
      if (isHeld(file)) return null
      // Several processes may find a stale file; one moves it aside. A process that has moved a fresh lock
      // puts it back.
      const aside = `${own}-aside`
      renameSync(file, aside)
      const isOthers = isHeld(aside)
      if (isOthers) link(aside, file)
      rmSync(aside, { force: true })
      if (isOthers) return null
    }
    return null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null // another process was faster
    throw error
  } finally {
    rmSync(own, { force: true })
  }
}

/** Links a file to a name unless that is taken. The file is complete when the name appears. */
function link(file: string, name: string): boolean {
  try {
    linkSync(file, name)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function isHeld(file: string): boolean {
  const [holder, start] = readFileSync(file, 'utf8').split(' ') as [string, string | undefined]
  try {
    process.kill(Number(holder), 0)
    return isSame(startOf(Number(holder)), start)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** An unknown start time counts as equal. */
const isSame = (start: string, noted: string | undefined) => start === '' || !noted || start === noted

/**
 * Start time of a process, which tells it from a later process with the same id; '' if the system does not
 * provide it.
 */
function startOf(pid: number): string {
  try {
    // The program's name, in brackets, may contain anything.
    return /.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
