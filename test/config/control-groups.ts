import type { Files } from '../triton-repository/temporary.ts'

/** What /proc says of a process in that group, in either version of control groups. */
export function inGroup(version: 1 | 2, path: string, mountedFrom = '/'): Files {
  if (version === 2)
    return {
      'proc/self/cgroup': `0::${path}\n`,
      'proc/self/mountinfo': `22 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 ${mountedFrom} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n`,
    }
  const mounts = ['cpu,cpuacct', 'memory'].map(
    (name, at) =>
      `${at + 40} 32 0:${at + 30} ${mountedFrom} /sys/fs/cgroup/${name} rw,relatime master:9 - cgroup cgroup rw,${name}\n`,
  )
  return {
    'proc/self/cgroup': `5:memory:${path}\n2:cpu,cpuacct:${path}\n1:name=systemd:/elsewhere\n0::/other\n`,
    'proc/self/mountinfo': `31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n${mounts.join('')}`,
  }
}

/** Quotas of groups by their paths from the one on that is mounted. */
export function quotas(
  version: 1 | 2,
  groups: Readonly<Record<string, [timeUs: number | 'max', periodUs: number]>>,
): Files {
  return Object.fromEntries(
    Object.entries(groups).flatMap(([path, [time, period]]) => {
      if (version === 2) return [[`sys/fs/cgroup${path}/cpu.max`, `${time} ${period}\n`]]
      const folder = `sys/fs/cgroup/cpu,cpuacct${path}`
      return [
        [`${folder}/cpu.cfs_quota_us`, `${time === 'max' ? -1 : time}\n`],
        [`${folder}/cpu.cfs_period_us`, `${period}\n`],
      ]
    }),
  )
}

/** Limits of memory likewise. */
export function memoryLimits(version: 1 | 2, groups: Readonly<Record<string, number | 'max'>>): Files {
  return Object.fromEntries(
    Object.entries(groups).map(([path, bytes]) =>
      version === 2
        ? [`sys/fs/cgroup${path}/memory.max`, `${bytes}\n`]
        : [
            `sys/fs/cgroup/memory${path}/memory.limit_in_bytes`,
            `${bytes === 'max' ? '9223372036854771712' : bytes}\n`,
          ],
    ),
  )
}
