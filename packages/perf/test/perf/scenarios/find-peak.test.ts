import { describe, expect, it } from 'vitest'
import { findPeak, type PeakSearch } from '../../../src/perf/scenarios/find-peak.ts'
import type { SendSample } from '../../../src/perf/scenarios/run-scenario.ts'
import { resolveScenario, type ScenarioOptions } from '../../../src/perf/scenarios/scenario-settings.ts'
import { KnownService, peakOfFixedService, VirtualLoadClock } from './known-service.ts'

const serviceMs = 2

function peak(
  options: Partial<ScenarioOptions>,
  {
    maxBatchSize = 1,
    ownServiceMs = serviceMs,
    search = {} as PeakSearch,
    signal = undefined as AbortSignal | undefined,
    send = undefined as SendSample | undefined,
  } = {},
) {
  const clock = new VirtualLoadClock()
  const service = new KnownService(clock, ownServiceMs, maxBatchSize)
  const settings = resolveScenario({
    scenario: 'server',
    totalSampleCount: 64,
    minDurationMs: 60_000,
    ...options,
  })
  return clock.runUntil(
    findPeak(settings, { send: send ?? service.send, clock, pacer: clock, signal }, search),
  )
}

describe('the peak of a model with a known service time', () => {
  it.each([
    { times: 3, targetQps: 50 },
    { times: 10, targetQps: 100 },
    { times: 40, targetQps: 1000 },
  ])(
    'is what theory says to within 3 of 100, where the bound is $times times as long and the search begins at $targetQps queries a second',
    async ({ times, targetQps }) => {
      const result = await peak({ targetLatencyMs: times * serviceMs, targetQps })
      const expected = peakOfFixedService(serviceMs, times * serviceMs, 0.99)
      expect(result.peak!.targetQps! / expected).toBeGreaterThan(0.97)
      expect(result.peak!.targetQps! / expected).toBeLessThan(1.03)
      expect(result.mode).toBe('FindPeakPerformance')
      expect(result.constraints.performance).toBe(true)
      expect(result.settings['targetQps']).toBe(result.peak!.targetQps)
    },
  )

  it('is within 3 % of its capacity where it serves in batches and the bound is generous', async () => {
    const result = await peak(
      { targetLatencyMs: 40 * serviceMs, targetQps: 500, minDurationMs: 30_000 },
      { maxBatchSize: 8 },
    )
    const capacity = (8 * 1000) / serviceMs
    expect(result.peak!.targetQps! / capacity).toBeGreaterThan(0.97)
    expect(result.peak!.targetQps! / capacity).toBeLessThan(1.03)
  })

  it('is within 3 % where it is one query a second, of which a tenth of a query is a large part', async () => {
    const result = await peak(
      { targetLatencyMs: 3000, targetQps: 0.1, minDurationMs: 20_000_000 },
      { ownServiceMs: 700 },
    )
    const expected = peakOfFixedService(700, 3000, 0.99)
    expect(expected).toBeLessThan(1.5)
    expect(result.peak!.targetQps! / expected).toBeGreaterThan(0.97)
    expect(result.peak!.targetQps! / expected).toBeLessThan(1.03)
  })

  it('is the same each time, as the seeds are', async () => {
    const options = { targetLatencyMs: 20, targetQps: 300, minDurationMs: 5000 }
    expect(await peak(options)).toEqual(await peak(options))
  })

  it('gives up a rate as soon as it cannot hold, and tries it once more', async () => {
    const { steps } = (await peak({ targetLatencyMs: 20, targetQps: 300, minDurationMs: 20_000 })).peak!
    const [first, second] = steps.filter(({ targetQps }) => targetQps === 600)
    expect(second).toEqual(first)
    expect(first).toMatchObject({ met: false, sure: false, endedEarly: true })
    expect(first!.queryCount).toBeLessThan(1000)
  })

  it('is surer a little below, and told so', async () => {
    const { valid, reasons, peak: found } = await peak({ targetLatencyMs: 3 * serviceMs, targetQps: 50 })
    expect(found!.sureQps).toBeLessThan(found!.targetQps!)
    expect({ valid, reasons }).toEqual({
      valid: false,
      reasons: [
        `early stopping is not sure of the percentile: see its result; it was at a target QPS of ${found!.sureQps}`,
      ],
    })
  })
})

describe('a search', () => {
  it('takes no time for rates that nobody can draw', async () => {
    const { peak: found } = await peak({
      targetLatencyMs: 20,
      targetQps: 1e15,
      minDurationMs: 600_000,
      maxAsyncQueries: 50,
    })
    expect(found!.targetQps).toBeNull()
    expect(found!.steps.every(({ queryCount }) => queryCount <= 52)).toBe(true)
  })

  it('halves a first rate that does not hold', async () => {
    const { peak: found } = await peak({ targetLatencyMs: 20, targetQps: 3000, minDurationMs: 10_000 })
    expect(found!.steps.filter(({ targetQps }) => targetQps > 600).every(({ met }) => !met)).toBe(true)
    expect(found!.targetQps).toBeGreaterThan(300)
  })

  it('ends by the decimals of LoadGen where those are reached first, at one attempt as LoadGen has it', async () => {
    const { peak: found } = await peak(
      { targetLatencyMs: 20, targetQps: 300, minDurationMs: 2000 },
      { search: { decimals: -1, precision: 1e-9, attempts: 1 } },
    )
    const tooHigh = Math.min(...found!.steps.filter(({ met }) => !met).map(({ targetQps }) => targetQps))
    expect(Math.floor(tooHigh / 10) - Math.floor(found!.targetQps! / 10)).toBe(1)
    expect(new Set(found!.steps.map(({ targetQps }) => targetQps)).size).toBe(found!.steps.length)
  })

  it('finds nothing where the bound is below the service time, and says why', async () => {
    const {
      valid,
      reasons,
      peak: found,
    } = await peak({ targetLatencyMs: 1, targetQps: 100, minDurationMs: 100, minQueryCount: 20 })
    expect(found).toMatchObject({ targetQps: null, sureQps: null })
    expect(valid).toBe(false)
    expect(reasons[0]).toMatch(
      /^the 99.0th percentile of latency is .* ms, the bound 1 ms: reduce the target QPS$/,
    )
  })

  it('takes a rate at which requests fail for too high', async () => {
    const { peak: found, failures } = await peak(
      { targetLatencyMs: 20, targetQps: 100, minDurationMs: 100 },
      { send: () => Promise.reject(Object.assign(new Error('full'), { code: 'ERR_QUEUE_FULL' })) },
    )
    expect(found!.targetQps).toBeNull()
    expect(Object.keys(failures)).toEqual(['ERR_QUEUE_FULL'])
  })

  it('tells of each run, and ends when it is told to', async () => {
    const controller = new AbortController()
    const told: number[] = []
    const onStep = ({ targetQps }: { targetQps: number }) => {
      told.push(targetQps)
      if (told.length === 2) controller.abort()
    }
    const { reasons, valid } = await peak(
      { targetLatencyMs: 20, targetQps: 50, minDurationMs: 1000 },
      { signal: controller.signal, search: { onStep } },
    )
    expect(told).toEqual([50, 100])
    expect(valid).toBe(false)
    expect(reasons[0]).toBe('it was ended by the user')
  })
})
