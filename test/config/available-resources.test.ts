import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem, uptime } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import {
  availableCores,
  availableMemory,
  crowdWatch,
  freeCoresMs,
} from '../../src/base/available-resources.ts'
import { resolveEngineOptions } from '../../src/options/engine-options.ts'
import { type Files, temporaryFolder } from '../triton-repository/temporary.ts'
import { inGroup, memoryLimits, quotas } from './control-groups.ts'

describe('the time of free cores', () => {
  const told = (text: string) => freeCoresMs(temporaryFolder({ 'proc/uptime': text }))

  it('is that in which they were idle or this process had them, whatever replaces the function that says so', () => {
    const ownMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1000
    const beforeMs = ownMs()
    const replaced = vi.spyOn(process, 'cpuUsage').mockReturnValue({ user: NaN, system: NaN })
    const freeMs = told('74210.05 8.25\n')
    replaced.mockRestore()
    expect(freeMs).toBeGreaterThanOrEqual(8250 + beforeMs)
    expect(freeMs).toBeLessThanOrEqual(8250 + ownMs())
  })

  it.each(['', '74210.05 0.00\n', '74210.05\n'])('is unknown where the system says %j', (text) => {
    expect(told(text)).toBeNaN()
  })

  it.runIf(process.platform === 'linux')('is what this system says', () => {
    expect(freeCoresMs()).toBeGreaterThan(0)
    expect(freeCoresMs()).toBeLessThanOrEqual(1000 * (uptime() + 1) * cpus().length)
  })
})

describe('a watch for other processes', () => {
  const all = cpus().length
  const watched = () => {
    const machine = { nowMs: 1000, freeMs: 5e6 }
    const isCrowded = crowdWatch(
      () => machine.freeMs,
      () => machine.nowMs,
    )
    return (ms: number, cores: number) => {
      machine.nowMs += ms
      machine.freeMs += ms * cores
      return isCrowded()
    }
  }

  it('tells that they use half a core or more since it last looked', () => {
    const after = watched()
    expect([after(1000, all), after(1e4, all - 0.49), after(1e4, all - 0.5), after(1000, all)]).toEqual([
      false,
      false,
      true,
      false,
    ])
  })

  it('looks at a second or more', () => {
    const after = watched()
    expect([after(500, 0), after(499, 0), after(1, 0), after(999, 0)]).toEqual([false, false, true, false])
  })

  it('takes a machine for crowded where free cores are unknown', () => {
    expect(watched()(1000, NaN)).toBe(true)
  })
})

const quotaOf = (files: Files): number | null => availableCores(temporaryFolder(files)).quota

