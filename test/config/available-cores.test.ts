import { availableParallelism, cpus } from 'node:os'
import { describe, expect, it } from 'vitest'
import { availableCores } from '../../src/config/available-cores.ts'
import { resolveEngineOptions } from '../../src/config/engine-options.ts'
import { temporaryFolder, type Files } from '../triton-repository/temporary.ts'

const quotaOf = (files: Files): number | null => availableCores(temporaryFolder(files)).quota

describe.skipIf(process.platform !== 'linux')('the cores that may be used', () => {
  it('are those that the system gives, where no control group has a limit', () => {
    const all = { machine: cpus().length, allowed: availableParallelism(), quota: null, usable: availableParallelism() }
    expect(availableCores(temporaryFolder({}))).toEqual(all)
    expect(quotaOf({ 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': 'max 100000\n' })).toBeNull()
    expect(quotaOf({ 'proc/self/cgroup': '1:cpu,cpuacct:/\n', 'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '-1\n', 'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000\n' })).toBeNull()
  })

  it.each([
    ['of a container', { 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '150000 100000\n' }, 1.5],
    ['of the least of the groups above', {
      'proc/self/cgroup': '0::/pod/container\n', 'sys/fs/cgroup/pod/container/cpu.max': 'max 100000\n', 'sys/fs/cgroup/pod/cpu.max': '50000 100000\n', 'sys/fs/cgroup/cpu.max': '400000 100000',
    }, 0.5],
    ['of the first version', {
      'proc/self/cgroup': '5:memory:/a\n2:cpu,cpuacct:/a\n', 'sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us': '300000\n', 'sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us': '100000\n',
    }, 3],
    ['that makes no sense', { 'proc/self/cgroup': 'nonsense\n0::relative\n0::/\n', 'sys/fs/cgroup/cpu.max': 'a b\n' }, null],
  ])('are as many as the quota %s', (_, files, quota) => {
    expect(quotaOf(files as Files)).toBe(quota)
  })

  it('are at least one, and whole ones', () => {
    const half = temporaryFolder({ 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '50000 100000\n' })
    expect(availableCores(half).usable).toBe(1)
    const more = temporaryFolder({ 'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/cpu.max': '99990000 10000\n' })
    expect(availableCores(more).usable).toBe(availableParallelism())
  })

  it('are what an engine takes', () => {
    expect(resolveEngineOptions({}).cores).toBe(availableCores().usable)
  })
})
