import { readFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { dirname, join } from 'node:path'

/** Cores of the machine, and what of them a process may use. */
export interface AvailableCores {
  readonly machine: number
  /** Those that the process may run on. */
  readonly allowed: number
  /** How many cores' time the control group allows (of a container, mostly), as in 1.5; `null` for no limit. */
  readonly quota: number | null
  /** What follows: at least 1. */
  readonly usable: number
}

/** Finds out what there is. Older versions of Node.js leave out the control group, which `docker run --cpus` sets. */
export function availableCores(root = '/'): AvailableCores {
  const allowed = availableParallelism()
  const quota = process.platform === 'linux' ? quotaOfControlGroups(root) : null
  return { machine: cpus().length, allowed, quota, usable: Math.max(1, Math.min(allowed, Math.floor(quota ?? allowed))) }
}

/** The least of what the process's group and those above it allow, in either version of control groups. */
function quotaOfControlGroups(root: string): number | null {
  const quotas = readText(join(root, 'proc/self/cgroup')).split('\n').flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (controllers === undefined) return []
    if (controllers === '') return withParents(path!).map((group) => quotaOf(readText(join(root, 'sys/fs/cgroup', group, 'cpu.max'))))
    if (!controllers.split(',').includes('cpu')) return []
    return withParents(path!).map((group) => {
      const folder = join(root, 'sys/fs/cgroup', controllers, group)
      return quotaOf(`${readText(join(folder, 'cpu.cfs_quota_us')).trim()} ${readText(join(folder, 'cpu.cfs_period_us'))}`)
    })
  })
  const given = quotas.filter((quota) => quota !== null)
  return given.length === 0 ? null : Math.min(...given)
}

/** A time and in how much time, in microseconds; `max` or -1 is no limit. */
function quotaOf(text: string): number | null {
  const [quota, period] = text.trim().split(/\s+/).map(Number)
  return quota! > 0 && period! > 0 ? quota! / period! : null
}

function withParents(path: string): string[] {
  return path === '/' ? ['/'] : [path, ...withParents(dirname(path))]
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // not there
  }
}
