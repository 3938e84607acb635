import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

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
