import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'
import { takeLock } from '../../src/adapters/processes/serving-lock.ts'
import { ownPath } from './served.ts'

const processes = loadBinding().binding?.processes ?? null

describe.each([
  ...(processes === null ? [] : [{ how: 'with the addon', by: processes }]),
  { how: 'without it', by: null },
])('a lock, $how', ({ by }) => {
  it('is of one holder until that gives it up', () => {
    const path = ownPath()
    const held = takeLock(by, path)
    expect(held).not.toBeNull()
    expect(takeLock(by, path)).toBeNull()
    held!.release()
    const again = takeLock(by, path)
    expect(again).not.toBeNull()
    again!.release()
  })
})

describe('a lock without the addon', () => {
  it("that a process has left which is gone is in nobody's way", () => {
    const path = ownPath()
    writeFileSync(`${path}.pid`, String(2 ** 22 + 1)) // above what the system gives
    const held = takeLock(null, path)
    expect(held).not.toBeNull()
    expect(takeLock(null, path)).toBeNull()
    held!.release()
  })

  it.skipIf(process.platform !== 'linux')(
    "that a process has left whose number another one has by now is in nobody's way",
    () => {
      const path = ownPath()
      writeFileSync(`${path}.pid`, `${process.ppid} 1`) // of a process that was started as the system was
      const held = takeLock(null, path)
      expect(held).not.toBeNull()
      held!.release()
    },
  )

  it('that another process has stays with it', () => {
    const path = ownPath()
    writeFileSync(`${path}.pid`, String(process.ppid))
    expect(takeLock(null, path)).toBeNull()
  })
})
