import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costWindow } from '../../src/schedule/batch-by-cost.ts'
import { type Costed, costOf, ownCostOf, setupCosts } from './costed.ts'

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

type Step =
  | {
      readonly do: 'arrive'
      readonly length: number
      readonly rows: number
      readonly priority: number
      readonly timeoutMs: number
    }
  | { readonly do: 'take'; readonly idle: boolean }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'cancel'; readonly of: number }
  | { readonly do: 'putBack' }

const arrive = fc.record({
  do: fc.constant('arrive' as const),
  length: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 100, max: 500 })),
  rows: fc.integer({ min: 1, max: 3 }),
  priority: fc.integer({ min: 1, max: 2 }),
  timeoutMs: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 30 })),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: arrive },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('take' as const), idle: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 20 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), of: fc.nat(300) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('putBack' as const) }) },
)
const world = fc.record({
  maxBatchSize: fc.integer({ min: 3, max: 16 }),
  maxBatchCost: fc.oneof(fc.constant(Infinity), fc.integer({ min: 50, max: 1500 })),
  maxPaddingShare: fc.constantFrom(0, 0.1, 0.5, 1),
  isPadded: fc.boolean(),
  maxQueueDelayMs: fc.constantFrom(0, 5),
  steps: fc.array(step, { minLength: 1, maxLength: 250 }),
})

/** Runs a world; every batch is checked as it is taken, every request at the end. */
function live({
  steps,
  maxQueueDelayMs,
  maxBatchSize,
  ...costs
}: typeof world extends fc.Arbitrary<infer World> ? World : never): void {
  const { clock, queue, add } = setupCosts(costs, { maxBatchSize, maxQueueDelayMs, priorityLevels: 2 })
  const all: Costed[] = []
  /** Those that wait, in the order of arrival. */
  let waiting: Costed[] = []
  const overtakenBy = new Map<Costed, number>()
  let handedAhead: Costed[] | null = null

  const levelOf = ({ level }: Costed) => level.level
  const take = (idle: boolean): boolean => {
    const formed = queue.take(idle)
    waiting = waiting.filter(({ fate }) => fate === null)
    if (formed === null) return false
    const batch = formed.entries
    const rows = batch.reduce((sum, request) => sum + request.rows, 0)
    const cost = costOf(batch, costs.isPadded)
    expect(rows).toBeLessThanOrEqual(maxBatchSize)
    if (batch.length > 1) {
      expect(cost).toBeLessThanOrEqual(costs.maxBatchCost)
      expect(cost - ownCostOf(batch)).toBeLessThanOrEqual(costs.maxPaddingShare * cost + 1e-9)
    }
    for (const { timeoutAtMs } of batch) expect(timeoutAtMs ?? Infinity).toBeGreaterThan(clock.nowMs())
    // The oldest of the highest level that waits always goes.
    const highest = Math.min(...waiting.map(levelOf))
    expect(batch).toContain(waiting.find((request) => levelOf(request) === highest))
    const left = waiting.filter((request) => !batch.includes(request))
    // Nobody goes while one of a higher level is left.
    const lowest = Math.max(...batch.map(levelOf))
    expect(left.filter((request) => levelOf(request) < lowest)).toEqual([])
    for (const request of left) {
      const overtaking = batch.filter((other) => levelOf(other) === levelOf(request) && other.id > request.id)
      // Whatever comes of it, none that came so long after goes first, and of equal length none at all.
      for (const other of overtaking) expect(other.id - request.id).toBeLessThan(costWindow(maxBatchSize))
      if (costs.isPadded) expect(overtaking.filter(({ length }) => length === request.length)).toEqual([])
      overtakenBy.set(request, (overtakenBy.get(request) ?? 0) + overtaking.length)
    }
    waiting = left
    if (!idle && handedAhead === null) handedAhead = batch
    else {
      queue.started(batch)
      for (const request of batch) settle(request)
    }
    return true
  }
  const settle = (request: Costed): void => {
    expect(request.fate).toBeNull()
    request.fate = 'result'
  }
  const putBack = (): void => {
    if (handedAhead === null) return
    queue.putBack(handedAhead)
    for (const request of handedAhead) overtakenBy.delete(request)
    waiting = [...waiting, ...handedAhead].sort((a, b) => a.id - b.id)
    handedAhead = null
  }

  for (const next of steps) {
    if (next.do === 'arrive') {
      const request = add(next.length, next)
      all.push(request)
      waiting.push(request)
    } else if (next.do === 'take') {
      if (handedAhead !== null) putBack() // an idle instance takes back what was handed ahead
      take(next.idle)
    } else if (next.do === 'wait') {
      if (handedAhead !== null) putBack()
      clock.advanceBy(next.ms)
    } else if (next.do === 'cancel') {
      const request = all[next.of]
      if (request !== undefined && request.fate === null && !request.ahead) queue.cancel(request, 'cancelled')
    } else putBack()
    waiting = waiting.filter(({ fate }) => fate === null)
  }
  putBack()
  // An idle instance that goes on taking ends with nothing left: nobody waits for ever.
  queue.drain()
  let batches = 0
  const left = waiting.length
  while (take(true)) batches++
  expect(batches).toBeLessThanOrEqual(left)
  expect(queue.count).toBe(0)
  for (const { fate } of all) expect(fate).not.toBeNull()
  for (const [, count] of overtakenBy) expect(count).toBeLessThan(costWindow(maxBatchSize))
}

describe('whatever comes', () => {
  it('keeps batches to their budget, takes the oldest, and settles every request once', () => {
    fc.assert(fc.property(world, live), { numRuns: 300 })
  })
})
