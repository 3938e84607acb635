import { availableParallelism, cpus } from 'node:os'
import { limitOfControlGroups, type GroupLimit } from './control-groups.ts'

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

/** Finds out what there is now. Older versions of Node.js leave out the control group, which `docker run --cpus` sets. */
export function availableCores(root = '/'): AvailableCores {
  const allowed = availableParallelism()
  const quota = process.platform === 'linux' ? limitOfControlGroups(cpuQuota, root) : null
  return {
    machine: cpus().length,
    allowed,
    quota,
    usable: Math.max(1, Math.min(allowed, Math.floor(quota ?? allowed))),
  }
}

/** A time, and in how much time, in microseconds; `max` or -1 is no limit. */
const cpuQuota: GroupLimit = {
  controller: 'cpu',
  first: (read) => Number(read('cpu.cfs_quota_us')) / Number(read('cpu.cfs_period_us')),
  second: (read) => {
    const [quota, period] = read('cpu.max').split(' ').map(Number)
    return quota! / period!
  },
}
