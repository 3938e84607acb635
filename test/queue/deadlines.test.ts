import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from './waiting-request.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import { Expiries } from '../../src/schedule/expiries.ts'
import { repetitions } from '../support/full.ts'
import { noPolicy, setup } from './recorder.ts'

/** Runs of 10 ms for one row and 5 ms more for each further one. */
function runTimes(): RunTimes {
  const times = new RunTimes()
  for (let rows = 1; rows <= 4; rows++)
    for (let run = 0; run < 5; run++) times.observe('', rows, 5 + 5 * rows, Infinity)
  return times
}

describe('a deadline of a request', () => {
  it('keeps a batch from growing past it', () => {
    const { add, takeWithReason } = setup({}, {}, runTimes())
    add('hurried', { deadlineMs: 17.5 })
    for (const name of ['b', 'c']) add(name)
    expect([takeWithReason(), takeWithReason()]).toEqual([
      ['deadline', 'hurried', 'b'],
      ['idle', 'c'],
    ])
  })

  it('is reckoned with what runs take at present where it limits a batch, and with a slow run where the batch waits', () => {
    const uneven = runTimes() // 10 and 15 ms, and a few of twice that
    for (let run = 0; run < 3; run++) uneven.observe('', 1, 20)
    const growing = setup({}, {}, uneven)
    growing.add('a', { deadlineMs: 18 })
    growing.add('b')
    expect(growing.take()).toEqual(['a', 'b'])
    const waiting = setup({ maxQueueDelayMs: 100 }, {}, uneven)
    waiting.add('a', { deadlineMs: 30 })
    expect(waiting.take()).toBeUndefined()
    waiting.clock.advanceBy(8)
    expect([waiting.wakes, waiting.takeWithReason()]).toEqual([[8], ['deadline', 'a']])
  })

  it('of a later member counts as well', () => {
    const { add, takeWithReason } = setup({}, {}, runTimes())
    add('a')
    add('b', { deadlineMs: 18 })
    add('c')
    expect(takeWithReason()).toEqual(['deadline', 'a', 'b'])
  })

  it('closes a batch that waits for its delay in time', () => {
    const { clock, wakes, add, takeWithReason } = setup({ maxQueueDelayMs: 100 }, {}, runTimes())
    add('a', { deadlineMs: 30 })
    expect(takeWithReason()).toBeUndefined()
    clock.advanceBy(17)
    expect(takeWithReason()).toBeUndefined()
    clock.advanceBy(1)
    expect([wakes, takeWithReason()]).toEqual([[18], ['deadline', 'a']])
  })

  it('drops a request that even a usual run could not answer in time', () => {
    const { clock, exits, add, take } = setup({}, {}, runTimes())
    add('hopeless', { deadlineMs: 15 })
    add('patient')
    clock.advanceBy(6)
    expect([take(), exits]).toEqual([['patient'], [['hopeless', 'deadline', 6]]])
  })

  it('that passes while all are busy rejects on its time', () => {
    const { clock, exits, add } = setup()
    add('a', { deadlineMs: 20 })
    clock.advanceBy(100)
    expect(exits).toEqual([['a', 'deadline', 20]])
  })

  it('counts from when a busy instance will be free', () => {
    const { batcher, add, exits } = setup({ maxBatchSize: 1 }, {}, runTimes())
    add('a', { deadlineMs: 25 })
    expect(batcher.take(false, 20)).toBeNull()
    expect(exits).toEqual([['a', 'deadline', 0]])
  })
})

describe('buckets', () => {
  it('are served by the oldest deadline', () => {
    const { add, take } = setup()
    add('relaxed', { shape: 'x', timeoutMs: 500 })
    add('urgent', { shape: 'y', timeoutMs: 50 })
    add('whenever', { shape: 'z' })
    expect([take(), take(), take()]).toEqual([['urgent'], ['relaxed'], ['whenever']])
  })

  it('are served by level before that', () => {
    const { add, take } = setup({}, { priorityLevels: 2, defaultPriorityLevel: 2 })
    add('urgent', { shape: 'x', timeoutMs: 50 })
    add('important', { shape: 'y', priority: 1 })
    expect([take(), take()]).toEqual([['important'], ['urgent']])
  })

  it('say so when an idle instance takes from one while others wait', () => {
    const { add, takeWithReason } = setup()
    add('a', { shape: 'x' })
    add('b', { shape: 'y' })
    expect([takeWithReason(), takeWithReason()]).toEqual([
      ['bucket', 'a'],
      ['idle', 'b'],
    ])
  })

  it('of a hot shape do not starve one of a rare shape', () => {
    const { clock, add, take } = setup()
    add('rare', { shape: 'rare' })
    clock.advanceBy(1)
    for (let round = 0; round < 5; round++) add('hot', { shape: 'hot', rows: 4 })
    expect([take(false), take(), take(false)]).toEqual([undefined, ['rare'], ['hot']])
  })
})

describe('a hold', () => {
  it('keeps everything until so many requests have waited at once', () => {
    const { add, take } = setup({ holdUntilQueued: 3, maxBatchSize: 2 })
    for (const name of ['a', 'b']) add(name)
    expect([take(), take(false)]).toEqual([undefined, undefined])
    add('c')
    expect([take(false), take()]).toEqual([['a', 'b'], ['c']])
    add('d')
    expect(take()).toEqual(['d'])
  })
})

describe('draining', () => {
  it('sends what waits for its delay, and lifts a hold', () => {
    const { batcher, add, takeWithReason } = setup({ maxQueueDelayMs: 1000, holdUntilQueued: 5 })
    add('a')
    expect(takeWithReason()).toBeUndefined()
    batcher.drain()
    expect(takeWithReason()).toEqual(['drain', 'a'])
  })
})

