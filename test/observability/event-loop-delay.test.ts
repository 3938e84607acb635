import { describe, expect, it } from 'vitest'
import { EventLoopDelay } from '../../src/observe/model-stats.ts'
import { KeepAlive } from '../../src/base/clock.ts'
import { FakeClock } from '../fake-clock.ts'

function watched() {
  const clock = new FakeClock(1000)
  const keepAlive = new KeepAlive()
  const delay = new EventLoopDelay(clock, keepAlive)
  keepAlive.onHeld = delay.begin
  return { clock, keepAlive, delay }
}

describe('the delay of the event loop', () => {
  it('is asked for every 20 ms while something is in flight, with one timer, and with none when nothing is', () => {
    const { clock, keepAlive, delay } = watched()
    expect([clock.timers, delay.statistics.count]).toEqual([0, 0])
    keepAlive.enter()
    keepAlive.enter()
    expect(clock.timers).toBe(1)
    clock.advanceBy(100)
    expect([clock.timers, delay.statistics.count, delay.statistics.maxMs]).toEqual([1, 5, 0])
    keepAlive.leave()
    keepAlive.leave()
    clock.advanceBy(20)
    expect([clock.timers, delay.statistics.count]).toEqual([0, 6])
    keepAlive.enter()
    expect(clock.timers).toBe(1)
  })

  it('sets no second timer where requests come one by one', () => {
    const { clock, keepAlive, delay } = watched()
    for (let request = 0; request < 1000; request++) {
      keepAlive.enter()
      keepAlive.leave()
    }
    expect(clock.timers).toBe(1)
    clock.advanceBy(1000)
    expect([clock.timers, delay.statistics.count]).toEqual([0, 1])
  })

  it('weighs a stall by how long it was', () => {
    const { clock, keepAlive, delay } = watched()
    keepAlive.enter()
    clock.advanceBy(20 * 74)
    clock.stall(520) // of which the first 20 ms are in time
    clock.advanceBy(0)
    const { count, maxMs, sumMs, p50Ms, p99Ms } = delay.statistics
    expect([count, maxMs, sumMs]).toEqual([74 + 25, 500, (500 * 26) / 2])
    expect(p50Ms).toBeLessThan(0.001)
    expect(p99Ms).toBeGreaterThan(470)
  })
})
