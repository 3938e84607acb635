import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../src/simulation/virtual-clock.ts'

describe('a virtual clock', () => {
  it('fires timers by time, those of one moment in the order in which they were set', () => {
    const clock = new VirtualClock()
    const fired: [name: string, atMs: number][] = []
    const set = (name: string, delayMs: number) =>
      clock.setTimer(() => fired.push([name, clock.nowMs()]), delayMs)
    set('c', 3)
    set('a', 1)
    set('b', 1)
    while (clock.nextMs < Infinity) clock.fireNext()
    expect(fired).toEqual([
      ['a', 1],
      ['b', 1],
      ['c', 3],
    ])
  })

  it('does not fire what was cleared, also when it is cleared twice or too late', () => {
    const clock = new VirtualClock()
    const fired: string[] = []
    const a = clock.setTimer(() => fired.push('a'), 1)
    const b = clock.setTimer(() => fired.push('b'), 2)
    clock.clearTimer(b)
    clock.clearTimer(b)
    clock.fireNext()
    clock.clearTimer(a)
    expect(clock.nextMs).toBe(Infinity)
    expect(fired).toEqual(['a'])
  })

  it('lets a timer set others, counted from its own time', () => {
    const clock = new VirtualClock()
    clock.advanceTo(10)
    clock.setTimer(() => clock.setTimer(() => {}, 5), 1)
    clock.fireNext()
    expect(clock.nextMs).toBe(16)
  })
})
