import { describe, expect, it } from 'vitest'
import { setupCosts } from './costed.ts'

describe('a queue whose batches are limited by what they cost', () => {
  it('joins those of about the length of the oldest, and serves the others next', () => {
    const { add, take } = setupCosts({ maxBatchCost: 1000 })
    for (const length of [40, 5, 39, 41, 5, 200]) add(length)
    expect(take()).toEqual(['bucket', 40, 39, 41])
    expect(take()).toEqual(['bucket', 5, 5])
    expect(take()).toEqual(['idle', 200])
    expect(take()).toBeUndefined()
  })

  it('counts the longest times the rows against the budget', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 })
    for (const length of [30, 30, 30, 30]) add(length)
    expect(take()).toEqual(['cost', 30, 30, 30])
    expect(take()).toEqual(['idle', 30])
  })

  it('counts all rows of a request', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 })
    add(20, { rows: 3 })
    add(20, { rows: 3 })
    expect(take()).toEqual(['cost', 20])
    expect(take()).toEqual(['idle', 20])
  })

  it('counts the sum, in the order of arrival, where nothing is padded', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100, isPadded: false })
    for (const length of [10, 60, 30, 1]) add(length)
    expect(take()).toEqual(['cost', 10, 60, 30])
    expect(take()).toEqual(['idle', 1])
  })

  it('runs a request alone that is dearer than the budget', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 })
    for (const length of [500, 1, 490]) add(length)
    expect([take(), take(), take()].map((batch) => batch!.slice(1))).toEqual([[500], [1], [490]])
  })

  it('keeps what costs as much as a number can be to itself', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 })
    for (const length of [3, 3, Number.MAX_VALUE, Number.MAX_VALUE]) add(length)
    expect([take(), take(), take()].map((batch) => batch!.slice(1))).toEqual([
      [3, 3],
      [Number.MAX_VALUE],
      [Number.MAX_VALUE],
    ])
  })

  it('keeps to the largest number of rows besides', () => {
    const { add, take } = setupCosts({ maxBatchCost: 1000 }, { maxBatchSize: 2 })
    for (const length of [7, 7, 7]) add(length)
    expect(take()).toEqual(['full', 7, 7])
  })

  it('serves requests of equal length in the order of arrival', () => {
    const { add, queue } = setupCosts({ maxBatchCost: 20 })
    for (let count = 0; count < 7; count++) add(10)
    const served = [queue.take(true), queue.take(true), queue.take(true), queue.take(true)].flatMap((batch) =>
      batch!.entries.map(({ id }) => id),
    )
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6])
  })

  it('hands a batch to a busy instance once enough waits for the budget, whatever the oldest goes with', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 })
    add(7)
    for (const length of [40, 40]) add(length)
    expect(take(false)).toBeUndefined()
    add(40)
    expect(take(false)).toEqual(['bucket', 7])
    expect(take(false)).toEqual(['cost', 40, 40])
    expect(take(false)).toBeUndefined()
    expect(take()).toEqual(['idle', 40])
  })

  it('waits for more of its kind while there is a delay and less than a batch waits', () => {
    const { clock, add, take } = setupCosts({ maxBatchCost: 100 }, { maxQueueDelayMs: 5 })
    add(20)
    add(3)
    expect(take()).toBeUndefined()
    clock.advanceBy(5)
    expect(take()).toEqual(['delay', 20])
  })

  it('does not wait when enough for a batch does', () => {
    const { add, take } = setupCosts({ maxBatchCost: 100 }, { maxQueueDelayMs: 5 })
    add(3)
    for (const length of [50, 50]) add(length)
    expect(take()).toEqual(['bucket', 3])
    expect(take()).toEqual(['cost', 50, 50])
  })

  it('lets a lower level in only when all of the higher ones are', () => {
    const { add, take } = setupCosts({ maxBatchCost: 1000 }, { priorityLevels: 2 })
    add(10, { priority: 2 })
    add(40, { priority: 1 })
    add(10, { priority: 1 })
    expect(take()).toEqual(['bucket', 40])
    expect(take()).toEqual(['idle', 10, 10])
  })

  it('takes requests back in their order', () => {
    const { queue, add, take } = setupCosts({ maxBatchCost: 100 })
    for (const length of [30, 2, 30, 30, 30]) add(length)
    const ahead = queue.take(false)!
    expect(ahead.entries.map(({ id }) => id)).toEqual([0, 2, 3])
    queue.putBack(ahead.entries)
    expect(take()).toEqual(['cost', 30, 30, 30])
    expect(take()).toEqual(['bucket', 2])
    expect(take()).toEqual(['idle', 30])
  })

  it('serves the oldest next also when younger ones were put back before it', () => {
    const { queue, add, take } = setupCosts({ maxBatchCost: 60 })
    for (const length of [30, 5, 30]) add(length)
    const ahead = queue.take(false)!
    queue.putBack(ahead.entries)
    queue.cancel(ahead.entries[0]!, 'cancelled')
    expect(take()).toEqual(['bucket', 5])
    expect(take()).toEqual(['idle', 30])
  })

  it('overtakes nobody with what came too long after', () => {
    const { add, queue } = setupCosts({ maxBatchCost: 1e6 }, { maxBatchSize: 8 })
    const long = [add(1000), add(100)]
    for (let count = 0; count < 200; count++) add(1000)
    const batches: number[][] = []
    while (long[1]!.line !== null) batches.push(queue.take(true)!.entries.map(({ id }) => id))
    expect(batches[1]).toEqual([1])
    expect(Math.max(...batches.flat())).toBeLessThan(1 + 8 * 8)
  })
})
