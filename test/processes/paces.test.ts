import { describe, expect, it } from 'vitest'
import { CallPace, RingPace } from '../../src/adapters/processes/server-connection.ts'
import { doAll } from '../../src/base/slices.ts'

describe("the pace of a client's calls", () => {
  const paced = () => {
    const state = { nowMs: 0, pauses: [] as number[] }
    const pace = new CallPace(
      () => state.nowMs,
      async (ms) => {
        state.pauses.push(ms)
        state.nowMs += ms
      },
    )
    /** A call whose work takes so long. */
    const call = async (ms: number) => {
      await pace.turn(new AbortController().signal)
      doAll(
        pace.counted(
          (function* () {
            yield
            state.nowMs += ms
          })(),
        ),
      )
    }
    return { state, call }
  }

  it('lets short calls pass, one after the other', async () => {
    const { state, call } = paced()
    for (let calls = 0; calls < 50; calls++) await call(0.1)
    expect(state.pauses).toEqual([])
  })

  it('gives the calls of one client a tenth of the event loop, however many it makes', async () => {
    const { state, call } = paced()
    for (let calls = 0; calls < 1000; calls++) await call(2)
    expect(2000 / state.nowMs).toBeGreaterThan(0.09)
    expect(2000 / state.nowMs).toBeLessThan(0.105)
  })

  it('forgets calls of long ago', async () => {
    const { state, call } = paced()
    for (let calls = 0; calls < 10; calls++) await call(1)
    state.nowMs += 1000
    state.pauses.length = 0
    await call(1)
    expect(state.pauses).toEqual([])
  })
})

describe('the pace at which rings are made', () => {
  const paced = () => {
    const state = { nowMs: 0 }
    return { state, pace: new RingPace(() => state.nowMs) }
  }
  const taken = (pace: RingPace) => {
    let count = 0
    while (count < 1000 && pace.take()) count++
    return count
  }

  it('lets many clients begin at once, and then one from time to time', () => {
    const { state, pace } = paced()
    expect(taken(pace)).toBe(128)
    state.nowMs += 4999
    expect(taken(pace)).toBe(0)
    state.nowMs += 1
    expect(taken(pace)).toBe(1)
    state.nowMs += 10 * 60_000
    expect(taken(pace)).toBe(120)
    state.nowMs += 24 * 60 * 60_000
    expect(taken(pace)).toBe(128)
  })

  it('leaves nothing of that after a violation', () => {
    const { state, pace } = paced()
    expect(pace.take()).toBe(true)
    for (let turn = 0; turn < 3; turn++) {
      pace.violated()
      expect(taken(pace)).toBe(0)
      state.nowMs += 5000
      expect(taken(pace)).toBe(1)
    }
  })
})