describe.skipIf(process.platform !== 'linux')('the cores that may be used', () => {
  it('are those that the system gives, where there is no control group', () => {
    const all = {
      machine: cpus().length,
      allowed: availableParallelism(),
      quota: null,
      usable: availableParallelism(),
    }
    expect(availableCores(temporaryFolder({}))).toEqual(all)
  })

  for (const version of [1, 2] as const) {
    it.each<[what: string, files: Files, quota: number | null]>([
      [
        'of none, where nothing is limited',
        { ...inGroup(version, '/a'), ...quotas(version, { '/a': ['max', 100_000], '': ['max', 100_000] }) },
        null,
      ],
      ['of a container', { ...inGroup(version, '/'), ...quotas(version, { '': [150_000, 100_000] }) }, 1.5],
      [
        'of a period of its own',
        { ...inGroup(version, '/'), ...quotas(version, { '': [20_000, 10_000] }) },
        2,
      ],
      [
        'of the least of the groups above',
        {
          ...inGroup(version, '/pod/container'),
          ...quotas(version, {
            '/pod/container': ['max', 100_000],
            '/pod': [50_000, 100_000],
            '': [400_000, 100_000],
          }),
        },
        0.5,
      ],
      [
        'of a group that is mounted as the first one',
        { ...inGroup(version, '/docker/5f', '/docker/5f'), ...quotas(version, { '': [200_000, 100_000] }) },
        2,
      ],
      [
        'of a group below the one that is mounted',
        {
          ...inGroup(version, '/docker/5f/inner', '/docker/5f'),
          ...quotas(version, { '/inner': [100_000, 100_000], '': [200_000, 100_000] }),
        },
        1,
      ],
      [
        'of the mounted one, where the path is of another name space',
        { ...inGroup(version, '/', '/../..'), ...quotas(version, { '': [300_000, 100_000] }) },
        3,
      ],
      [
        'of a group below one that is mounted and whose name systemd has made',
        {
          ...inGroup(version, '/my\\x2dapp.slice/inner', '/my\\134x2dapp.slice'),
          ...quotas(version, { '/inner': [100_000, 100_000], '': [200_000, 100_000] }),
        },
        1,
      ],
      [
        'of no other group whose name begins alike',
        {
          ...inGroup(version, '/docker/5f2', '/docker/5f'),
          ...quotas(version, { '/2': [100_000, 100_000], '': [200_000, 100_000] }),
        },
        2,
      ],
    ])(`follow control groups, version ${version}: the quota %s`, (_, files, quota) => {
      expect(quotaOf(files)).toBe(quota)
    })
  }

  it('are read of the controller, whatever the order of its names and wherever it is mounted', () => {
    const files = {
      'proc/self/cgroup': '2:cpuacct,cpu:/a\n',
      'proc/self/mountinfo': '1 2 0:3 / /mnt/cpu rw - cgroup none rw,cpuacct,cpu\n',
      'mnt/cpu/a/cpu.cfs_quota_us': '250000',
      'mnt/cpu/a/cpu.cfs_period_us': '100000',
    }
    expect(quotaOf(files)).toBe(2.5)
  })

  it('are read where the folder has a space in its name', () => {
    const files = {
      'proc/self/cgroup': '0::/\n',
      'proc/self/mountinfo': '1 2 0:3 / /control\\040groups rw - cgroup2 none rw\n',
      'control groups/cpu.max': '250000 100000\n',
    }
    expect(quotaOf(files)).toBe(2.5)
  })

  it.each(['a b', '', '100000', '0 100000', '-5 100000', '100000 0', 'max', '\0'])(
    'have no limit where the file says nothing that makes sense: %j',
    (text) => {
      expect(quotaOf({ ...inGroup(2, '/'), 'sys/fs/cgroup/cpu.max': text })).toBeNull()
    },
  )

  it('have no limit where what the system tells cannot be understood', () => {
    expect(
      quotaOf({
        ...inGroup(2, '/'),
        ...quotas(2, { '': [50_000, 100_000] }),
        'proc/self/cgroup': 'nonsense\n0::relative\n',
      }),
    ).toBeNull()
    expect(
      quotaOf({
        ...inGroup(2, '/'),
        ...quotas(2, { '': [50_000, 100_000] }),
        'proc/self/mountinfo': 'nonsense - cgroup2\n',
      }),
    ).toBeNull()
  })

  it('are at least one, and whole ones', () => {
    const half = temporaryFolder({ ...inGroup(2, '/'), ...quotas(2, { '': [50_000, 100_000] }) })
    expect(availableCores(half).usable).toBe(1)
    const more = temporaryFolder({ ...inGroup(2, '/'), ...quotas(2, { '': [99_990_000, 10_000] }) })
    expect(availableCores(more).usable).toBe(availableParallelism())
  })

  it('follow a quota that is set after the start', () => {
    const root = temporaryFolder({ ...inGroup(2, '/'), ...quotas(2, { '': ['max', 100_000] }) })
    expect(availableCores(root).quota).toBeNull()
    writeFileSync(join(root, 'sys/fs/cgroup/cpu.max'), '100000 100000\n')
    expect(availableCores(root)).toMatchObject({ quota: 1, usable: 1 })
  })

  it('are what an engine takes', () => {
    expect(resolveEngineOptions({}).cores).toBe(availableCores().usable)
  })
})

const limitOf = (files: Files): number | null => availableMemory(temporaryFolder(files)).limitBytes
const megabyte = 2 ** 20

describe.skipIf(process.platform !== 'linux')('the memory that may be used', () => {
  it("is the machine's where no control group has a limit", () => {
    const all = { machineBytes: totalmem(), limitBytes: null, usableBytes: totalmem() }
    expect(availableMemory(temporaryFolder({}))).toEqual(all)
    for (const version of [1, 2] as const)
      expect(
        availableMemory(
          temporaryFolder({ ...inGroup(version, '/a'), ...memoryLimits(version, { '/a': 'max' }) }),
        ),
      ).toEqual(all)
  })

  for (const version of [1, 2] as const) {
    it(`is the least that groups of version ${version} allow`, () => {
      const files = {
        ...inGroup(version, '/pod/container'),
        ...memoryLimits(version, { '/pod/container': 64 * megabyte, '/pod': 32 * megabyte, '': 'max' }),
      }
      expect(availableMemory(temporaryFolder(files))).toEqual({
        machineBytes: totalmem(),
        limitBytes: 32 * megabyte,
        usableBytes: 32 * megabyte,
      })
    })

    it(`is not more than there is, whatever a group of version ${version} allows`, () => {
      expect(
        limitOf({ ...inGroup(version, '/'), ...memoryLimits(version, { '': totalmem() + 1 }) }),
      ).toBeNull()
    })
  }

  it('is what is left before a group is slowed down', () => {
    expect(
      limitOf({
        ...inGroup(2, '/'),
        ...memoryLimits(2, { '': 64 * megabyte }),
        'sys/fs/cgroup/memory.high': `${48 * megabyte}\n`,
      }),
    ).toBe(48 * megabyte)
  })
})
