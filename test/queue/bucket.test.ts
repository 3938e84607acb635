import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Bucket } from '../../src/schedule/buckets.ts'
import { WaitingRequest, PriorityLevel } from '../../src/request/infer-request.ts'
import { noPolicy } from './recorder.ts'
import { repetitions } from '../support/full.ts'

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
