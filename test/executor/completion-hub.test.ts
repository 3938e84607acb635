import { afterEach, expect, it, vi } from 'vitest'
import { CompletionHub } from '../../src/run/executors/native/completion-hub.ts'
import type { NativeBinding } from '../../src/native/native-binding.ts'

afterEach(() => void vi.restoreAllMocks())

it('tells the times of runs on the clock of this thread, also where it was held up while it looked at both', () => {
  let nowMs = 1000
  let looks = 0
  vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 0.001))
  const completion = [7, 0, 3, 51_010, 51_011, 51_012, 0]
  const binding = {
    // It is 50 s ahead, and the first looks take 20 ms.
    nowMs: () => {
      const atMs = nowMs + 50_000
      if (looks++ < 3) nowMs += 20
      return atMs
    },
    CompletionHub: class {
      take(numbers: Float64Array): number {
        numbers.set(completion)
        return 1
      }
    },
  }
  const hub = new CompletionHub(binding as unknown as NativeBinding)
  const told: number[] = []
  hub.add(7, {
    batchDone: (slotId, { startMs, inferEndMs }) => void told.push(slotId, startMs, inferEndMs),
    answered: () => {},
    loopEnded: () => {},
  })
  hub.drain()
  expect(told).toEqual([3, expect.closeTo(1010, 2), expect.closeTo(1012, 2)])
})
