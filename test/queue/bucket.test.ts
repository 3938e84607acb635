import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PriorityLevel } from '../../src/request/infer-request.ts'
import { WaitingRequest } from './waiting-request.ts'
import { Bucket } from '../../src/schedule/buckets.ts'
import { seen } from '../latency/seen.ts'
import { repetitions } from '../support/full.ts'
import { type Named, noPolicy, setup } from './recorder.ts'

const limits = { maxBatchSize: 8, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }

function entryOf(rows: number, level: number, delayed: boolean): WaitingRequest {
  const entry = new WaitingRequest(rows, '', new PriorityLevel(level, noPolicy))
  entry.delayed = delayed
  return entry
}

/** Where a request is served among others: by level, within a level those not delayed first. */
const rankOf = ({ level, delayed }: WaitingRequest) => 2 * level.level + Number(delayed)

const areSame = (a: readonly WaitingRequest[], b: readonly WaitingRequest[]) =>
  a.length === b.length && a.every((entry, index) => entry === b[index])

/** A bucket as a plain sorted list. */
class Model {
  entries: WaitingRequest[] = []

  push(entry: WaitingRequest): void {
    const behind = this.entries.findIndex((other) => rankOf(other) > rankOf(entry))
    this.entries.splice(behind < 0 ? this.entries.length : behind, 0, entry)
  }

  unshift(entry: WaitingRequest): void {
    const behind = this.entries.findIndex((other) => rankOf(other) >= rankOf(entry))
    this.entries.splice(behind < 0 ? this.entries.length : behind, 0, entry)
  }

  front(maxRows: number): WaitingRequest[] {
    let rows = 0
    const tooMany = this.entries.findIndex((entry) => (rows += entry.rows) > maxRows)
    return this.entries.slice(0, tooMany < 0 ? undefined : tooMany + 1)
  }
}

const request = fc.record({
  rows: fc.integer({ min: 0, max: 4 }),
  level: fc.constantFrom(1, 2, 2 ** 32),
  delayed: fc.boolean(),
})
const step = fc.oneof(
  fc.record({ kind: fc.constantFrom('push', 'unshift'), request, times: fc.integer({ min: 1, max: 300 }) }),
  fc.record({ kind: fc.constant('remove'), picks: fc.array(fc.nat(), { maxLength: 300 }) }),
  fc.record({ kind: fc.constant('take'), maxRows: fc.integer({ min: 0, max: 600 }) }),
)

describe('A bucket', () => {
  it('serves by rank and within a rank in the order of arrival, whatever comes before, behind, and leaves between', () => {
    const property = fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const bucket = new Bucket<WaitingRequest>('', limits)
      const model = new Model()
      const leave = (entry: WaitingRequest) => {
        bucket.remove(entry)
        model.entries.splice(model.entries.indexOf(entry), 1)
        expect(entry.line).toBeNull()
      }
      for (const each of steps) {
        if ('times' in each) {
          const { rows, level, delayed } = each.request
          for (let count = 0; count < each.times; count++) {
            const entry = entryOf(rows, level, delayed)
            for (const queue of [bucket, model])
              void (each.kind === 'push' ? queue.push(entry) : queue.unshift(entry))
          }
        } else if ('picks' in each) {
          for (const pick of each.picks)
            if (model.entries.length > 0) leave(model.entries[pick % model.entries.length]!)
        } else {
          for (const entry of model.front(each.maxRows)) leave(entry)
        }
        expect(areSame(bucket.front(20), model.front(20))).toBe(true)
        expect(areSame(bucket.front(Infinity), model.entries)).toBe(true)
        expect(bucket.head).toBe(model.entries[0] ?? null)
        expect([bucket.count, bucket.rows]).toEqual([
          model.entries.length,
          model.entries.reduce((sum, { rows }) => sum + rows, 0),
        ])
      }
    })
    fc.assert(property, { numRuns: repetitions(300, 60) })
  })

  it('keeps no place for requests that have left before one that stays', () => {
    const bucket = new Bucket<WaitingRequest>('', limits)
    const [first, last] = [entryOf(1, 1, false), entryOf(1, 1, false)]
    bucket.push(first)
    for (let count = 0; count < 100_000; count++) {
      const goes = entryOf(1, 1, false)
      bucket.push(goes)
      bucket.remove(goes)
    }
    bucket.push(last)
    expect(last.position - first.position).toBeLessThan(200)
    expect(areSame(bucket.front(8), [first, last])).toBe(true)
  })
})

