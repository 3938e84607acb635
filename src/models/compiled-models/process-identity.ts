import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

let own: string | undefined

/** What tells this process from every other that ever had its number, in letters that a file's name may have. */
export function ownIdentity(): string {
  return (own ??= `${namespace()}.${process.pid}.${startOf(process.pid)}`)
}

/** Whether the process of an {@link ownIdentity} has ended; false when nobody here can tell. */
export function hasEnded(identity: string): boolean {
  const [place, pid, start] = identity.split('.')
  if (place !== namespace() || !/^\d+$/.test(pid ?? '')) return false
  try {
    process.kill(Number(pid), 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return true
  }
  const now = startOf(Number(pid))
  return now !== '' && now !== start
}

/** Within which numbers of processes mean something: two containers, or two machines, that share a folder do not see each other. */
function namespace(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1')
    return (boot + readlinkSync('/proc/self/ns/pid')).replaceAll(/[^a-z0-9]/g, '')
  } catch {
    return hostname().replaceAll(/[^a-zA-Z0-9]/g, '_')
  }
}

/** When a process was started, in ticks since the system was; `''` where that is not told. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]! // its name, before that, may be anything
  } catch {
    return ''
  }
}
