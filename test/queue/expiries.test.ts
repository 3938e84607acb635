import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WaitingRequest, PriorityLevel } from '../../src/request/infer-request.ts'
import { Expiries } from '../../src/schedule/expiries.ts'
import { noPolicy } from './recorder.ts'
import { repetitions } from '../support/full.ts'

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
