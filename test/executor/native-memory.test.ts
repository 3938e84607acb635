import { expect, it, vi } from 'vitest'
import { NativeMemory } from '../../src/executor/native/native-memory.ts'
import type { NativeBinding, NativeLease } from '../../src/memory/addon.ts'
import { StagingPool } from '../../src/memory/staging-pool.ts'

/** A pool over an addon that gives the lease that is set. */
function pool(given: Partial<NativeLease> | null) {
  const release = vi.fn()
  const lease = given === null ? null : { id: 1, bytes: new ArrayBuffer(64), kind: 'plain', pastLimit: false, ...given }
  const stats = () => ({ limitBytes: 2 ** 20, reservedBytes: 4096 })
  const binding = { acquire: () => lease, acquireAsync: async () => lease, release, stats } as unknown as NativeBinding
  return { staging: new StagingPool(new NativeMemory(binding, {})), release, lease }
}

it('a slot for which the system has no memory is an error that says how much', () => {
  const { staging } = pool(null)
  expect(() => staging.acquire(64, null)).toThrow('no 64 bytes of memory')
  expect(staging.stats()).toMatchObject({ usedBytes: 0, fallbacks: 0 })
})

it('a slot is known to run loops by its lease, and given back once', () => {
  const { staging, release, lease } = pool({ id: 5 })
  const buffer = staging.acquire(64, null)
  expect(buffer).toMatchObject({ kind: 'native', byteLength: 64, largeFromBytes: 2 ** 17, memory: { kind: 'native', leaseId: 5 } })
  expect(staging.stats()).toMatchObject({ kind: 'native', usedBytes: 64, highWaterBytes: 64, reservedBytes: 4096, limitBytes: 2 ** 20 })
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
  expect(warn.mock.calls.map(([message]) => message)).toEqual(['Slower staging memory: page-locked memory cannot be had: no driver'])
  warn.mockRestore()
})
