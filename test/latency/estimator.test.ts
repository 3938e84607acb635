import { describe, expect, it } from 'vitest'
import { Estimator, RunTimes } from '../../src/schedule/estimates.ts'

it('a request is estimated at 0 ms, which says that nobody can tell, when no instance is left', () => {
  const runTimes = new RunTimes()
  runTimes.observe('', 1, 5)
  const limits = { maxBatchSize: 32, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
  const times = new Estimator(runTimes, { limits, latencyTargetMs: 0, instances: 1, weight: 1 })
  expect(times.estimatedAnswerMs('', 1, 0, [], 0)).toBe(0)
  expect(times.estimatedAnswerMs('', 1, 100, [], 0)).toBe(0)
  expect(
    times.estimatedAnswerMs('', 1, 0, [{ worker: { freeInMs: 0, sharing: () => 1 } }], 0),
  ).toBeGreaterThan(5)
})

describe('where all that is under way fits one batch', () => {
  const limits = { maxBatchSize: 64, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
  const request = { bucketKey: '', deadlineAtMs: null }

  /** Batches of 64, each taken half a millisecond after the one before it. */
  function ran(times: Estimator, requests = [request, request]): boolean {
    for (let run = 0; run < 100; run++) {
      const startMs = run + 0.5
      if (
        times.observe(
          { requests, rows: 64, timeline: { takenAtMs: startMs, startMs, inferEndMs: run + 1 } },
          0,
          0,
          run + 1,
        )
      )
        return true
    }
    return false
  }

  it('batches are to have half of it', () => {
    const times = new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1 })
    expect([times.sizer?.limits(''), times.divides]).toEqual([limits, false])
    expect(ran(times)).toBe(true)
    expect([times.sizer?.limits(''), times.divides]).toEqual([{ ...limits, preferredBatchSizes: [32] }, true])
  })

  it('it stays as it is where it is one request', () => {
    expect(
      ran(new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1 }), [request]),
    ).toBe(false)
  })

  it('it stays as it is where its requests have slots', () => {
    expect(
      new Estimator(new RunTimes(), {
        limits,
        latencyTargetMs: 0,
        instances: 1,
        weight: 1,
        isCapped: false,
        isDivisible: false,
      }).sizer,
    ).toBeNull()
  })

  it('batches have the size that a latency target, or a search for the best one, gives them', () => {
    const [targeted, searched] = [
      new Estimator(new RunTimes(), { limits, latencyTargetMs: 1000, instances: 1, weight: 1 }),
      new Estimator(new RunTimes(), { limits, latencyTargetMs: 0, instances: 1, weight: 1, isCapped: true }),
    ]
    ran(targeted)
    expect(targeted.sizer).toBe(targeted.target)
    expect(ran(searched)).toBe(false)
    expect(searched.sizer).toBe(searched.cap)
  })
})
