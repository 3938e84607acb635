import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WaitingRequest } from '../../src/queue/waiting-request.ts'
import { Expiries } from '../../src/queue/expiries.ts'
import { PriorityLevel } from '../../src/queue/priority-levels.ts'
import { noPolicy } from './recorder.ts'

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
          const expected = waiting.filter(({ timeoutAtMs }) => timeoutAtMs! <= nowMs).map(({ timeoutAtMs }) => timeoutAtMs!)
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
    fc.assert(property, { numRuns: 3000 })
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
