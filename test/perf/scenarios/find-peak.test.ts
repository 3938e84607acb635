import { describe, expect, it } from 'vitest'
import { findPeak } from '../../../src/perf/scenarios/find-peak.ts'
import { resolveScenario } from '../../../src/perf/scenarios/scenario-settings.ts'
import { KnownService, peakOfFixedService, VirtualLoadClock } from './known-service.ts'

async function peak(service: { serviceMs: number; maxBatchSize?: number }, boundMs: number, targetQps: number, minDurationMs = 60_000) {
  const clock = new VirtualLoadClock()
  const { send } = new KnownService(clock, service.serviceMs, service.maxBatchSize)
  const settings = resolveScenario({ scenario: 'server', totalSampleCount: 64, minDurationMs, targetLatencyMs: boundMs, targetQps })
  return clock.runUntil(findPeak(settings, { send, clock, pacer: clock }))
}

describe('the peak of a model with a known service time', () => {
  it.each([
    [10, 1],
    [40, 1],
    [3, 50],
  ])('is found within 3 % where the bound is %d times as long and the search begins at %d queries a second', async (times, targetQps) => {
    const result = await peak({ serviceMs: 2 }, 2 * times, targetQps)
    const expected = peakOfFixedService(2, 2 * times, 0.99)
    expect(result.settings['targetQps']).toBeGreaterThan(0.97 * expected)
    expect(result.settings['targetQps']).toBeLessThan(1.03 * expected)
  })
})
