import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import type { ResolvedImageOptions } from '../../src/config/image-options.ts'
import { imageConcurrency } from '../../src/image/exports.ts'
import { decodeAll } from '../../src/lease/encoded-images.ts'
import type { PriorityLevel } from '../../src/queue/priority-levels.ts'
import { FakeClock } from '../fake-clock.ts'

const decoded: number[] = []
vi.mock('../../src/image/rgb-pipeline.ts', () => ({
  decodeRgb: async ([which]: Uint8Array) => {
    decoded.push(which!)
    if (which === 0) throw new Error('no image')
    await nextTurn()
    return Buffer.alloc(3)
  },
}))

const level = { policy: { timeoutAction: 'REJECT' }, timeoutFor: (timeoutMs: number | undefined) => timeoutMs ?? 0 } as unknown as PriorityLevel
const images = (...which: number[]) => which.map((each) => ({ name: `x${each}`, bytes: Uint8Array.of(each), options: { timeoutMs: 1000 } as ResolvedImageOptions }))

it.each([{}, { timeoutMs: 1000 }])('of a request of which one image is none the others leave the line, and others have their turns: %j', async (limits) => {
  imageConcurrency(1)
  decoded.length = 0
  const clock = new FakeClock()
  const refused = decodeAll(images(0, 1, 2, 3, 4), 'm', level, limits as never, clock)
  const others = decodeAll(images(5, 6), 'm', level, limits as never, clock)
  await expect(refused).rejects.toThrow('no image')
  expect((await others).map(({ name }) => name)).toEqual(['x5', 'x6'])
  expect(decoded).toEqual([0, 1, 5, 6]) // the next one had begun
  expect(clock.timers).toBe(0)
})
