import { describe, expect, test } from 'vitest'
import type { CudaProbe } from '../../src/memory/addon.ts'
import { fakeCudaFolder, nothingBuilt, runOver, suites } from './binaries.ts'

interface CudaAnswer {
  probe: CudaProbe
  kind: string
  reason?: string
  pinnedBytes: number
}

describe.skipIf(nothingBuilt).each(suites)('staging memory of %s', (binary) => {
  const lifetime = (scenario: string, env?: NodeJS.ProcessEnv) => runOver(binary, 'lifetime.mjs', [scenario], env)

  test('main and four workers see each other\'s writes', () => {
    expect(runOver(binary, 'shared-views.mjs')).toEqual({
      main: [9, 1, 2, 3, 4],
      seen: Array.from({ length: 4 }, () => [9, 1, 2, 3, 4]),
    })
  })

  test('a view outlives its lease, and a second release does nothing', () => {
    expect(lifetime('view outlives lease')).toEqual({ kept: true, usedBytes: 8192, leases: 1 })
  })

  test('a lease outlives its views', () => {
    expect(lifetime('lease outlives views')).toEqual({ byte: 5, usedBytes: 4096 })
  })

  test('memory returns to the pool after garbage collection, and to the system when trimmed', () => {
    expect(lifetime('memory returns')).toEqual({ usedBytes: 0, grew: true, trimmed: true, left: 0 })
  })

  test('a released or unknown lease gives no view', () => {
    expect(lifetime('no lease')).toEqual({
      messages: ['staging lease 1 is not held', 'staging lease 999 is not held'],
      usedBytes: 0,
    })
  })

  test('acquire returns null at the limit, which may be raised', () => {
    expect(lifetime('limit')).toEqual({ leases: 2, refused: null, allowed: true, failures: 1 })
  })

  test('a detached view is empty and holds nothing, without a garbage collection', () => {
    expect(lifetime('detach')).toEqual({ lengths: [2 ** 20, 0], before: 2 ** 20, after: 0, collected: 0, trimmed: true, left: 0 })
  })

  test('memory past the limit goes back to the system with its last view', () => {
    const held = 8 * 2 ** 20
    expect(lifetime('past the limit')).toEqual({ pastLimit: true, reservedBytes: held, pastLimitBytes: held, held, left: 0 })
  })

  test('the largest limit that is claimed counts, and the default when none is', () => {
    expect(lifetime('limits')).toEqual([1024, 1024, 64, 256])
  })

  test('loaded twice in one isolate it is one pool', () => {
    expect(lifetime('loaded twice')).toEqual({ byte: 3, leases: 1 })
  })

  test('memory asked for as page-locked says which kind it is', () => {
    const { probe, kind, reason, pinnedBytes } = lifetime('cuda') as CudaAnswer
    if (probe.available && reason === undefined) expect([kind, pinnedBytes > 0]).toEqual(['pinned', true])
    else expect([kind, pinnedBytes, reason]).toEqual(['plain', 0, expect.stringMatching(/driver|libcuda|cuMemHostAlloc/)])
  })

  test.skipIf(fakeCudaFolder === undefined)('it is plain where the driver cannot be used, with the reason', () => {
    const reason = 'cuInit failed: CUDA_ERROR_NO_DEVICE (100)'
    expect(lifetime('cuda', { LD_LIBRARY_PATH: fakeCudaFolder!, FAKE_CUDA_INIT: '100' })).toEqual({
      probe: { available: false, reason, driverVersion: 0, devices: [] },
      kind: 'plain',
      reason,
      pinnedBytes: 0,
      trimmed: 2 ** 24,
    })
  })

  test.skipIf(fakeCudaFolder === undefined)('with (fake) devices it is page-locked for each of them off the thread, within the limit', () => {
    expect(lifetime('off the thread', { LD_LIBRARY_PATH: fakeCudaFolder!, FAKE_CUDA_DEVICES: '2' })).toEqual({
      kinds: ['pinned', 'pinned', null],
      pinnedBytes: 2 * 2 ** 24,
    })
  })

  test.skipIf(fakeCudaFolder === undefined)('with a (fake) driver it is page-locked, until trimmed', () => {
    expect(lifetime('cuda', { LD_LIBRARY_PATH: fakeCudaFolder! })).toEqual({
      probe: {
        available: true,
        reason: '',
        driverVersion: 13000,
        devices: [{ ordinal: 0, name: 'Fake GPU 0', totalBytes: 2 ** 33 }],
      },
      kind: 'pinned',
      pinnedBytes: 2 ** 24,
      trimmed: 2 ** 24,
    })
  })
})
