import { availableParallelism, cpus, totalmem } from 'node:os'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { systemClock } from './clock.ts'

/** Cores of the machine, and how many a process may use. */
export interface AvailableCores {
  readonly machine: number
  /** Cores that the process may run on. */
  readonly allowed: number
  /**
   * CPU time that the control group (mostly of a container) allows, in cores, such as 1.5; `null` for no
   * limit.
   */
  readonly quota: number | null
  /** Cores to use, at least 1: the least of the above. */
  readonly usable: number
}

/** Several parts ask as a program starts, and large machines take milliseconds to tell. */
const machineHoldsForMs = 1000
let lastMachine: (Pick<AvailableCores, 'machine' | 'quota'> & { readonly atMs: number }) | null = null

/**
 * Determines the current cores; those of the machine, and the quota, are at most a second old. Older versions of Node.js ignore
 * the control group, which `docker run --cpus` sets.
 *
 * @param root of a file system with other control groups.
 */
export function availableCores(root = '/'): AvailableCores {
  const atMs = performance.now()
  if (root !== '/') return coresOf(machineAt(root))
  if (lastMachine === null || atMs - lastMachine.atMs > machineHoldsForMs)
    lastMachine = { ...machineAt(root), atMs }
  return coresOf(lastMachine)
}

function machineAt(root: string): Pick<AvailableCores, 'machine' | 'quota'> {
  const quota = process.platform === 'linux' ? limitOfControlGroups(cpuQuota, root) : null
  return { machine: cpus().length, quota }
}

function coresOf({ machine, quota }: Pick<AvailableCores, 'machine' | 'quota'>): AvailableCores {
  const allowed = availableParallelism()
  const usable = Math.max(1, Math.min(allowed, Math.floor(quota ?? allowed)))
  return { machine, allowed, quota, usable }
}

/** CPU time, and the period in which it may be used, in microseconds; `max` or -1 is no limit. */
const cpuQuota: GroupLimit = {
  controller: 'cpu',
  first: (read) => Number(read('cpu.cfs_quota_us')) / Number(read('cpu.cfs_period_us')),
  second: (read) => {
    const [quota, period] = read('cpu.max').split(' ').map(Number)
    return quota! / period!
  },
}

const { cpuUsage } = process // the original: an application's tests may replace it

/**
 * Returns for how long cores have been idle, and for how long they have computed for this process, summed over all cores, in milliseconds.
 * Two readings show how many cores other processes left to this one meanwhile; limits of this process do not show. NaN where the idle time
 * is unknown: on other systems than Linux, and in sandboxes that say 0.
 *
 * @param root of a file system with another /proc/uptime.
 */
export function freeCoresMs(root = '/'): number {
  const idleMs = 1000 * Number(readText(join(root, 'proc/uptime')).split(' ')[1]) || NaN
  const { user, system } = cpuUsage()
  return idleMs + (user + system) / 1000
}

/** A shorter look says little: other processes work now and then. */
const leastLookMs = 1000

/**
 * Returns a function that says whether other processes used at least half a core since it last looked. It looks once a second at most,
 * and says no until then. Where free cores are unknown it says yes.
 */
export function crowdWatch(free = freeCoresMs, nowMs = systemClock.nowMs): () => boolean {
  const cores = availableCores().machine
  let [sinceMs, sinceFreeMs] = [nowMs(), free()]
  return () => {
    const elapsedMs = nowMs() - sinceMs
    if (elapsedMs < leastLookMs) return false
    const freeMs = free()
    const isFree = freeMs - sinceFreeMs > (cores - 0.5) * elapsedMs
    sinceMs += elapsedMs
    sinceFreeMs = freeMs
    return !isFree
  }
}

/** Memory of the machine, and how much a process may use. */
export interface AvailableMemory {
  readonly machineBytes: number
  /** Memory that the control group (mostly of a container) allows; `null` for no limit. */
  readonly limitBytes: number | null
  /** Memory to use: the least of the above. */
  readonly usableBytes: number
}

/**
 * Determines the current memory. Node.js itself reads only the process's own control group, and not its
 * ancestors.
 */
export function availableMemory(root = '/'): AvailableMemory {
  const machineBytes = totalmem()
  const limit = process.platform === 'linux' ? limitOfControlGroups(memoryLimit, root) : null
  const limitBytes = limit === null || limit >= machineBytes ? null : limit // version 1 has 2^63 for no limit
  return { machineBytes, limitBytes, usableBytes: limitBytes ?? machineBytes }
}

const memoryLimit: GroupLimit = {
  controller: 'memory',
  first: (read) => Number(read('memory.limit_in_bytes')),
  second: (read) => Math.min(...['memory.max', 'memory.high'].map((name) => Number(read(name)) || Infinity)), // `max` means no limit
}

/** Reads a file of one control group; returns '' if it does not exist. */
type GroupReader = (name: string) => string

/**
 * How to read a limit of a group, in each version of control groups. NaN, and any value that is not finite
 * and above 0, means no limit.
 */
interface GroupLimit {
  readonly controller: 'cpu' | 'memory'
  readonly first: (read: GroupReader) => number
  readonly second: (read: GroupReader) => number
}

/**
 * The lowest limit of the process's group and its ancestors, as far as a container shows them; `null` for no
 * limit.
 */
function limitOfControlGroups({ controller, first, second }: GroupLimit, root = '/'): number | null {
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

/**
 * The folders of the process's groups. /proc/self/cgroup has their paths; /proc/self/mountinfo has where they
 * are mounted, and which group each mount begins at.
 */
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

/**
 * Decodes the octal escapes of characters that cannot be in a line, and of the backslash, which is frequent
 * in systemd's names.
 */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(parseInt(code, 8)))
}

/** The path of a group relative to the mounted one. */
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
    return '' // does not exist
  }
}
