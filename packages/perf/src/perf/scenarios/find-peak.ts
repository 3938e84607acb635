import { isEnough, judgeRun, type PeakStep, percentileOf, type ScenarioResult } from './judge-run.ts'
import { recordRun, type RunRecord, type ScenarioSystem } from './run-scenario.ts'
import { resolveScenario, type ScenarioSettings } from './scenario-settings.ts'

/** How the peak of `server` is looked for. */
export interface PeakSearch {
  /** The search ends when the two rates that it lies between have the same digits so far behind the point. Default: 1, as LoadGen's `server_find_peak_qps_decimals_of_precision`, for rates above 10 a second. */
  readonly decimals?: number
  /** It also ends when they differ by no more than this share, which LoadGen has no word for. Default: 0.01. */
  readonly precision?: number
  /** How often a rate has to miss the bound to count as too high: a pause of the machine is no limit of the model. Default: 2; LoadGen's is 1. */
  readonly attempts?: number
  /** Told of a rate before it is tried. */
  readonly onRate?: (targetQps: number) => void
  /** Told of each run. */
  readonly onStep?: (step: PeakStep) => void
}

/** LoadGen's `server_find_peak_qps_boundary_step_size`: each rate that holds is followed by its double. */
const widening = 2
/** The first rate is halved so often, before it is given up; at once where no answer at all was within the bound. */
const mostHalvings = 10
/** Where it is not said how many, digits end a search only if the last of them is no larger a share than that. */
const coarsest = 0.01

interface Tried {
  readonly settings: ScenarioSettings
  readonly record: RunRecord
  readonly met: boolean
}

/**
 * The highest rate of arrivals at which `server` keeps its bound, as LoadGen's FindPeakPerformance looks for it
 * (`FindPeakPerformanceMode` in loadgen.cc): doubled until it does not hold, then halved between the two. What is better
 * here: a first rate that does not hold is halved instead of being an error, a run is given up as soon as its bound cannot
 * hold any more, and it is told which rate satisfied early stopping as well: at the peak itself, where just as many queries
 * are late as may be, it cannot be sure.
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
    const percentileMs = percentileOf(record.sampleLatenciesMs.ascending(), own.targetLatencyPercentile)
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
    // Of few queries a second a digit is a large part.
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

/** Whether anything was within the bound: no lower rate makes an answer faster than it is with nothing else to do. */
function isPossible({ record }: Tried): boolean {
  return record.failureCount > 0 || record.overCount < record.sampleLatenciesMs.length
}

/**
 * Tells when more queries are over the bound than may be. Those that wait for longer than the bound are over it, too: all
 * that wait but what can have come since.
 */
function hopelessness(settings: ScenarioSettings, queriesPerSecond: number): (record: RunRecord) => boolean {
  const { targetLatencyPercentile, targetLatencyMs } = settings
  const mean = (queriesPerSecond * settings.minDurationMs) / 1000
  // As many as there can be: they are drawn, and drawing them twice would take as long as some runs.
  const count = Math.ceil(Math.max(settings.minQueryCount, mean + 6 * Math.sqrt(mean) + 10))
  const tooMany = count - Math.floor(count * targetLatencyPercentile)
  const within = (queriesPerSecond * targetLatencyMs) / 1000
  const recent = within + 6 * Math.sqrt(within) + 10
  return ({ failureCount, overCount, outstanding }) =>
    failureCount > 0 || overCount + Math.max(0, outstanding - recent) >= tooMany
}

const warmUpQueries = 10
const queries = 50
/** Of either. */
const longestMs = 1000

/** A rate for a search to begin with: half of what one query after the other comes to. */
export async function firstRate({ send, clock, signal }: ScenarioSystem): Promise<number> {
  const askFor = async (most: number) => {
    const startMs = clock.nowMs()
    let asked = 0
    do {
      // What fails is told of by the search.
      await send(0).catch(() => {})
      asked++
    } while (asked < most && clock.nowMs() - startMs < longestMs && signal?.aborted !== true)
    return (clock.nowMs() - startMs) / asked
  }
  await askFor(warmUpQueries)
  const meanMs = await askFor(queries)
  return 500 / Math.max(meanMs, 1e-3)
}
