import type { ScenarioLatency, ScenarioPeak, ScenarioResult } from '../result-schema.ts'
import type { RunRecord } from './run-scenario.ts'
import { belowMlperf, type ScenarioSettings } from './scenario-settings.ts'

/** What a run is judged by, besides its record. */
interface JudgedRun {
  readonly settings: ScenarioSettings
  readonly record: RunRecord
  /** Intended samples of the single query of `offline`; `null` for other scenarios, and if it ran by time. */
  readonly sampleCount: number | null
  /** The result of the search that led to it; `null` without one. */
  readonly peak: ScenarioPeak | null
  /** The user aborted it. */
  readonly aborted: boolean
}

/** Judges a run by the rules of LoadGen (`PerformanceSummary` in results.cc). */
export function judgeRun(run: JudgedRun): ScenarioResult {
  const { settings, record, peak, aborted } = run
  const { scenario, targetLatencyPercentile: percentile } = settings
  const latencies = scenario === 'multi-stream' ? record.queryLatenciesMs : record.sampleLatenciesMs
  const ascendingUs = inOrder(latencies).map((ms) => ms * 1000)
  const overLatencyCount = scenario === 'server' ? record.overCount : 0
  const seconds = scenario === 'offline' ? (ascendingUs.at(-1) ?? 0) / 1e6 : record.finalDoneMs / 1000
  const earlyStopping = earlyStoppingOf(
    settings,
    ascendingUs,
    record.queriesIssued,
    overLatencyCount + record.failureCount,
  )
  const percentileUs = percentileOf(ascendingUs, percentile)
  const constraints: ScenarioResult['constraints'] = {
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
    sendLag: scenario === 'server' ? latencyOf(inOrder(record.sendLagMs).map((ms) => ms * 1000)) : null,
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
  constraints: ScenarioResult['constraints'],
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
): ScenarioResult['metric'] {
  if (scenario === 'server' || scenario === 'offline') {
    const name = scenario === 'server' ? 'Completed samples per second' : 'Samples per second'
    return { name, value: completedPerSecond, unit: 'samples/s' }
  }
  return {
    name: `${shownPercentile(targetLatencyPercentile)} percentile latency`,
    value: percentileUs,
    unit: 'us',
  }
}

const shownPercentile = (share: number) => `${(100 * share).toFixed(1)}th`

/** The duration that is compared with the minimum. */
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

/**
 * For consecutive samples the first one starts the time and is not counted; `offline` has all samples at
 * once.
 */
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

/**
 * LoadGen's early stopping (early_stopping.cc): the number of queries needed to say, with a confidence of 99
 * %, that a latency percentile is below a bound although some queries exceeded it. LoadGen computes it by a
 * hypergeometric series. That is the lower tail of a binomial distribution, which is summed directly here: it
 * takes as little time for millions of queries as for hundreds.
 */

const confidence = 0.99

/** Smaller shares do not change a sum. */
const negligible = 2 ** -50

/** Whether the bound holds for the percentile with confidence, if so many of a run's queries exceeded it. */
export function isEnough(queryCount: number, overCount: number, percentile: number): boolean {
  return lowerTail(queryCount, overCount, 1 - percentile) < 1 - confidence
}

/** How many queries within the bound are needed if so many exceed it. */
export function minPassingQueries(overCount: number, percentile: number): number {
  let enough = 1
  while (!isEnough(enough + overCount, overCount, percentile)) enough *= 2
  let tooFew = Math.floor(enough / 2)
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (isEnough(middle + overCount, overCount, percentile)) enough = middle
    else tooFew = middle
  }
  return enough
}

/**
 * The early stopping estimate of a percentile: a conservative one, the smallest latency for which few enough
 * are above it. `null` if there are too few queries.
 *
 * @param ascending latencies of all queries, in any unit.
 */
export function estimatePercentile(
  ascending: ArrayLike<number>,
  percentile: number,
): { readonly estimate: number; readonly discarded: number } | null {
  const count = ascending.length
  if (!isEnough(count, 1, percentile)) return null
  let over = 1
  let tooMany = count
  while (tooMany - over > 1) {
    const middle = Math.floor((over + tooMany) / 2)
    if (isEnough(count, middle, percentile)) over = middle
    else tooMany = middle
  }
  return { estimate: ascending[count - over]!, discarded: over - 1 }
}

