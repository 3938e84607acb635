import { availableParallelism, cpus, totalmem } from 'node:os'
import { readFileSync } from 'node:fs'
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

/** Memory of the machine, and what of it a process may use. */
export interface AvailableMemory {
  readonly machineBytes: number
  /** What the control group allows (of a container, mostly); `null` for no limit. */
  readonly limitBytes: number | null
  /** What follows. */
  readonly usableBytes: number
}

/** Finds out what there is now. Node.js itself looks at the process's own control group only, and not at those above it. */
export function availableMemory(root = '/'): AvailableMemory {
  const machineBytes = totalmem()
  const limit = process.platform === 'linux' ? limitOfControlGroups(memoryLimit, root) : null
  const limitBytes = limit === null || limit >= machineBytes ? null : limit // the first version has 2^63 for none
  return { machineBytes, limitBytes, usableBytes: limitBytes ?? machineBytes }
}

const memoryLimit: GroupLimit = {
  controller: 'memory',
  first: (read) => Number(read('memory.limit_in_bytes')),
  second: (read) => Math.min(...['memory.max', 'memory.high'].map((name) => Number(read(name)) || Infinity)), // `max` is none
}

/** Reads a file of one control group; nothing where it is not there. */
export type GroupReader = (name: string) => string

/** How a limit is read of a group, in each version of control groups; NaN, or nothing that is finite and above 0, where it has none. */
export interface GroupLimit {
  readonly controller: 'cpu' | 'memory'
  readonly first: (read: GroupReader) => number
  readonly second: (read: GroupReader) => number
}

/** The least of what the process's group and those above it allow, as far as a container shows them; `null` for no limit. */
export function limitOfControlGroups({ controller, first, second }: GroupLimit, root = '/'): number | null {
  const groups = groupsOf(controller, root)
  const limits = groups
    .map(({ folder, isSecond }) => (isSecond ? second : first)((name) => readText(join(folder, name))))
    .filter((limit) => limit > 0 && limit < Infinity)
  return limits.length === 0 ? null : Math.min(...limits)
}

interface Group {
  readonly folder: string
  readonly isSecond: boolean
}

/** The folders of the process's groups: /proc/self/cgroup has their paths, /proc/self/mountinfo where they are mounted, and from which group on. */
function groupsOf(controller: string, root: string): Group[] {
  const paths = readText(join(root, 'proc/self/cgroup'))
    .split('\n')
    .map((line) => /^\d+:([^:]*):(\/.*)$/.exec(line))
  return readText(join(root, 'proc/self/mountinfo'))
    .split('\n')
    .flatMap((line) => {
      const [, from = '', folder, type, options] =
        /^\S+ \S+ \S+ (\/\S*) (\/\S*) .*? - (cgroup2?) \S+ (\S+)/.exec(line) ?? []
      if (folder === undefined) return []
      const isSecond = type === 'cgroup2'
      if (!isSecond && !options!.split(',').includes(controller)) return []
      const path = paths.find((match) =>
        isSecond ? match?.[1] === '' : match?.[1]?.split(',').includes(controller),
      )?.[2]
      return path === undefined
        ? []
        : withParents(below(unescaped(from), path)).map((group) => ({
            folder: join(root, unescaped(folder), group),
            isSecond,
          }))
    })
}

/** As it is: what a line cannot hold is told in octal, a backslash too, of which systemd's names have many. */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8)))
}

/** The path of a group from the one on that is mounted. */
function below(from: string, path: string): string {
  return from !== '/' && `${path}/`.startsWith(`${from}/`) ? path.slice(from.length) || '/' : path
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
