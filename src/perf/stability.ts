import type { MeasuredWindow } from './measured-window.ts'

/** Windows that have to agree. */
export const stableWindows = 3

/** How a measurement is judged. */
export interface StabilityRule {
  /** By how much windows may differ: 0.1 for 10 %. */
  readonly stability: number
  /** Which latency has to be stable and below a threshold: a percentile, or `null` for the average. */
  readonly percentile: number | null
}

/** The latency that a window is judged by. */
export function stabilisingUs({ load: { latency } }: MeasuredWindow, { percentile }: StabilityRule): number {
  return percentile === null ? latency.averageUs : latency.quantileUs(percentile / 100)
}

/** Rows a second of a window. */
export function throughputOf({ load }: MeasuredWindow): number {
  return load.seconds > 0 ? load.inferenceCount / load.seconds : 0
}

/** Whether the last three windows agree, in throughput and in latency; not where nothing was answered in one of them. */
export function isStable(windows: readonly MeasuredWindow[], rule: StabilityRule): boolean {
  if (windows.length < stableWindows) return false
  const last = windows.slice(-stableWindows)
  const throughputs = last.map(throughputOf)
  if (throughputs.some((throughput) => throughput === 0)) return false
  return areClose(throughputs, rule.stability) && areClose(last.map((window) => stabilisingUs(window, rule)), rule.stability)
}

function areClose(values: readonly number[], stability: number): boolean {
  return Math.max(...values) / Math.min(...values) <= 1 + stability
}