describe('many requests that are delayed at once', () => {
  it('keep their order behind the others', () => {
    const policy = { ...noPolicy, timeoutAction: 'DELAY' as const }
    const { clock, batcher, add, take } = setup({ maxBatchSize: 1 }, { defaultPolicy: policy })
    const many = repetitions(100_000, 10_000)
    for (let count = 0; count < many; count++) add(String(count), { timeoutMs: 5 + count / 1000 })
    add('patient')
    clock.advanceBy(500)
    expect([batcher.count, clock.timers]).toEqual([many + 1, 0])
    expect([take(), take(), take()]).toEqual([['patient'], ['0'], ['1']])
  })
})

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

const level = new PriorityLevel(0, noPolicy)

/** A request that expires at `atMs`. */
function entryAt(atMs: number): WaitingRequest {
  const entry = new WaitingRequest(1, '', level)
  entry.timeoutAtMs = atMs
  return entry
}

describe('Expiries', () => {
  it('give every request at its time and the earliest first, near and far', () => {
    const property = fc.property(
      fc.array(fc.tuple(fc.double({ min: 0, max: 2000, noNaN: true }), fc.boolean()), { maxLength: 60 }),
      fc.array(fc.double({ min: 0, max: 400, noNaN: true }), { maxLength: 12 }),
      (times, steps) => {
        const expiries = new Expiries<WaitingRequest>()
        let waiting = times.map(([atMs]) => entryAt(atMs))
        for (const entry of waiting) expiries.push(entry, entry.timeoutAtMs!, 0)
        for (const [index, [, leaves]] of times.entries()) {
          if (!leaves) continue
          expiries.remove(waiting[index]!)
          expiries.remove(waiting[index]!)
        }
        waiting = waiting.filter((_, index) => !times[index]![1])
        let nowMs = 0
        for (const step of [...steps, 3000]) {
          nowMs += step
          const expected = waiting
            .filter(({ timeoutAtMs }) => timeoutAtMs! <= nowMs)
            .map(({ timeoutAtMs }) => timeoutAtMs!)
          const due = expiries.takeDue(nowMs).map(({ timeoutAtMs }) => timeoutAtMs!)
          expect(due).toEqual(expected.sort((a, b) => a - b))
          waiting = waiting.filter(({ timeoutAtMs }) => timeoutAtMs! > nowMs)
          expect(expiries.size).toBe(waiting.length)
          const earliestMs = Math.min(Infinity, ...waiting.map(({ timeoutAtMs }) => timeoutAtMs!))
          expect(expiries.nextAtMs).toBeLessThanOrEqual(earliestMs)
          expect(expiries.nextAtMs > nowMs || waiting.length === 0).toBe(true)
        }
        expect([expiries.size, expiries.nextAtMs]).toEqual([0, Infinity])
      },
    )
    fc.assert(property, { numRuns: repetitions(3000, 300) })
  })

  it('give requests that were given more time at their new one, or never', () => {
    const time = fc.double({ min: 0, max: 1000, noNaN: true })
    const property = fc.property(
      fc.array(fc.tuple(time, fc.option(fc.tuple(fc.nat(5), fc.option(time)))), { maxLength: 40 }),
      fc.array(fc.double({ min: 0, max: 200, noNaN: true }), { maxLength: 12 }),
      (times, steps) => {
        const expiries = new Expiries<WaitingRequest>()
        const all = times.map(([atMs]) => entryAt(atMs))
        for (const entry of all) expiries.push(entry, entry.timeoutAtMs!, 0)
        const given = new Set<WaitingRequest>()
        let nowMs = 0
        for (const [step, ms] of [...steps, 1000, 2000].entries()) {
          for (const [index, [, more]] of times.entries()) {
            const entry = all[index]!
            if (more?.[0] !== step || given.has(entry)) continue
            entry.timeoutAtMs = more[1] === null ? null : entry.timeoutAtMs! + more[1]
          }
          nowMs += ms
          const expected = all.filter(
            (entry) => !given.has(entry) && entry.timeoutAtMs !== null && entry.timeoutAtMs <= nowMs,
          )
          const due = expiries.takeDue(nowMs)
          expect([...due].map(({ timeoutAtMs }) => timeoutAtMs)).toEqual(
            expected.map(({ timeoutAtMs }) => timeoutAtMs!).sort((a, b) => a - b),
          )
          for (const entry of due) given.add(entry)
          const left = all.filter((entry) => !given.has(entry) && entry.timeoutAtMs !== null)
          expect(expiries.nextAtMs).toBeLessThanOrEqual(
            Math.min(Infinity, ...left.map(({ timeoutAtMs }) => timeoutAtMs!)),
          )
        }
        expect([expiries.size, expiries.nextAtMs]).toEqual([0, Infinity])
      },
    )
    fc.assert(property, { numRuns: repetitions(1000, 200) })
  })

  it('keep no place for requests that have left while others of their time stay', () => {
    const expiries = new Expiries<WaitingRequest>()
    const stays = entryAt(100_000)
    expiries.push(stays, 100_000, 0)
    for (let count = 0; count < 10_000; count++) {
      const goes = entryAt(100_000)
      expiries.push(goes, 100_000, 0)
      expiries.remove(goes)
    }
    expect(expiries.size).toBe(1)
    expect(stays.expirySlot!.entries.length).toBeLessThan(100)
    expect(expiries.takeDue(100_000)).toEqual([stays])
  })
})
