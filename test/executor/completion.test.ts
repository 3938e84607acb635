import { afterEach, describe, expect, it, vi } from 'vitest'
import type { NativeBinding } from '../../src/native/native-binding.ts'
import { CompletionLoop, type CompletionSource } from '../../src/run/executors/binding/binding-executor.ts'
import { Bell } from '../../src/run/executors/binding/control-block.ts'
import { CompletionHub } from '../../src/run/executors/native/native-executor.ts'
import { until } from '../support/until.ts'

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
    RunLoop: class {
      id = 7
    },
    CompletionHub: class {
      readonly #numbers: Float64Array
      constructor(_wake: () => void, numbers: Float64Array) {
        this.#numbers = numbers
      }
      take(): number {
        this.#numbers.set(completion)
        return 1
      }
    },
  }
  const hub = new CompletionHub(binding as unknown as NativeBinding)
  const told: number[] = []
  const loop = hub.newLoop({
    batchDone: (slotId, { startMs, inferEndMs }) => void told.push(slotId, startMs, inferEndMs),
    answered: () => {},
    loopEnded: () => {},
  })
  hub.drain()
  hub.dropLoop(loop)
  expect(told).toEqual([3, expect.closeTo(1010, 2), expect.closeTo(1012, 2)])
})

describe('a completion hub', () => {
  let done = 0 // not taken
  let wake = () => {}
  const binding = {
    nowMs: () => performance.now(),
    RunLoop: class {
      id = 7
    },
    CompletionHub: class {
      readonly #numbers: Float64Array
      constructor(onDone: () => void, numbers: Float64Array) {
        wake = onDone
        this.#numbers = numbers
      }
      take(): number {
        const count = done
        done = 0
        for (let at = 0; at < count; at++) this.#numbers.set([7, 0, 3, 0, 0, 0, 0], 7 * at)
        return count
      }
    },
  }
  const realImmediate = setImmediate
  const turn = () => new Promise((resolve) => realImmediate(resolve))

  it('gives the event loop its turn where answers bring requests that are done by the next call', async () => {
    let nowMs = 1000
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const hub = new CompletionHub(binding as unknown as NativeBinding)
    let answered = 0
    const loop = hub.newLoop({
      batchDone: () => {
        answered++
        nowMs += 0.2 // its callers ask again, and the thread is as fast
        done++
      },
      answered: () => {},
      loopEnded: () => {},
    })
    done = 1
    for (let call = 0; call < 1000; call++) wake() // as Node.js does
    expect(answered).toBeLessThan(6)
    const before = answered
    await turn()
    expect(answered).toBe(before) // the answers took longer than a stretch: timers first
    await turn()
    expect(answered).toBe(before + 1) // what was left is not forgotten
    for (let call = 0; call < 1000; call++) wake()
    expect(answered).toBeLessThan(12)
    await turn()
    await turn()
    const last = answered
    nowMs += 10
    await turn()
    wake()
    expect(answered).toBe(last + 1) // one now and then is brought at once
    hub.dropLoop(loop)
  })

  it('goes on where an application had replaced timers for a while', async () => {
    const hub = new CompletionHub(binding as unknown as NativeBinding)
    let answered = 0
    const loop = hub.newLoop({ batchDone: () => void answered++, answered: () => {}, loopEnded: () => {} })
    vi.useFakeTimers()
    done = 1
    wake()
    vi.useRealTimers()
    for (let look = 0; look < 3; look++) {
      await new Promise((resolve) => setTimeout(resolve, 2))
      done = 1
      wake()
      for (let turns = 0; turns < 2; turns++) await turn() // it is brought at once, or then where the process had no core
      expect(done).toBe(0)
    }
    expect(answered).toBe(4)
    hub.dropLoop(loop)
  })
})

/** Has a batch that is finished when the bell has rung; drained once more than it says, it has others hear of it too. */
class Source implements CompletionSource {
  outstanding = 1
  readonly #bell: Bell
  readonly #onDrain: () => void

  constructor(bell: Bell, onDrain = () => {}) {
    this.#bell = bell
    this.#onDrain = onDrain
  }

  drainCompletions(): void {
    if (this.#bell.count > 0) this.outstanding = 0
    this.#onDrain()
  }
}

const fails = () => {
  throw new Error('of its own')
}

describe('a completion loop', () => {
  it('hears others although one source throws, without another batch being dispatched', async () => {
    const bell = new Bell()
    const loop = new CompletionLoop(bell)
    const good = new Source(bell)
    let failing = true
    const bad = new Source(bell, () => {
      if (!failing) return
      failing = false
      loop.listen(good) // a batch that the same look dispatches elsewhere
      fails()
    })
    expect(() => loop.listen(bad)).toThrow('of its own')
    bell.ring()
    await until(() => good.outstanding === 0 && bad.outstanding === 0)
  })

  it('looks only at those with something outstanding', async () => {
    const bell = new Bell()
    const loop = new CompletionLoop(bell)
    let looks = 0
    const idle = new Source(bell, () => void looks++)
    idle.outstanding = 0
    loop.listen(idle)
    const busy = new Source(bell)
    loop.listen(busy)
    bell.ring()
    await until(() => busy.outstanding === 0)
    expect(looks).toBe(1)
  })
})
