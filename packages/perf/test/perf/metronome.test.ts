import { describe, expect, it } from 'vitest'
import { loadClock } from '../../src/perf/load/load.ts'
import { Metronome, type Pacer, TurnPacer } from '../../src/perf/load/open-loop.ts'

/** Waits for moments one after the other; by how much each was missed, in milliseconds. */
async function lags(pacer: Pacer, everyMs: number, count: number): Promise<number[]> {
  const found: number[] = []
  const startMs = loadClock.nowMs()
  for (let index = 1; index <= count; index++) {
    const atMs = startMs + index * everyMs
    await new Promise<void>((resolve) => pacer.wakeAt(atMs, resolve))
    found.push(loadClock.nowMs() - atMs)
  }
  return found
}

describe.each([
  ['a thread', () => new Metronome(loadClock)],
  ['timers and turns', () => new TurnPacer(loadClock)],
] as const)('a sender that %s wakes', (_, make) => {
  it('is woken for each moment, never before it', async () => {
    const pacer = make()
    const found = await lags(pacer, 0.7, 300)
    pacer.stop()
    expect(found).toHaveLength(300)
    expect(Math.min(...found)).toBeGreaterThanOrEqual(0)
  })

  it('is woken at once for a moment that has passed', () => {
    const pacer = make()
    let woken = false
    pacer.wakeAt(loadClock.nowMs() - 1, () => (woken = true))
    pacer.stop()
    expect(woken).toBe(true)
  })

  it('is not woken any more once it has stopped', async () => {
    const pacer = make()
    let woken = false
    pacer.wakeAt(loadClock.nowMs() + 20, () => (woken = true))
    pacer.stop()
    pacer.wakeAt(loadClock.nowMs(), () => (woken = true))
    await new Promise<void>((resolve) => loadClock.setTimer(resolve, 60))
    expect(woken).toBe(false)
  })
})
