import { describe, expect, it } from 'vitest'
import { SafetyFactor } from '../../src/schedule/estimates.ts'
import { WaitingRequest, PriorityLevel } from '../../src/request/infer-request.ts'
import { mulberry32 } from '../models/random.ts'
import { noPolicy } from '../queue/recorder.ts'

const level = new PriorityLevel(0, noPolicy)
const nowMs = 1000

/** Requests answered at {@link nowMs} with these deadlines. */
const batch = (...deadlinesMs: readonly (number | null)[]) =>
  deadlinesMs.map((deadlineMs) =>
    Object.assign(new WaitingRequest(1, '', level), { deadlineAtMs: deadlineMs }),
  )

describe('SafetyFactor', () => {
  it('grows with requests that are late or dropped, and shrinks a little with those in time', () => {
    const caution = new SafetyFactor()
    caution.answered(batch(nowMs, nowMs + 1), nowMs)
    const { factor } = caution
    expect(factor).toBeLessThan(1)
    caution.answered(batch(nowMs - 1, nowMs + 1), nowMs)
    expect(caution.factor / factor - 1).toBeGreaterThan(20 * (1 - factor))
    const before = caution.factor
    caution.dropped()
    caution.answered(batch(nowMs + 1), nowMs)
    expect(caution.factor).toBeGreaterThan(before)
  })

  it('learns nothing from requests without a deadline', () => {
    const caution = new SafetyFactor()
    caution.answered(batch(null, null), nowMs)
    expect(caution.factor).toBe(1)
  })

  it('settles where fewer than one of 100 is late', () => {
    const caution = new SafetyFactor()
    const random = mulberry32(1)
    let [late, all] = [0, 0]
    for (let run = 0; run < 100_000; run++) {
      // Late with a chance of 1 in 10 at a factor of 1, 1 in 100 at 2.
      const isLate = random() < 10 ** -caution.factor
      caution.answered(batch(isLate ? nowMs - 1 : nowMs + 1), nowMs)
      if (run < 10_000) continue
      all++
      if (isLate) late++
    }
    expect(late / all).toBeGreaterThan(0.006)
    expect(late / all).toBeLessThan(0.009)
  })

  it('stays within bounds, so that it comes back from a time in which all was late', () => {
    const caution = new SafetyFactor()
    for (let run = 0; run < 1000; run++) caution.answered(batch(0), nowMs)
    expect(caution.factor).toBe(4)
    for (let run = 0; run < 10_000; run++) caution.answered(batch(nowMs + 1), nowMs)
    expect(caution.factor).toBe(0.5)
  })
})
