import { describe, expect, it } from 'vitest'
import { judgeRun, type ScenarioResult } from '../../../src/perf/scenarios/judge-run.ts'
import { RunRecord } from '../../../src/perf/scenarios/run-scenario.ts'
import {
  resolveScenario,
  type ScenarioName,
  type ScenarioOptions,
} from '../../../src/perf/scenarios/scenario-settings.ts'
import { summaryText } from '../../../src/perf/scenarios/summary-text.ts'

/** What LoadGen 6.0.17 wrote of 700 queries whose latencies are told by their figures alone, `#` for a number. */
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
