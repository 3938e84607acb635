import { describe, expect, test } from 'vitest'
import type { CudaProbe } from '../../src/native/native-binding.ts'
import { fakeCudaFolder, nothingBuilt, runOver, suites } from './binaries.ts'

interface CudaAnswer {
  probe: CudaProbe
  kind: string
  reason?: string
  pinnedBytes: number
}

describe.skipIf(nothingBuilt).each(suites)('staging memory of %s', (binary) => {
  const lifetime = (scenario: string, env?: NodeJS.ProcessEnv) =>
    runOver(binary, 'lifetime.mjs', [scenario], env)

  test('what was released is empty and holds nothing, without a garbage collection, and a second release does nothing', () => {
    expect(lifetime('released')).toEqual({
      before: [2 ** 20, 2 ** 20],
      after: [0, 0],
      next: 2 ** 20,
      held: 2 ** 20,
    })
  })

  test('a lease that nobody has any more returns to the pool after garbage collection, and to the system when trimmed', () => {
    expect(lifetime('collected')).toEqual({ leases: 0, usedBytes: 0, grew: true, trimmed: true, left: 0 })
  })

  test.skipIf(!('transfer' in ArrayBuffer.prototype))(
    'bytes that somebody has moved elsewhere are held until they are collected (Node 22 and later)',
    () => {
      expect(lifetime('moved bytes')).toEqual({ kept: true, leases: 1, next: true })
    },
  )

  test('acquire returns null at the limit, which may be raised', () => {
    expect(lifetime('limit')).toEqual({ leases: 2, refused: null, allowed: true, failures: 1 })
  })

  test('memory past the limit goes back to the system when it is released', () => {
    const held = 8 * 2 ** 20
    expect(lifetime('past the limit')).toEqual({
      pastLimit: true,
      reservedBytes: held,
      pastLimitBytes: held,
      left: 0,
    })
  })

  test('the largest limit that is claimed counts, and the default when none is', () => {
    expect(lifetime('limits')).toEqual([1024, 1024, 64, 256])
  })

  test('loaded twice in one isolate it is one pool', () => {
    expect(lifetime('loaded twice')).toEqual({ leases: 1, left: 0 })
  })

  test('memory asked for as page-locked says which kind it is', () => {
    const { probe, kind, reason, pinnedBytes } = lifetime('cuda') as CudaAnswer
    if (probe.available && reason === undefined) expect([kind, pinnedBytes > 0]).toEqual(['pinned', true])
    else
      expect([kind, pinnedBytes, reason]).toEqual([
        'plain',
        0,
        expect.stringMatching(/driver|libcuda|cuMemHostAlloc/),
      ])
  })

  test.skipIf(fakeCudaFolder === undefined)(
    'it is plain where the driver cannot be used, with the reason',
    () => {
      const reason = 'cuInit failed: CUDA_ERROR_NO_DEVICE (100)'
      expect(lifetime('cuda', { LD_LIBRARY_PATH: fakeCudaFolder!, FAKE_CUDA_INIT: '100' })).toEqual({
        probe: { available: false, reason, driverVersion: 0, devices: [] },
        kind: 'plain',
        reason,
        pinnedBytes: 0,
        trimmed: 2 ** 24,
      })
    },
  )

  test.skipIf(fakeCudaFolder === undefined)(
    'with (fake) devices it is page-locked for each of them off the thread, within the limit',
    () => {
      expect(
        lifetime('off the thread', { LD_LIBRARY_PATH: fakeCudaFolder!, FAKE_CUDA_DEVICES: '2' }),
      ).toEqual({
        kinds: ['pinned', 'pinned', null],
        pinnedBytes: 2 * 2 ** 24,
      })
    },
  )

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
