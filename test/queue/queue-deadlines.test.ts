import { describe, expect, it } from 'vitest'
import { RunTimes } from '../../src/schedule/estimates.ts'
import { noPolicy, setup } from './recorder.ts'
import { repetitions } from '../support/full.ts'

/** Runs of 10 ms for one row and 5 ms more for each further one. */
function runTimes(): RunTimes {
  const times = new RunTimes()
  for (let rows = 1; rows <= 4; rows++)
    for (let run = 0; run < 5; run++) times.observe('', rows, 5 + 5 * rows)
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
