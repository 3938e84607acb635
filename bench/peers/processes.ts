import { readdirSync, readFileSync } from 'node:fs'

/** What the kernel tells of the machine's processes. */

/** Of its accounts, in every Linux that Node runs on. */
export const ticksPerSecond = 100

export interface Stat {
  readonly parent: number
  /** Empty when it is gone, or a zombie. Ids are used again, with another time. */
  readonly started: string
  /** User and system time, of the process and of its children that have been waited for. */
  readonly ticks: number
}

export function statOf(pid: number): Stat {
  // The name before the fields may hold spaces.
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^[^]*\) /, '')
    .split(' ')
  if (fields.length < 20 || fields[0] === 'Z') return { parent: 0, started: '', ticks: 0 }
  return {
    parent: Number(fields[1]),
    started: fields[19]!,
    ticks: fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0),
  }
}

export function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** What a process was started with, as NAME=value with zeros between; empty where that may not be known. */
export const environmentOf = (pid: number): string => read(`/proc/${pid}/environ`)

export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // it is gone, or somebody else's
  }
}
