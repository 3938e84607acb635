import { describe, expect, it } from 'vitest'
import type { ModelCapacity } from '../../../src/index.ts'

const example = new URL('../../../examples/job-queue/jobs-to-hold.js', import.meta.url).href
const { jobsToHold } = (await import(example)) as {
  jobsToHold(capacity: ModelCapacity, held: { begun: number; holdMs: number }): number
}
const capacity: ModelCapacity = {
  instances: 2,
  maxBatchSize: 16,
  waiting: 0,
  running: 0,
  free: Infinity,
  requestsPerSecond: 0,
  estimatedMs: 0,
}
const held = { begun: 1000, holdMs: 5000 }

describe('how many jobs a worker holds', () => {
  it('is two full batches for each instance, also before anything has run', () => {
    expect(jobsToHold(capacity, held)).toBe(64)
    expect(jobsToHold({ ...capacity, requestsPerSecond: 1000 }, held)).toBe(64)
  })

  it('is no more than what is done in the time for which jobs may be held', () => {
    expect(jobsToHold({ ...capacity, requestsPerSecond: 4.1 }, held)).toBe(21)
  })

  it('is no more than the places that the queue of the model has, taken or free', () => {
    expect(jobsToHold({ ...capacity, waiting: 3, free: 5 }, held)).toBe(8)
  })

  it('is one more than were begun, as locks of what is only fetched are not renewed', () => {
    expect([0, 1, 63, 64].map((begun) => jobsToHold(capacity, { ...held, begun }))).toEqual([1, 2, 64, 64])
  })

  it('is one for a model of batches of one, while no instance serves, and where nothing fits', () => {
    expect(jobsToHold({ ...capacity, maxBatchSize: 0, instances: 0 }, held)).toBe(2)
    expect(jobsToHold({ ...capacity, requestsPerSecond: 0.01 }, held)).toBe(1)
    expect(jobsToHold({ ...capacity, waiting: 0, free: 0 }, held)).toBe(1)
  })
})
