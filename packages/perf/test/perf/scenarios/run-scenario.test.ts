import { describe, expect, it } from 'vitest'
import { runScenario, type SendSample } from '../../../src/perf/scenarios/run-scenario.ts'
import { resolveScenario, type ScenarioOptions } from '../../../src/perf/scenarios/scenario-settings.ts'
import { KnownService, VirtualLoadClock } from './known-service.ts'

type Options = Partial<ScenarioOptions> & Pick<ScenarioOptions, 'scenario'>

/** Runs a scenario in virtual time, by default on a server of 10 ms. */
function run(
  options: Options,
  {
    serviceMs = 10,
    maxBatchSize = 1,
    signal = undefined as AbortSignal | undefined,
    wrap = (send: SendSample, _clock: VirtualLoadClock) => send,
  } = {},
) {
  const clock = new VirtualLoadClock()
  const { send } = new KnownService(clock, serviceMs, maxBatchSize)
  const asked: number[] = []
  const noted: SendSample = (sample) => {
    asked.push(sample)
    return wrap(send, clock)(sample)
  }
  const settings = resolveScenario({
    totalSampleCount: 64,
    minDurationMs: 1000,
    minQueryCount: 1,
    ...options,
  })
  return clock
    .runUntil(runScenario(settings, { send: noted, clock, pacer: clock, signal }))
    .then((result) => ({ ...result, asked }))
}

describe('single-stream', () => {
  it('asks for one sample after the other until its minimum of time and queries is reached', async () => {
    const byTime = await run({ scenario: 'single-stream' })
    // The query that is sent after 1000 ms is the last.
    expect(byTime).toMatchObject({
      queryCount: 101,
      sampleCount: 101,
      valid: true,
      reasons: [],
      constraints: { performance: null, minDuration: true, minQueries: true, earlyStopping: true },
    })
    expect(byTime.metric).toEqual({
      name: '90.0th percentile latency',
      value: expect.closeTo(10_000, 3),
      unit: 'us',
    })
    const byCount = await run({ scenario: 'single-stream', minQueryCount: 150 })
    expect(byCount.queryCount).toBe(150)
  })

  it('is not valid with fewer queries than early stopping takes', async () => {
    const { valid, reasons, earlyStopping } = await run({
      scenario: 'single-stream',
      minDurationMs: 0,
      minQueryCount: 63,
    })
    expect({ valid, reasons }).toEqual({
      valid: false,
      reasons: ['early stopping is not sure of the percentile: see its result'],
    })
    expect(earlyStopping).toEqual({
      satisfied: false,
      estimates: [],
      lines: [' * Only processed 63 queries.', ' * Need to process at least 64 queries for early stopping.'],
    })
  })

  it('ends at a maximum of queries or of time before its minimum, and is not valid then', async () => {
    const byCount = await run({ scenario: 'single-stream', maxQueryCount: 70 })
    expect(byCount).toMatchObject({
      queryCount: 70,
      valid: false,
      reasons: ['it lasted less than the minimum of 1000 ms'],
    })
    const byTime = await run({ scenario: 'single-stream', maxDurationMs: 695, minQueryCount: 100 })
    expect(byTime).toMatchObject({
      queryCount: 71,
      reasons: [
        'it lasted less than the minimum of 1000 ms',
        'it has 71 queries, fewer than the 100 asked for',
      ],
    })
  })

  it('asks for each sample once with unique inputs, and for one alone with the same', async () => {
    const unique = await run({
      scenario: 'single-stream',
      inputs: 'unique',
      minDurationMs: 0,
      minQueryCount: 1000,
    })
    expect([...unique.asked].sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, index) => index))
    const same = await run({ scenario: 'single-stream', inputs: 'same' })
    expect(new Set(same.asked).size).toBe(1)
    expect(same.belowMlperf).toContain('inputs same')
  })

  it('counts what fails by its code, goes on, and is not valid', async () => {
    const wrap =
      (send: SendSample): SendSample =>
      (sample) =>
        sample % 16 === 0
          ? Promise.reject(Object.assign(new Error('no'), { code: 'ERR_EXECUTION' }))
          : send(sample)
    const { failures, reasons, sampleCount, queryCount, valid } = await run(
      { scenario: 'single-stream' },
      { wrap },
    )
    expect(queryCount - sampleCount).toBe(failures['ERR_EXECUTION'])
    expect(failures['ERR_EXECUTION']).toBeGreaterThan(0)
    expect(sampleCount).toBeGreaterThan(90)
    expect({ valid, reasons }).toEqual({
      valid: false,
      reasons: [`samples were not answered: ${failures['ERR_EXECUTION']} ERR_EXECUTION`],
    })
  })

  it('lets the event loop have its turn where every answer is there at once', async () => {
    const controller = new AbortController()
    // Nothing but what comes in a turn of its own ends it.
    const wrap = (_send: SendSample, clock: VirtualLoadClock): SendSample => {
      if (clock.nowMs() === 0) clock.setTimer(() => controller.abort(), 0)
      clock.advanceTo(clock.nowMs() + 1)
      return () => Promise.resolve()
    }
    const { queryCount, reasons } = await run(
      { scenario: 'single-stream', minDurationMs: 1e9 },
      { wrap, signal: controller.signal },
    )
    expect(queryCount).toBeLessThan(20)
    expect(reasons[0]).toBe('it was ended by the user')
  })
})

