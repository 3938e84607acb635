import type { ScenarioLatency, ScenarioResult } from '../result-schema.ts'
import type { ScenarioName } from './scenario-settings.ts'

const rule = '================================================'

/** LoadGen's names of its scenarios. */
const scenarioWords: Readonly<Record<ScenarioName, string>> = {
  'single-stream': 'SingleStream',
  'multi-stream': 'MultiStream',
  server: 'Server',
  offline: 'Offline',
}

/**
 * A result in the format of LoadGen's `mlperf_log_summary.txt` (`PerformanceSummary::LogSummary` in
 * results.cc), for tools that read it. What LoadGen has no line for (failed samples, settings below MLPerf's)
 * follows after its last line.
 *
 * @param name of the system under test.
 */
export function summaryText(name: string, result: ScenarioResult): string {
  const { scenario, constraints, valid, earlyStopping } = result
  const yes = (holds: boolean) => (holds ? 'Yes' : 'NO')
  return [
    ...heading('MLPerf Results Summary'),
    `SUT name : ${name}`,
    `Scenario : ${scenarioWords[scenario]}`,
    `Mode     : ${result.mode}`,
    metricLine(result),
    `Result is : ${valid ? 'VALID' : 'INVALID'}`,
    ...(constraints.performance === null
      ? []
      : [`  Performance constraints satisfied : ${yes(constraints.performance)}`]),
    `  Min duration satisfied : ${yes(constraints.minDuration)}`,
    `  Min queries satisfied : ${yes(constraints.minQueries)}`,
    `  Early stopping satisfied: ${yes(constraints.earlyStopping)}`,
    ...(valid ? [] : ['Recommendations:', ...result.reasons.map((reason) => ` * ${reason}`)]),
    ...(earlyStopping === null ? [] : ['Early Stopping Result:', ...earlyStopping.lines]),
    '',
    ...heading('Additional Stats'),
    ...additionalLines(result),
    '',
    ...heading('Test Parameters Used'),
    ...parameterLines(result),
    '',
    ...remarks(result),
    '',
  ].join('\n')
}

const heading = (title: string) => [rule, title, rule]

function metricLine({ metric, scenario }: ScenarioResult): string {
  if (scenario === 'server') return `Completed samples per second    : ${metric.value.toFixed(2)}`
  if (scenario === 'offline') return `Samples per second: ${sixDigits(metric.value)}`
  return `${metric.name} (ns) : ${nanoseconds(metric.value)}`
}

function additionalLines(result: ScenarioResult): string[] {
  const { scenario, latency, completedPerSecond, scheduledPerSecond } = result
  if (scenario === 'multi-stream') return ['Per-query latency:  ', ...latencyLines(latency)]
  if (scenario === 'server')
    return [
      `Scheduled samples per second : ${(scheduledPerSecond ?? 0).toFixed(2)}`,
      ...latencyLines(latency),
    ]
  if (scenario === 'offline') return latencyLines(latency)
  const alone = latency.meanUs > 0 ? 1e6 / latency.meanUs : 0
  return [
    `QPS w/ loadgen overhead         : ${completedPerSecond.toFixed(2)}`,
    `QPS w/o loadgen overhead        : ${alone.toFixed(2)}`,
    '',
    ...latencyLines(latency),
  ]
}

function latencyLines(latency: ScenarioLatency): string[] {
  const percentiles = [['50.00', latency.p50Us], ['90.00', latency.p90Us], ['95.00', latency.p95Us], ['97.00', latency.p97Us], ['99.00', latency.p99Us], ['99.90', latency.p999Us]] as const // prettier-ignore
  return [
    `Min latency (ns)                : ${nanoseconds(latency.minUs)}`,
    `Max latency (ns)                : ${nanoseconds(latency.maxUs)}`,
    `Mean latency (ns)               : ${nanoseconds(latency.meanUs)}`,
    ...percentiles.map(([percentile, us]) => `${percentile} percentile latency (ns)   : ${nanoseconds(us)}`),
  ]
}

function parameterLines({ scenario, settings, inputs, sampleCount }: ScenarioResult): string[] {
  const isOffline = scenario === 'offline'
  const number = (name: string) => Number(settings[name] ?? 0)
  return [
    `samples_per_query : ${isOffline ? sampleCount : scenario === 'multi-stream' ? number('samplesPerQuery') : 1}`,
    `target_qps : ${sixDigits(number('targetQps'))}`,
    `target_latency (ns): ${scenario === 'server' ? nanoseconds(number('targetLatencyMs') * 1000) : 0}`,
    `max_async_queries : ${scenario === 'server' ? number('maxAsyncQueries') : 1}`,
    `min_duration (ms): ${number('minDurationMs')}`,
    `max_duration (ms): ${number('maxDurationMs')}`,
    `min_query_count : ${isOffline ? 1 : number('minQueryCount')}`,
    `max_query_count : ${number('maxQueryCount')}`,
    `qsl_rng_seed : ${settings['qslRngSeed']}`,
    `sample_index_rng_seed : ${settings['sampleIndexRngSeed']}`,
    `schedule_rng_seed : ${settings['scheduleRngSeed']}`,
    'accuracy_log_rng_seed : 0',
    'accuracy_log_probability : 0',
    'accuracy_log_sampling_target : 0',
    'print_timestamps : 0',
    `performance_issue_unique : ${inputs === 'unique' ? 1 : 0}`,
    `performance_issue_same : ${inputs === 'same' ? 1 : 0}`,
    `performance_issue_same_index : ${number('sameSampleIndex')}`,
    `performance_sample_count : ${number('performanceSampleCount')}`,
    `accuracy_sample_count : ${number('totalSampleCount')}`,
  ]
}

function remarks({ failures, belowMlperf, sendLag, peak }: ScenarioResult): string[] {
  const failed = Object.entries(failures)
  const lines = failed.map(([code, count]) => `ERROR: ${count} samples were not answered: ${code}`)
  if (belowMlperf.length > 0) lines.push(`Settings below those of MLPerf: ${belowMlperf.join(', ')}`)
  if (sendLag !== null)
    lines.push(
      `Queries were sent late by (ns): ${nanoseconds(sendLag.p50Us)} in the middle, ${nanoseconds(sendLag.p99Us)} at 99.00 percentile, ${nanoseconds(sendLag.maxUs)} at most`,
    )
  if (peak === null) return lines
  for (const { targetQps, met, percentileUs, endedEarly } of peak.steps) {
    lines.push(
      `Searched : target_qps ${sixDigits(targetQps)} ${met ? 'holds' : 'does not hold'}, latency (ns) ${nanoseconds(percentileUs)}${endedEarly ? ' when it was given up' : ''}`,
    )
  }
  lines.push(
    peak.targetQps === null
      ? 'Peak : the bound does not hold at any rate'
      : `Peak : target_qps ${sixDigits(peak.targetQps)}`,
  )
  return lines
}

const nanoseconds = (us: number) => Math.round(us * 1000)

/**
 * Formats a number as C++ does: six digits, with an exponent of at least two digits if there are more before
 * the point.
 */
function sixDigits(value: number): string {
  if (Math.abs(value) < 999_999.5) return `${Number(value.toPrecision(6))}`
  const [digits, exponent] = value.toExponential(5).split('e+')
  return `${Number(digits)}e+${exponent!.padStart(2, '0')}`
}
