import type { PeakStep, ScenarioResult } from '../result-schema.ts'
import { inOrder, isEnough, judgeRun, percentileOf } from './judge-run.ts'
import { recordRun, type RunRecord, type ScenarioSystem } from './run-scenario.ts'
import { resolveScenario, type ScenarioSettings } from './scenario-settings.ts'

/** How to search for the peak of `server`. */
export interface PeakSearch {
  /**
   * The search ends when its lower and upper rate agree to so many decimals. Default: 1, as LoadGen's
   * `server_find_peak_qps_decimals_of_precision`, for rates above 10 per second.
   */
  readonly decimals?: number
  /**
   * The search also ends when they differ by at most this share. LoadGen has no such setting. Default: 0.01.
   */
  readonly precision?: number
  /**
   * How often a rate has to miss the bound to count as too high, as a pause of the machine is not the model's
   * limit. Default: 2; LoadGen's is 1.
   */
  readonly attempts?: number
  /** Called before a rate is tried. */
  readonly onRate?: (targetQps: number) => void
  /** Called after each run. */
  readonly onStep?: (step: PeakStep) => void
}

/** LoadGen's `server_find_peak_qps_boundary_step_size`: a rate that meets the bound is doubled. */
const widening = 2
/**
 * How often the first rate is halved before the search gives up. It gives up at once if no answer was within
 * the bound.
 */
const mostHalvings = 10
/** By default decimals end a search only if the last one is at most this share of the rate. */
const coarsest = 0.01

interface Tried {
  readonly settings: ScenarioSettings
  readonly record: RunRecord
  readonly met: boolean
}

/**
 * Finds the highest rate of arrivals at which `server` meets its bound, as LoadGen's FindPeakPerformance does
 * (`FindPeakPerformanceMode` in loadgen.cc): the rate is doubled until it fails, then bisected. Differences
 * to LoadGen:
 *
 * - A first rate that fails is halved instead of being an error.
 * - A run is stopped as soon as it cannot meet its bound any more.
 * - The result also has the highest rate that satisfied early stopping. At the peak itself the number of late
 *   queries is at its limit, so early stopping cannot be satisfied.
 *
 * @param settings of `server`, with the first rate as `targetQps`.
 */
export async function findPeak(
  settings: ScenarioSettings,
  system: ScenarioSystem,
  search: PeakSearch = {},
): Promise<ScenarioResult> {
  const { decimals, precision = 0.01, attempts = 2, onRate, onStep } = search
  const steps: PeakStep[] = []
  const attempt = async (targetQps: number): Promise<Tried> => {
    onRate?.(targetQps)
    const own = resolveScenario({ ...settings, targetQps })
    const { record } = await recordRun(own, system, hopelessness(own, targetQps))
    const endedEarly = record.finalScheduledMs < own.minDurationMs || record.queriesIssued < own.minQueryCount
    const percentileMs = percentileOf(inOrder(record.sampleLatenciesMs), own.targetLatencyPercentile)
    const met = !endedEarly && record.failureCount === 0 && percentileMs <= own.targetLatencyMs
    const step: PeakStep = {
      targetQps,
      met,
      sure: met && isEnough(record.queriesIssued, record.overCount, own.targetLatencyPercentile),
      percentileUs: 1000 * percentileMs,
      completedPerSecond:
        record.finalDoneMs > 0 ? (1000 * (record.sampleLatenciesMs.length - 1)) / record.finalDoneMs : 0,
      queryCount: record.queriesIssued,
      endedEarly,
    }
    steps.push(step)
    onStep?.(step)
    return { settings: own, record, met }
  }
  const isAborted = () => system.signal?.aborted === true
  const tryRate = async (targetQps: number): Promise<Tried> => {
    let tried = await attempt(targetQps)
    for (let again = 1; again < attempts && !tried.met && !isAborted(); again++)
      tried = await attempt(targetQps)
    return tried
  }
  const isFound = (low: number, high: number) => {
    const step = 10 ** -(decimals ?? 1)
    // At few queries per second a decimal is a large share.
    const byDigits = decimals !== undefined || step <= coarsest * low
    return (
      (byDigits && Math.floor(low / step) + 1 >= Math.floor(high / step)) || high - low <= precision * low
    )
  }

  let best = await tryRate(settings.targetQps ?? 1)
  let tooHigh = Infinity
  for (let halved = 0; !best.met && isPossible(best) && halved < mostHalvings && !isAborted(); halved++) {
    tooHigh = best.settings.targetQps!
    best = await tryRate(tooHigh / widening)
  }
  while (best.met && !isAborted() && !isFound(best.settings.targetQps!, tooHigh)) {
    const low = best.settings.targetQps!
    const tried = await tryRate(tooHigh === Infinity ? low * widening : (low + tooHigh) / 2)
    if (tried.met) best = tried
    else tooHigh = tried.settings.targetQps!
  }
  const sure = steps.filter((step) => step.sure).map((step) => step.targetQps)
  const peak = best.met
    ? { targetQps: best.settings.targetQps!, sureQps: sure.length === 0 ? null : Math.max(...sure), steps }
    : { targetQps: null, sureQps: null, steps }
  return judgeRun({
    settings: best.settings,
    record: best.record,
    sampleCount: null,
    peak,
    aborted: isAborted(),
  })
}

/** Whether any answer was within the bound. If none was, a lower rate does not help. */
function isPossible({ record }: Tried): boolean {
  return record.failureCount > 0 || record.overCount < record.sampleLatenciesMs.length
}

/**
 * Detects that more queries exceed the bound than allowed. Queries that have waited longer than the bound
 * count as well: all waiting ones except those that can have arrived since.
 */
function hopelessness(settings: ScenarioSettings, queriesPerSecond: number): (record: RunRecord) => boolean {
  const { targetLatencyPercentile, targetLatencyMs } = settings
  const mean = (queriesPerSecond * settings.minDurationMs) / 1000
  // As many as possible: drawing them twice would take as long as some runs.
  const count = Math.ceil(Math.max(settings.minQueryCount, mean + 6 * Math.sqrt(mean) + 10))
  const tooMany = count - Math.floor(count * targetLatencyPercentile)
  const within = (queriesPerSecond * targetLatencyMs) / 1000
  const recent = within + 6 * Math.sqrt(within) + 10
  return ({ failureCount, overCount, outstanding }) =>
    failureCount > 0 || overCount + Math.max(0, outstanding - recent) >= tooMany
}

const warmUpQueries = 10
const queries = 50
/** For each of the two. */
const longestMs = 1000

/** A first rate for a search: half of the rate of one query after the other. */
export async function firstRate({ send, clock, signal }: ScenarioSystem): Promise<number> {
  const askFor = async (most: number) => {
    const startMs = clock.nowMs()
    let asked = 0
    do {
      // The search reports failures.
      await send(0).catch(() => {})
      asked++
    } while (asked < most && clock.nowMs() - startMs < longestMs && signal?.aborted !== true)
    return (clock.nowMs() - startMs) / asked
  }
  await askFor(warmUpQueries)
  const meanMs = await askFor(queries)
  return 500 / Math.max(meanMs, 1e-3)
}
