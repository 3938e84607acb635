import { totalmem } from 'node:os'
import { describe, expect, it } from 'vitest'
import { availableMemory } from '../../src/base/available-resources.ts'
import { temporaryFolder, type Files } from '../triton-repository/temporary.ts'
import { inGroup, memoryLimits } from './control-groups.ts'

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
