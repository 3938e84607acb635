// Alone: it counts the objects of its process.
import { queryObjects } from 'node:v8'
import { describe, expect, it } from 'vitest'
import { Bucket } from '../../src/schedule/buckets.ts'
import { repetitions } from '../support/full.ts'
import { Named, setup } from './recorder.ts'

describe('enqueue', () => {
  it('says when a bucket holds a full batch', () => {
    const { batcher, clock, make } = setup()
    const shapes = ['x', 'y', 'x', 'y']
    const said = shapes.map((shape) => batcher.enqueue(make('a', { rows: 2, shape }), clock.nowMs()))
    expect(said).toEqual([false, false, true, true])
  })

  it('says when with a request a bucket holds a batch of the largest preferred size, and no more while that waits', () => {
    const { batcher, clock, make } = setup({ maxBatchSize: 8, preferredBatchSizes: [1, 2] })
    const said = [1, 2, 3].map(() => batcher.enqueue(make('a'), clock.nowMs()))
    expect(said).toEqual([false, true, false])
  })

  it('says so of every request that waits alone once they do not join', () => {
    const { batcher, clock, make, take } = setup()
    batcher.enqueue(make('a'), clock.nowMs())
    batcher.stopJoining()
    expect(batcher.enqueue(make('b'), clock.nowMs())).toBe(false)
    expect([take(), take(false), take()]).toEqual([['a'], ['b'], undefined])
    expect(batcher.enqueue(make('c'), clock.nowMs())).toBe(true)
  })

  it('joins those of some buckets alone, also where they wait already, until it is told otherwise', () => {
    const { batcher, add, take } = setup()
    for (const name of ['a', 'b']) for (const shape of ['one', 'two']) add(`${name} ${shape}`, { shape })
    batcher.joinOnly(new Set(['two']))
    expect([take(), take(), take()]).toEqual([['a one'], ['b one'], ['a two', 'b two']])
    batcher.joinOnly(null)
    for (const name of ['c', 'd']) add(name, { shape: 'one' })
    expect(take()).toEqual(['c', 'd'])
  })

  it('joins more rows of fixed shapes than maxBatchSize while joinUpTo allows it, those that wait as well', () => {
    const { batcher, add, take } = setup()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) add(name)
    batcher.joinUpTo(6)
    expect(batcher.hasFull).toBe(true)
    expect(take()).toHaveLength(6)
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) add(name)
    batcher.joinUpTo(0)
    expect([take(), take()]).toEqual([
      ['a', 'b', 'c', 'd'],
      ['e', 'f'],
    ])
    batcher.joinUpTo(2)
    for (const name of ['a', 'b', 'c']) add(name)
    expect(take()).toEqual(['a', 'b', 'c'])
  })

  it.each([
    ['requests of other shapes', {}, 'x'],
    ['sizes that are preferred', { preferredBatchSizes: [4] }, ''],
    ['a queue delay', { maxQueueDelayMs: 1 }, ''],
  ])('joins as many as ever with %s', (_, options, shape) => {
    const { batcher, add, take } = setup(options)
    batcher.joinUpTo(6)
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) add(name, { shape })
    expect(take()).toEqual(['a', 'b', 'c', 'd'])
  })
})