/** A queue in which requests wait that are not ready yet. */
function unready(
  options: Parameters<typeof setup>[0] = {},
  levels: Parameters<typeof setup>[1] = {},
  runTimes: Parameters<typeof setup>[2] = null,
) {
  const all = setup(options, levels, runTimes)
  const hold = (...given: Parameters<typeof all.make>): Named => {
    const entry = all.make(...given)
    entry.unready = true
    all.batcher.hold(entry, all.clock.nowMs())
    return entry
  }
  const ready = (entry: Named) => all.batcher.ready(entry, all.clock.nowMs())
  return { ...all, hold, ready }
}

describe('a request that is not ready', () => {
  it('counts as waiting, and keeps none behind it from being sent', () => {
    const { batcher, levels, hold, ready, add, take } = unready()
    const first = hold('first', { rows: 2 })
    add('second')
    const level = levels.of(undefined)
    expect([batcher.count, level.waiting, levels.rowsAhead(level), levels.rowsAhead(level, true)]).toEqual([
      2, 2, 1, 3,
    ])
    expect(take()).toEqual(['second'])
    ready(first)
    expect([batcher.count, levels.rowsAhead(level), levels.rowsAhead(level, true)]).toEqual([1, 2, 2])
    expect([take(), level.waiting]).toEqual([['first'], 0])
  })

  it('goes before all that came after it once it is', () => {
    const { hold, ready, add, take } = unready({ maxBatchSize: 16 })
    add('a')
    const b = hold('b')
    add('c')
    const d = hold('d')
    add('e')
    ready(d)
    ready(b)
    expect(take()).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('finds its place among many of which some have left', () => {
    const { batcher, hold, ready, add, take } = unready({ maxBatchSize: 100 })
    const names = Array.from({ length: 60 }, (_, at) => String(at))
    const held: Named[] = []
    const added: Named[] = []
    for (const [at, name] of names.entries())
      if (at % 3 === 1) held.push(hold(name))
      else added.push(add(name))
    for (const at of [0, 5, 11, 39]) batcher.cancel(added[at]!, 'cancelled')
    for (const entry of held.toReversed()) ready(entry)
    const gone = [0, 5, 11, 39].map((at) => added[at]!.name)
    // In the order of the calls: those added came after those held before them in the loop.
    expect(take()).toEqual(names.filter((name) => !gone.includes(name)))
  })

  it('goes behind what is left of a batch that came back', () => {
    const { batcher, hold, ready, add, take } = unready({ maxBatchSize: 2 })
    const [a, c] = [add('a'), add('c')]
    const b = hold('b')
    expect(take()).toEqual(['a', 'c'])
    batcher.putBack([a, c])
    ready(b)
    expect([take(), take()]).toEqual([['a', 'c'], ['b']])
  })

  it('has its delay counted from when it is, and its timeout from when it came', () => {
    const { clock, exits, hold, ready, take } = unready({ maxQueueDelayMs: 10 })
    const [one, other] = [hold('one'), hold('other', { timeoutMs: 30 })]
    clock.advanceBy(25)
    ready(one)
    ready(other)
    expect(take()).toBeUndefined()
    clock.advanceBy(4)
    expect(take()).toBeUndefined()
    clock.advanceBy(1)
    expect(exits).toEqual([['other', 'timeout', 30]])
    clock.advanceBy(5)
    expect(take()).toEqual(['one'])
  })

  it('is dropped instead of being made ready when its run would end too late', () => {
    const { batcher, clock, exits, hold } = unready({}, {}, seen({ 1: 20 }))
    const entry = hold('late', { deadlineMs: 30 })
    expect([batcher.expires(entry, 0), batcher.expires(hold('slow', { deadlineMs: 30 }), 11)]).toEqual([
      false,
      true,
    ])
    clock.advanceBy(11)
    expect(batcher.expires(entry, 0)).toBe(true)
    expect(exits).toEqual([
      ['slow', 'deadline', 0],
      ['late', 'deadline', 11],
    ])
  })

  it('is delayed behind the others of its level where that is what a timeout does', () => {
    const { clock, hold, ready, add, take } = unready(
      {},
      {
        defaultPolicy: { ...noPolicy, timeoutAction: 'DELAY', allowTimeoutOverride: true },
      },
    )
    const entry = hold('delayed', { timeoutMs: 5 })
    clock.advanceBy(6)
    add('later')
    ready(entry)
    expect(take()).toEqual(['later', 'delayed'])
  })
})
