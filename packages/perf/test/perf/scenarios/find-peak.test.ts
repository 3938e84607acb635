import { describe, expect, it } from 'vitest'
import { findPeak, type PeakSearch } from '../../../src/perf/scenarios/find-peak.ts'
import type { ScenarioResult } from '../../../src/perf/result-schema.ts'
import { judgeRun } from '../../../src/perf/scenarios/judge-run.ts'
import { RunRecord, type SendSample } from '../../../src/perf/scenarios/run-scenario.ts'
import {
  resolveScenario,
  type ScenarioName,
  type ScenarioOptions,
} from '../../../src/perf/scenarios/scenario-settings.ts'
import { summaryText } from '../../../src/perf/scenarios/summary-text.ts'
import { repetitions } from '../../../../../test/support/full.ts'
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
  const bounds = [
    { times: 3, targetQps: 50 },
    { times: 40, targetQps: 1000 },
    { times: 10, targetQps: 100 },
  ]
  it.each(bounds.slice(0, repetitions(3, 1)))(
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
      { targetLatencyMs: 40 * serviceMs, targetQps: 500, minDurationMs: repetitions(30_000, 6000) },
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

  it('is surer a little below, and says so', async () => {
    const options = {
      targetLatencyMs: 3 * serviceMs,
      targetQps: 50,
      minDurationMs: repetitions(60_000, 20_000),
    }
    const { valid, reasons, peak: found } = await peak(options)
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
  it('takes no time for rates that cannot be reached', async () => {
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

  it('reports each run, and ends when it is aborted', async () => {
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

/** What LoadGen 6.0.17 wrote of 700 queries, with `#` for each number. */
const loadGen: Record<ScenarioName, string> = {
  'single-stream': `================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : SingleStream
Mode     : PerformanceOnly
90.0th percentile latency (ns) : #
Result is : VALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: Yes
Early Stopping Result:
 * Processed at least 64 queries (700).
 * Would discard 50 highest latency queries.
 * Early stopping 90.0th percentile estimate: #
 * Early stopping 99.0th percentile estimate: #

================================================
Additional Stats
================================================
QPS w/ loadgen overhead         : #
QPS w/o loadgen overhead        : #

`,
  'multi-stream': `================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : MultiStream
Mode     : PerformanceOnly
99.0th percentile latency (ns) : #
Result is : VALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: Yes
Early Stopping Result:
 * Processed at least 662 queries (700).
 * Would discard 0 highest latency queries.
 * Early stopping 99.0th percentile estimate: #

================================================
Additional Stats
================================================
Per-query latency:  
`,
  server: `================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : #
Result is : VALID
  Performance constraints satisfied : Yes
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: Yes
Early Stopping Result:
 * Run successful.

================================================
Additional Stats
================================================
Scheduled samples per second : #
`,
  offline: `================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Offline
Mode     : PerformanceOnly
Samples per second: #
Result is : INVALID
  Min duration satisfied : NO
  Min queries satisfied : Yes
  Early stopping satisfied: Yes
Recommendations:
 * it lasted less than the minimum of 100 ms: give a higher target QPS, so that the query has more samples

================================================
Additional Stats
================================================
`,
}

const afterFigures = `Min latency (ns)                : #
Max latency (ns)                : #
Mean latency (ns)               : #
50.00 percentile latency (ns)   : #
90.00 percentile latency (ns)   : #
95.00 percentile latency (ns)   : #
97.00 percentile latency (ns)   : #
99.00 percentile latency (ns)   : #
99.90 percentile latency (ns)   : #

================================================
Test Parameters Used
================================================
`

const parameters = (
  perQuery: number,
  qps: string,
  latency: number,
  atOnce: number,
  least: number,
) => `samples_per_query : ${perQuery}
target_qps : ${qps}
target_latency (ns): ${latency}
max_async_queries : ${atOnce}
min_duration (ms): 100
max_duration (ms): 0
min_query_count : ${least}
max_query_count : 0
qsl_rng_seed : 2085463073848966840
sample_index_rng_seed : 2747215439041700203
schedule_rng_seed : 16159082839903944936
accuracy_log_rng_seed : 0
accuracy_log_probability : 0
accuracy_log_sampling_target : 0
print_timestamps : 0
performance_issue_unique : 0
performance_issue_same : 0
performance_issue_same_index : 0
performance_sample_count : 64
accuracy_sample_count : 100
`

/** 700 queries (in offline, samples), each of 1 ms and a little more than the one before. */
function result(options: Partial<ScenarioOptions> & Pick<ScenarioOptions, 'scenario'>): ScenarioResult {
  const settings = resolveScenario({
    totalSampleCount: 100,
    performanceSampleCount: 64,
    minQueryCount: 700,
    minDurationMs: 100,
    ...options,
  })
  const isOffline = options.scenario === 'offline'
  const record = new RunRecord(settings)
  for (let query = 0; query < 700; query++) {
    const latencyMs = 1 + query / 1e6
    if (!isOffline || query === 0) record.issued(isOffline ? 0 : 2 * query, isOffline ? 0 : 2 * query, 1)
    record.sampleAnswered(latencyMs)
    if (!isOffline) record.ended(query, 2 * query, 2 * query + latencyMs, false)
  }
  return judgeRun({ settings, record, sampleCount: isOffline ? 700 : null, peak: null, aborted: false })
}

/** Figures behind a colon are `#`, but for the parameters. */
function withoutFigures(text: string): string {
  const [figures, used] = text.split('Test Parameters Used') as [string, string]
  return `${figures.replaceAll(/(: +)[\d.]+(e\+\d+)?$/gm, '$1#')}Test Parameters Used${used}`
}

describe('the summary', () => {
  it.each([
    ['single-stream', parameters(1, '0', 0, 1, 700)],
    ['multi-stream', parameters(8, '0', 0, 1, 700)],
    ['server', parameters(1, '500', 10_000_000, 0, 700)],
    ['offline', parameters(700, '500', 0, 1, 1)],
  ] as const)('of %s is laid out as by LoadGen', (scenario, used) => {
    const text = summaryText(
      'PySUT',
      result({ scenario, ...(scenario === 'server' || scenario === 'offline' ? { targetQps: 500 } : {}) }),
    )
    expect(withoutFigures(text).split('\n\nSettings below')[0]).toBe(
      `${loadGen[scenario]}${afterFigures}${used}`.trimEnd(),
    )
  })

  it("has LoadGen's figures in nanoseconds, at its indices", () => {
    const lines = summaryText('PySUT', result({ scenario: 'single-stream' })).split('\n')
    expect(lines).toEqual(
      expect.arrayContaining([
        '90.0th percentile latency (ns) : 1000630',
        ' * Early stopping 90.0th percentile estimate: 1000649',
        ' * Early stopping 99.0th percentile estimate: 1000699',
        'QPS w/ loadgen overhead         : 499.64',
        'QPS w/o loadgen overhead        : 999.65',
        'Min latency (ns)                : 1000000',
        'Max latency (ns)                : 1000699',
        '99.90 percentile latency (ns)   : 1000699',
      ]),
    )
  })

  it('prints large rates as C++ does', () => {
    const offline = result({ scenario: 'offline', targetQps: 1_157_580 })
    expect(summaryText('PySUT', offline)).toContain('target_qps : 1.15758e+06\n')
    expect(summaryText('PySUT', offline)).toContain('Samples per second: 699511\n')
  })

  it('says below what settings ask for less than those of MLPerf', () => {
    expect(summaryText('PySUT', result({ scenario: 'single-stream' }))).toMatch(
      /\nSettings below those of MLPerf: minDurationMs 100 < 600000\n$/,
    )
  })
})
