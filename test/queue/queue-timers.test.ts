import { describe, expect, it, vi } from 'vitest'
import { setup } from './recorder.ts'

describe('a deadline', () => {
  it('drops every request at its own time with one timer', () => {
    const { clock, batcher, exits, add } = setup()
    for (const timeoutMs of [30, 10, 20]) add(`${timeoutMs} ms`, { timeoutMs })
    expect(clock.timers).toBe(1)
    clock.advanceBy(9.75)
    expect(exits).toEqual([])
    clock.advanceBy(100)
    expect(exits).toEqual([
      ['10 ms', 'timeout', 10],
      ['20 ms', 'timeout', 20],
      ['30 ms', 'timeout', 30],
    ])
    expect([batcher.count, clock.timers]).toEqual([0, 0])
  })

  it('sets no timer of its own for requests with the same timeout', () => {
    const { clock, add } = setup()
    const setTimer = vi.spyOn(clock, 'setTimer')
    for (let count = 0; count < 100; count++) {
      add('any', { timeoutMs: 50 })
      clock.advanceBy(0.25)
    }
    expect(setTimer).toHaveBeenCalledTimes(1)
  })

  it('is kept although its timer is late', () => {
    const { clock, exits, add, take } = setup()
    add('late', { timeoutMs: 5 })
    add('patient')
    clock.stall(5)
    expect(take()).toEqual(['patient'])
    expect(exits).toEqual([['late', 'timeout', 5]])
  })

  it('does not reach a request that left with a batch', () => {
    const { clock, exits, add, take } = setup()
    add('first', { timeoutMs: 10 })
    expect(take()).toEqual(['first'])
    clock.advanceBy(100)
    expect(exits).toEqual([])
  })

  it('of others is kept when requests with one come back', () => {
    const { clock, batcher, exits, add, take } = setup({ maxBatchSize: 1 })
    const first = add('first', { timeoutMs: 1 })
    add('second', { timeoutMs: 5 })
    take()
    batcher.requeue([first])
    clock.advanceBy(100)
    expect(exits).toEqual([['second', 'timeout', 5]])
    expect(take()).toEqual(['first'])
  })
})

describe('timers', () => {
  it('are none while nothing waits', () => {
    const { clock, batcher, add, take } = setup({ maxQueueDelayMs: 10 })
    expect(clock.timers).toBe(0)
    add('taken', { timeoutMs: 10, rows: 4 })
    expect(clock.timers).toBe(1)
    take()
    expect(clock.timers).toBe(0)
    batcher.cancel(add('cancelled', { timeoutMs: 10 }), 'cancelled')
    expect(clock.timers).toBe(0)
    add('delayed')
    expect(take()).toBeUndefined()
    expect(clock.timers).toBe(1)
    batcher.clear('closed')
    expect(clock.timers).toBe(0)
  })

  it('are none for requests that wait for a busy instance only', () => {
    const { clock, add, take } = setup({ maxQueueDelayMs: 10 })
    add('waiting')
    expect(take(false)).toBeUndefined()
    expect(clock.timers).toBe(0)
  })
})

describe('a queue delay', () => {
  it('wakes the owner when it runs out, with one timer for it and the deadlines', () => {
    const { clock, exits, wakes, add, take } = setup({ maxQueueDelayMs: 10 })
    add('impatient', { timeoutMs: 4 })
    clock.advanceBy(2)
    add('patient')
    expect(take()).toBeUndefined()
    clock.advanceBy(2)
    expect([exits, wakes, clock.timers]).toEqual([[['impatient', 'timeout', 4]], [4], 0])
    expect(take()).toBeUndefined()
    clock.advanceBy(7.75)
    expect([wakes, take()]).toEqual([[4], undefined])
    clock.advanceBy(0.25)
    expect([wakes, take()]).toEqual([[4, 12], ['patient']])
  })

  it('is over at once for a batch that fills up', () => {
    const { add, take } = setup({ maxQueueDelayMs: 10 })
    add('a', { rows: 3 })
    expect(take()).toBeUndefined()
    add('b')
    expect(take()).toEqual(['a', 'b'])
  })
})
