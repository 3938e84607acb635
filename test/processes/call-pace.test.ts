import { describe, expect, it } from 'vitest'
import { CallPace } from '../../src/adapters/processes/served-client.ts'
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