describe('multi-stream', () => {
  it('asks for eight samples at once, and counts until the last of them is answered', async () => {
    const { latency, metric, queryCount, sampleCount, asked } = await run({
      scenario: 'multi-stream',
      minQueryCount: 700,
    })
    expect({ queryCount, sampleCount, asked: asked.length }).toEqual({
      queryCount: 700,
      sampleCount: 5600,
      asked: 5600,
    })
    expect(metric).toEqual({
      name: '99.0th percentile latency',
      value: expect.closeTo(80_000, 3),
      unit: 'us',
    })
    expect(latency.minUs).toBeCloseTo(80_000, 3)
  })
})

describe('server', () => {
  it('counts from when a query was scheduled, and what comes during a stall with it', async () => {
    const { latency, overLatencyCount, valid, scheduledPerSecond } = await run(
      { scenario: 'server', targetQps: 100, targetLatencyMs: 100, minDurationMs: 10_000 },
      {
        serviceMs: 1,
        wrap: (send, clock) =>
          clock.nowMs() > 5000 && clock.nowMs() < 5500
            ? (sample) =>
                new Promise<void>((resolve) => clock.setTimer(resolve, 5500 - clock.nowMs())).then(() =>
                  send(sample),
                )
            : send,
      },
    )
    expect(scheduledPerSecond).toBeGreaterThan(95)
    expect(scheduledPerSecond).toBeLessThan(105)
    expect(latency.p50Us).toBeLessThan(2000)
    expect(latency.p99Us).toBeGreaterThan(350_000)
    expect(overLatencyCount).toBeGreaterThan(25)
    expect(valid).toBe(false)
  })

  it('sends what is due without waiting for answers', async () => {
    const { queryCount, completedPerSecond, scheduledPerSecond } = await run({
      scenario: 'server',
      targetQps: 200,
      minDurationMs: 2000,
    })
    expect(queryCount).toBeGreaterThan(350)
    expect(scheduledPerSecond).toBeGreaterThan(180)
    expect(completedPerSecond).toBeLessThan(100.5)
  })

  it('ends when more queries wait than may', async () => {
    const { queryCount, reasons } = await run({ scenario: 'server', targetQps: 1000, maxAsyncQueries: 50 })
    expect(queryCount).toBeLessThan(70)
    expect(reasons).toContain('it lasted less than the minimum of 1000 ms')
  })
})

describe('offline', () => {
  it('counts samples a second until the last is answered, never with more at once than its window', async () => {
    let atOnce = 0
    let most = 0
    const wrap =
      (send: SendSample): SendSample =>
      async (sample) => {
        most = Math.max(most, ++atOnce)
        await send(sample)
        atOnce--
      }
    const { metric, valid, sampleCount, queryCount } = await run(
      { scenario: 'offline', targetQps: 800, offlineWindow: 32 },
      { maxBatchSize: 8, wrap },
    )
    // 1.1 times what it takes for the minimum duration at the rate expected.
    expect({ sampleCount, queryCount, valid, most }).toEqual({
      sampleCount: 880,
      queryCount: 1,
      valid: true,
      most: 32,
    })
    expect(metric.value).toBeGreaterThan(790)
    expect(metric.value).toBeLessThan(801)
  })

  it('goes on until its minimum of time is over where no rate is expected', async () => {
    const { sampleCount, valid, seconds } = await run({
      scenario: 'offline',
      minDurationMs: 2000,
      offlineWindow: 4,
    })
    expect(valid).toBe(true)
    expect(sampleCount).toBeGreaterThan(199)
    expect(seconds).toBeLessThan(2.1)
  })

  it('is not valid where its query was too small, and says what to do', async () => {
    const { reasons } = await run({ scenario: 'offline', targetQps: 10, minDurationMs: 2000 })
    expect(reasons).toEqual([
      'it lasted less than the minimum of 2000 ms: give a higher target QPS, so that the query has more samples',
    ])
  })
})

describe('settings', () => {
  it('are those of mlperf.conf, with three seeds', () => {
    expect(resolveScenario({ scenario: 'server', totalSampleCount: 5000 })).toMatchObject({
      minDurationMs: 600_000,
      minQueryCount: 100,
      targetLatencyMs: 10,
      targetLatencyPercentile: 0.99,
      seeds: {
        qsl: 2085463073848966840n,
        sampleIndex: 2747215439041700203n,
        schedule: 16159082839903944936n,
      },
    })
    expect(resolveScenario({ scenario: 'single-stream', totalSampleCount: 1 }).targetLatencyPercentile).toBe(
      0.9,
    )
    expect(resolveScenario({ scenario: 'multi-stream', totalSampleCount: 1 })).toMatchObject({
      minQueryCount: 662,
      samplesPerQuery: 8,
      targetLatencyPercentile: 0.99,
    })
    expect(resolveScenario({ scenario: 'offline', totalSampleCount: 5000 }).minQueryCount).toBe(5000)
    expect(resolveScenario({ scenario: 'offline', totalSampleCount: 50_000 }).minQueryCount).toBe(24_576)
  })

  it('below those are told of', async () => {
    expect((await run({ scenario: 'single-stream' })).belowMlperf).toEqual([
      'minDurationMs 1000 < 600000',
      'minQueryCount 1 < 100',
    ])
  })

  it.each([
    { scenario: 'edge' },
    { scenario: 'server', targetQps: 0 },
    { scenario: 'server', minDurationMs: -1 },
    { scenario: 'offline', minQueryCount: 0 },
    { scenario: 'server', targetLatencyPercentile: 99 },
    { scenario: 'server', performanceSampleCount: 65 },
    { scenario: 'server', sameSampleIndex: 64 },
  ] as Options[])('are refused that no run can have: %j', (options) => {
    expect(() => resolveScenario({ totalSampleCount: 64, ...options })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG' }),
    )
  })
})