/** The probability of at most `most` events among `count`, each with `probability`. */
function lowerTail(count: number, most: number, probability: number): number {
  if (most >= count) return 1
  // At or above the mean it is about a half or more, and the sum below would be long.
  if (most >= count * probability) return 1
  let sum = 1
  let term = 1
  for (let events = most; events > 0; events--) {
    term *= (events * (1 - probability)) / ((count - events + 1) * probability)
    sum += term
    if (term < sum * negligible) break
  }
  const logOfMost =
    logChoose(count, most) + most * Math.log(probability) + (count - most) * Math.log1p(-probability)
  return Math.exp(logOfMost + Math.log(sum))
}

const logChoose = (count: number, chosen: number) =>
  logFactorial(count) - logFactorial(chosen) - logFactorial(count - chosen)

/** Stirling's series from 10 on, where it is exact to the last digits; the product below. */
function logFactorial(n: number): number {
  if (n < 10) {
    let product = 1
    for (let factor = 2; factor <= n; factor++) product *= factor
    return Math.log(product)
  }
  const x = n + 1
  const inverse = 1 / x
  const square = inverse * inverse
  const tail = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + tail
}

/** The percentile from which a single-stream run predicts multi-stream. */
const multiStreamPercentile = 0.99

/**
 * Early stopping of a run (`PerformanceSummary::EarlyStopping` in results.cc); `null` in `offline`, which has
 * none.
 */
function earlyStoppingOf(
  settings: ScenarioSettings,
  ascendingUs: Float64Array,
  queryCount: number,
  overCount: number,
): ScenarioResult['earlyStopping'] {
  const { scenario, targetLatencyPercentile: percentile } = settings
  if (scenario === 'offline') return null
  if (scenario === 'server') return boundResult(percentile, queryCount, overCount)
  const own = estimatePercentile(ascendingUs, percentile)
  const least = minPassingQueries(1, percentile) + 1
  if (own === null) {
    const lines = [
      ` * Only processed ${ascendingUs.length} queries.`,
      ` * Need to process at least ${least} queries for early stopping.`,
    ]
    return { satisfied: false, lines, estimates: [] }
  }
  const lines = [
    ` * Processed at least ${least} queries (${ascendingUs.length}).`,
    ` * Would discard ${own.discarded} highest latency queries.`,
    estimateLine(percentile, own.estimate),
  ]
  const estimates = [{ percentile, us: own.estimate }]
  if (scenario === 'single-stream') {
    const other = estimatePercentile(ascendingUs, multiStreamPercentile)
    if (other === null) lines.push(...tooFewLines())
    else {
      lines.push(estimateLine(multiStreamPercentile, other.estimate))
      estimates.push({ percentile: multiStreamPercentile, us: other.estimate })
    }
  }
  return { satisfied: true, lines, estimates }
}

const shown = (percentile: number) => (100 * percentile).toFixed(1)

const estimateLine = (percentile: number, us: number) =>
  ` * Early stopping ${shown(percentile)}th percentile estimate: ${Math.round(us * 1000)}`

function tooFewLines(): string[] {
  return [
    ` * Not enough queries processed for ${shown(multiStreamPercentile)}th percentile`,
    ' early stopping estimate (would need to process at',
    ` least ${minPassingQueries(1, multiStreamPercentile) + 1} total queries).`,
  ]
}

function boundResult(
  percentile: number,
  queryCount: number,
  overCount: number,
): NonNullable<ScenarioResult['earlyStopping']> {
  if (isEnough(queryCount, overCount, percentile))
    return { satisfied: true, lines: [' * Run successful.'], estimates: [] }
  const more = minPassingQueries(overCount, percentile) + overCount - queryCount
  return {
    satisfied: false,
    lines: [
      ' * Run unsuccessful.',
      ` * Processed ${queryCount} queries.`,
      ` * Would need to run at least ${more} more queries,`,
      ' with the run being successful if every additional',
      ' query were under latency.',
    ],
    estimates: [],
  }
}

/** Durations in ascending order. */
export function inOrder(durations: readonly number[]): Float64Array {
  return Float64Array.from(durations).sort()
}

/** The percentile at LoadGen's index: the count times the share, rounded down. 0 for no durations. */
export function percentileOf(ascending: Float64Array, share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? 0
}