describe('cancel', () => {
  it('unlinks a request at once and frees its place', () => {
    const { batcher, levels, exits, add, take } = setup()
    const [, b] = ['a', 'b', 'c'].map((name) => add(name, { rows: name === 'b' ? 2 : 1 }))
    expect([levels.of(0).waiting, batcher.count, batcher.rows]).toEqual([3, 3, 4])
    expect(batcher.cancel(b!, 'cancelled')).toBe(true)
    expect(exits).toEqual([['b', 'cancelled', 0]])
    expect([levels.of(0).waiting, batcher.count, batcher.rows]).toEqual([2, 2, 2])
    expect(take()).toEqual(['a', 'c'])
  })

  it('does nothing to a request that does not wait any more', () => {
    const { batcher, exits, add, make, take } = setup()
    const taken = add('taken')
    take()
    expect(batcher.cancel(taken, 'cancelled')).toBe(false)
    expect(batcher.cancel(make('never came'), 'cancelled')).toBe(false)
    expect(exits).toEqual([])
  })

  it('lets go of requests with deadlines, however many, while others wait', () => {
    const { batcher, clock, exits, add } = setup()
    add('stays', { timeoutMs: 500 })
    const before = queryObjects(Named, { format: 'count' })
    for (let count = 0; count < repetitions(100_000, 10_000); count++) {
      batcher.cancel(add('goes', { timeoutMs: 1000 + (count % 7) }), 'cancelled')
    }
    exits.length = 0
    expect(queryObjects(Named, { format: 'count' }) - before).toBeLessThan(70)
    clock.advanceBy(500)
    expect(exits).toEqual([['stays', 'timeout', 500]])
    expect(queryObjects(Named, { format: 'count' })).toBeLessThanOrEqual(before)
  })
})

describe('buckets', () => {
  it('keep shapes apart, each in its order, and the oldest goes first', () => {
    const { clock, add, take } = setup()
    for (const name of ['x1', 'y1', 'x2', 'z1', 'y2', 'x3']) {
      add(name, { shape: name[0]! })
      clock.advanceBy(1)
    }
    expect([take(), take(), take(), take()]).toEqual([['x1', 'x2', 'x3'], ['y1', 'y2'], ['z1'], undefined])
  })

  it('that are full are not handed ahead of an older one that is not', () => {
    const { clock, add, take } = setup()
    add('old', { shape: 'x' })
    clock.advanceBy(1)
    add('full', { shape: 'y', rows: 4 })
    expect([take(false), take(), take(false)]).toEqual([undefined, ['old'], ['full']])
  })

  it('of shapes that vanished do not accumulate', () => {
    const { batcher, add, take } = setup({ maxQueueDelayMs: 10 })
    const before = queryObjects(Bucket, { format: 'count' })
    for (let size = 0; size < 1000; size++) {
      const [a, b] = [add('a', { shape: `a${size}`, rows: 4 }), add('b', { shape: `b${size}` })]
      if (size % 2 === 0) take()
      else batcher.cancel(a, 'cancelled')
      batcher.cancel(b, 'cancelled')
    }
    expect(batcher.count).toBe(0)
    expect(queryObjects(Bucket, { format: 'count' }) - before).toBeLessThanOrEqual(1)
  })
})

describe('requeue', () => {
  it('puts requests back before those that wait, in their order and buckets', () => {
    const { batcher, clock, add, take } = setup({ maxBatchSize: 2 })
    for (const name of ['a', 'b', 'c']) add(name)
    const batch = batcher.take(true)!.entries
    clock.advanceBy(5)
    add('d', { shape: 'x' })
    batcher.requeue(batch)
    expect([batcher.count, batcher.rows]).toEqual([4, 4])
    expect([take(), take(), take()]).toEqual([['a', 'b'], ['c'], ['d']])
  })

  it('takes their deadlines away', () => {
    const { batcher, clock, exits, add, take } = setup()
    add('a', { timeoutMs: 5 })
    batcher.requeue(batcher.take(true)!.entries)
    clock.advanceBy(100)
    expect([exits, take()]).toEqual([[], ['a']])
  })
})

describe('clear', () => {
  it('drops everything that waits, and leaves a batcher that serves on', () => {
    const { batcher, clock, exits, add, take } = setup()
    add('a', { timeoutMs: 5 })
    add('b', { shape: 'x' })
    batcher.clear('closed')
    expect(exits).toEqual([
      ['a', 'closed', 0],
      ['b', 'closed', 0],
    ])
    expect([batcher.count, batcher.rows, clock.timers, take()]).toEqual([0, 0, 0, undefined])
    add('c')
    expect(take()).toEqual(['c'])
  })
})
