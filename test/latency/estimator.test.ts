import { expect, it } from 'vitest'
import { Estimator } from '../../src/latency/estimator.ts'
import { RunTimes } from '../../src/latency/run-times.ts'

it('a request is estimated at 0 ms, which says that nobody can tell, when no instance is left', () => {
  const runTimes = new RunTimes()
  runTimes.observe('', 1, 5)
  const limits = { maxBatchSize: 32, preferredBatchSizes: [], maxQueueDelayMs: 0, joinRequests: true }
  const times = new Estimator(runTimes, limits, 0, 1, 1)
  expect(times.estimatedAnswerMs('', 1, 0, [], 0)).toBe(0)
  expect(times.estimatedAnswerMs('', 1, 100, [], 0)).toBe(0)
  expect(times.estimatedAnswerMs('', 1, 0, [{ worker: { freeInMs: 0, sharing: () => 1 } }], 0)).toBeGreaterThan(5)
})
