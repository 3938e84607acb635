import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costWindow } from '../../src/schedule/batch-by-cost.ts'
import { costOf, ownCostOf, setupCosts, type Costed } from './costed.ts'

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
