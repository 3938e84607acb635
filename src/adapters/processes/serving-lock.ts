import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import type { NativeProcesses } from '../../native/native-binding.ts'

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
  const file = `${path}.pid`
  const own = `${file}.${process.pid}-${Math.random().toString(36).slice(2)}`
  writeFileSync(own, `${process.pid} ${startOf(process.pid)}`, { mode: 0o600 })
  try {
    for (let attempt = 0; attempt < 2; attempt++) {
      if (link(own, file)) return { release: () => rmSync(file, { force: true }) }
      if (isHeld(file)) return null
      // Of several that find it left behind one gets it out of the way; who took another's new one puts it back.
      const aside = `${own}-aside`
      renameSync(file, aside)
      const isOthers = isHeld(aside)
      if (isOthers) link(aside, file)
      rmSync(aside, { force: true })
      if (isOthers) return null
    }
    return null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null // somebody else was faster
    throw error
  } finally {
    rmSync(own, { force: true })
  }
}

/** Gives a file a name, unless that is taken; complete from its first moment. */
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

/** What is not known is believed. */
const isSame = (start: string, noted: string | undefined) => start === '' || !noted || start === noted

/** When a process was started, by which it is told from a later one of its number; '' where the system does not show it. */
function startOf(pid: number): string {
  try {
    // The name of the program, in brackets, may be anything.
    return /.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
