import { notSentCode } from './load/open-loop.ts'
import type { MeasuredWindow } from './measured-window.ts'

/** Windows that have to agree. */
export const stableWindows = 3

/** By how much of the time that goes by answers may become later: more is a load that the model cannot keep up with. */
const laterShare = 0.01

/** How a measurement is judged. */
export interface StabilityRule {
  /** By how much windows may differ: 0.1 for 10 %. */
  readonly stability: number
  /** Which latency has to be stable, and below the threshold: a percentile, or `null` for the average. */
  readonly percentile: number | null
  /** From where on that latency is too long, in milliseconds; 0 for none. */
  readonly latencyThresholdMs: number
}

/** The latency that a window is judged by. */
export function stabilisingUs({ load: { latency } }: MeasuredWindow, { percentile }: StabilityRule): number {
  return percentile === null ? latency.averageUs : latency.quantileUs(percentile / 100)
}

/** Whether a latency is below the threshold, if there is one. */
export function meetsThreshold(us: number, { latencyThresholdMs }: StabilityRule): boolean {
  return latencyThresholdMs === 0 || us < latencyThresholdMs * 1000
}

/** Rows a second of a window. */
export function throughputOf({ load }: MeasuredWindow): number {
  return load.seconds > 0 ? load.inferenceCount / load.seconds : 0
}

/**
 * Whether the last three windows agree, in throughput and in latency; not where nothing was answered in one of them.
 *
 * @param isScheduled whether requests are sent by a schedule: what is due just as a window begins or ends is in it or beside it, and says nothing.
 */
export function isStable(
  windows: readonly MeasuredWindow[],
  rule: StabilityRule,
  isScheduled = false,
): boolean {
  if (windows.length < stableWindows) return false
  const last = windows.slice(-stableWindows)
  const throughputs = last.map(throughputOf)
  if (throughputs.some((throughput) => throughput === 0)) return false
  const counts = last.map(({ load }) => load.requestCount + load.failureCount)
  const isSameSchedule = isScheduled && Math.max(...counts) - Math.min(...counts) <= 2
  return (
    (isSameSchedule || areClose(throughputs, rule.stability)) &&
    areClose(
      last.map((window) => stabilisingUs(window, rule)),
      rule.stability,
    )
  )
}

/**
 * Whether the last three windows went over the threshold: there is nothing more to be found out. perf_analyzer gives up where one of them has, which
 * a pause of the machine may do.
 */
export function isTooSlow(windows: readonly MeasuredWindow[], rule: StabilityRule): boolean {
  return (
    windows.length >= stableWindows &&
    windows.slice(-stableWindows).every((window) => !meetsThreshold(stabilisingUs(window, rule), rule))
  )
}

/**
 * Whether requests that are sent by a schedule wait ever longer, in each of the last three windows: after many windows these would
 * differ by so little of what has come together that they would agree.
 */
export function fallsBehind(windows: readonly MeasuredWindow[]): boolean {
  const last = windows.slice(-stableWindows).map(({ load }) => load)
  if (last.some(({ failures }) => notSentCode in failures)) return true
  const [first, final] = [last[0]!, last.at(-1)!]
  const risesMs = (final.latency.averageUs - first.latency.averageUs) / 1000
  const risesInEach = last.every(
    ({ latency }, index) => index === 0 || latency.averageUs > last[index - 1]!.latency.averageUs,
  )
  return risesInEach && risesMs > laterShare * (final.endMs - first.endMs)
}

function areClose(values: readonly number[], stability: number): boolean {
  return Math.max(...values) / Math.min(...values) <= 1 + stability
}
