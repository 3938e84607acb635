// Alone: it measures the memory of its process.
import { expect, it, vi } from 'vitest'
import { NativeMemory } from '../../src/native/staging-memory.ts'
import type { NativeBinding, NativeLease, NativePoolStats } from '../../src/native/native-binding.ts'
import { StagingPool } from '../../src/native/staging-pool.ts'

/** A pool over an addon that gives the lease that is set. */
function pool(given: Partial<NativeLease> | null, counted: Partial<NativePoolStats> = {}) {
  const release = vi.fn()
  const lease =
    given === null ? null : { id: 1, bytes: new ArrayBuffer(64), kind: 'plain', pastLimit: false, ...given }
  let reservedBytes = 4096
  const stats = () => ({ limitBytes: 2 ** 20, reservedBytes, usedBytes: 0, pinnedBytes: 0, ...counted })
  const trim = vi.fn(() => void (reservedBytes = stats().usedBytes))
  const binding = { acquire: vi.fn(() => lease), acquireAsync: async () => lease, release, stats, trim }
  return {
    staging: new StagingPool(new NativeMemory(binding as unknown as NativeBinding, {})),
    release,
    lease,
    binding,
    reserve: (bytes: number) => void (reservedBytes = bytes),
  }
}

it('a slot for which the system has no memory is an error that says how much', () => {
  const { staging } = pool(null)
  expect(() => staging.acquire(64, null)).toThrow('no 64 bytes of memory')
  expect(staging.stats()).toMatchObject({ usedBytes: 0, fallbacks: 0 })
})

it('a slot is known to run loops by its lease, and given back once', () => {
  const { staging, release, lease } = pool({ id: 5 })
  const buffer = staging.acquire(64, null)
  expect(buffer).toMatchObject({
    kind: 'native',
    byteLength: 64,
    largeFromBytes: 2 ** 17,
    memory: { kind: 'native', leaseId: 5 },
  })
  expect(staging.stats()).toMatchObject({
    kind: 'native',
    usedBytes: 64,
    highWaterBytes: 64,
    reservedBytes: 4096,
    limitBytes: 2 ** 20,
  })
  buffer.release()
  buffer.release()
  expect(release.mock.calls).toEqual([[lease!.bytes]])
  expect(staging.stats()).toMatchObject({ usedBytes: 0, highWaterBytes: 64, fallbacks: 0 })
})

it('memory that is made ahead is kept, and page-locked memory that cannot be had is a fallback', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const { staging } = pool({ reason: 'no driver' })
  expect(await staging.acquireAhead(64, 0)).toMatchObject({ kind: 'native', largeFromBytes: Infinity })
  expect(await pool({ kind: 'pinned' }).staging.acquireAhead(64, 0)).toMatchObject({ kind: 'pinned' })
  expect(await pool(null).staging.acquireAhead(64, 0)).toBeNull()
  expect(staging.stats().fallbacks).toBe(1)
  expect(warn.mock.calls.map(([message]) => message)).toEqual([
    'Slower staging memory is in use: page-locked memory is not available: no driver',
  ])
  warn.mockRestore()
})

it('memory that can be done without is had as long as half of the limit is left, never past it, and what others are done with is given back for it', () => {
  const { staging, binding, reserve } = pool({})
  expect(staging.acquireSpare(64, null)).toMatchObject({ byteLength: 64 })
  expect(binding.acquire.mock.calls).toEqual([[64, -1]])
  expect(staging.stats().usedBytes).toBe(64)
  reserve(2 ** 19)
  expect(staging.acquireSpare(64, null)).not.toBeNull() // there is room in it
  expect(binding.trim).not.toHaveBeenCalled()
  reserve(2 ** 19 + 1)
  expect(staging.acquireSpare(64, null)).not.toBeNull()
  expect(binding.trim).toHaveBeenCalledTimes(1)
  expect(pool({}, { usedBytes: 2 ** 19 - 63 }).staging.acquireSpare(64, null)).toBeNull()
  expect(pool(null).staging.acquireSpare(64, null)).toBeNull()
  const atWork = pool({}, { reservedBytes: 2 ** 19 + 1, pinnedBytes: 4096 }) // page-locked memory is not freed for that
  expect(atWork.staging.acquireSpare(64, null)).toBeNull()
  expect(atWork.binding.trim).not.toHaveBeenCalled()
})
