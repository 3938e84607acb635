import { percentileOf } from './duration-list.ts'
import { earlyStoppingOf } from './early-stopping-result.ts'
import type { RunRecord } from './run-record.ts'
import type {
  ScenarioConstraints,
  ScenarioLatency,
  ScenarioMetric,
  ScenarioPeak,
  ScenarioResult,
} from './scenario-result.ts'
import { belowMlperf, type ScenarioSettings } from './scenario-settings.ts'

/** What a run is judged by beside its record. */
export interface JudgedRun {
  readonly settings: ScenarioSettings
  readonly record: RunRecord
  /** Samples that the one query of `offline` was to have; `null` elsewhere, and where it went on by time. */
  readonly sampleCount: number | null
  /** What a search has found that led to it; `null` without one. */
  readonly peak: ScenarioPeak | null
  /** The user ended it. */
  readonly aborted: boolean
}

/** Judges a run by the rules of LoadGen (`PerformanceSummary` in results.cc). */
export function judgeRun(run: JudgedRun): ScenarioResult {
  const { settings, record, peak, aborted } = run
  const { scenario, targetLatencyPercentile: percentile } = settings
  const latencies = scenario === 'multi-stream' ? record.queryLatenciesMs : record.sampleLatenciesMs
  const ascendingUs = latencies.ascending().map((ms) => ms * 1000)
  const overLatencyCount = scenario === 'server' ? record.overCount : 0
  const seconds = scenario === 'offline' ? (ascendingUs.at(-1) ?? 0) / 1e6 : record.finalDoneMs / 1000
  const earlyStopping = earlyStoppingOf(
    settings,
    ascendingUs,
    record.queriesIssued,
    overLatencyCount + record.failureCount,
  )
  const percentileUs = percentileOf(ascendingUs, percentile)
  const constraints: ScenarioConstraints = {
    performance:
      scenario === 'server' ? latencies.length > 0 && percentileUs <= settings.targetLatencyMs * 1000 : null,
    minDuration: durationMs(settings, record, seconds) >= settings.minDurationMs,
    minQueries: hasEnoughQueries(run),
    earlyStopping: earlyStopping?.satisfied ?? true,
    noFailures: record.failureCount === 0,
  }
  const sampleCount = record.sampleLatenciesMs.length
  const reasons = reasonsOf(run, constraints, percentileUs)
  if (aborted) reasons.unshift('it was ended by the user')
  return {
    scenario,
    mode: peak === null ? 'PerformanceOnly' : 'FindPeakPerformance',
    valid: reasons.length === 0,
    reasons,
    belowMlperf: belowMlperf(settings),
    metric: metricOf(settings, percentileUs, perSecond(sampleCount, seconds, scenario)),
    constraints,
    earlyStopping,
    queryCount: record.queriesIssued,
    sampleCount,
    overLatencyCount,
    failures: { ...record.failures },
    latency: latencyOf(ascendingUs),
    sendLag: scenario === 'server' ? latencyOf(record.sendLagMs.ascending().map((ms) => ms * 1000)) : null,
    completedPerSecond: perSecond(sampleCount, seconds, scenario),
    scheduledPerSecond:
      scenario === 'server' ? perSecond(sampleCount, record.finalScheduledMs / 1000, scenario) : null,
    seconds,
    inputs: settings.inputs,
    peak,
    settings: plainSettings(settings),
  }
}

function reasonsOf(
  { settings, record, sampleCount, peak }: JudgedRun,
  constraints: ScenarioConstraints,
  percentileUs: number,
): string[] {
  const reasons: string[] = []
  const { scenario, targetLatencyPercentile, targetLatencyMs, minDurationMs, minQueryCount } = settings
  if (constraints.performance === false) {
    reasons.push(
      `the ${shownPercentile(targetLatencyPercentile)} percentile of latency is ${(percentileUs / 1000).toFixed(3)} ms, the bound ${targetLatencyMs} ms: reduce the target QPS`,
    )
  }
  if (!constraints.minDuration)
    reasons.push(
      `it lasted less than the minimum of ${minDurationMs} ms${sampleCount === null ? '' : ': give a higher target QPS, so that the query has more samples'}`,
    )
  if (!constraints.minQueries)
    reasons.push(
      `it has ${scenario === 'offline' ? record.sampleLatenciesMs.length : record.queriesIssued} ${scenario === 'offline' ? 'samples' : 'queries'}, fewer than the ${sampleCount ?? minQueryCount} asked for`,
    )
  if (!constraints.earlyStopping) {
    const lower = peak?.sureQps == null ? '' : `; it was at a target QPS of ${peak.sureQps}`
    reasons.push(`early stopping is not sure of the percentile: see its result${lower}`)
  }
  if (!constraints.noFailures) {
    const codes = Object.entries(record.failures).map(([code, count]) => `${count} ${code}`)
    reasons.push(`samples were not answered: ${codes.join(', ')}`)
  }
  return reasons
}

function metricOf(
  { scenario, targetLatencyPercentile }: ScenarioSettings,
  percentileUs: number,
  completedPerSecond: number,
): ScenarioMetric {
  if (scenario === 'server')
    return { name: 'Completed samples per second', value: completedPerSecond, unit: 'samples/s' }
  if (scenario === 'offline')
    return { name: 'Samples per second', value: completedPerSecond, unit: 'samples/s' }
  return {
    name: `${shownPercentile(targetLatencyPercentile)} percentile latency`,
    value: percentileUs,
    unit: 'us',
  }
}

const shownPercentile = (share: number) => `${(100 * share).toFixed(1)}th`

/** What the minimum duration is compared with. */
function durationMs(
  { scenario }: ScenarioSettings,
  { finalScheduledMs, finalIssuedMs }: RunRecord,
  seconds: number,
): number {
  return scenario === 'offline' ? seconds * 1000 : scenario === 'server' ? finalScheduledMs : finalIssuedMs
}

function hasEnoughQueries({ settings, record, sampleCount }: JudgedRun): boolean {
  const answered = record.sampleLatenciesMs.length + record.failureCount
  if (settings.scenario === 'offline') return answered >= (sampleCount ?? settings.minQueryCount)
  return record.queriesIssued >= settings.minQueryCount
}

/** The first of consecutive samples begins the time that is divided by, and is not counted; `offline` has them all at once. */
function perSecond(count: number, seconds: number, scenario: ScenarioSettings['scenario']): number {
  return seconds > 0 ? Math.max(0, scenario === 'offline' ? count : count - 1) / seconds : 0
}

function latencyOf(ascending: Float64Array): ScenarioLatency {
  const at = (share: number) => percentileOf(ascending, share)
  return {
    minUs: ascending[0] ?? 0,
    maxUs: ascending.at(-1) ?? 0,
    meanUs: ascending.length === 0 ? 0 : ascending.reduce((sum, us) => sum + us, 0) / ascending.length,
    p50Us: at(0.5),
    p90Us: at(0.9),
    p95Us: at(0.95),
    p97Us: at(0.97),
    p99Us: at(0.99),
    p999Us: at(0.999),
  }
}

function plainSettings({ seeds, ...settings }: ScenarioSettings): ScenarioResult['settings'] {
  return {
    ...settings,
    qslRngSeed: `${seeds.qsl}`,
    sampleIndexRngSeed: `${seeds.sampleIndex}`,
    scheduleRngSeed: `${seeds.schedule}`,
  }
}
