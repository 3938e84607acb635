import type { PerfSettings } from './perf-settings.ts'
import type { LevelResult } from './result-schema.ts'

/** The levels of the settings. */
export function searchOf({ load, binarySearch }: PerfSettings): SearchSettings {
  if ('range' in load) return { range: load.range, binarySearch }
  const level =
    load.mode === 'periodic-concurrency'
      ? load.steps.end
      : 1e6 / (load.intervalsUs.reduce((sum, us) => sum + us, 0) / load.intervalsUs.length)
  return { range: { start: level, end: level, step: 1 }, binarySearch: false }
}

/** Levels of load to measure. */
export interface LevelRange {
  readonly start: number
  /** 0: no end except the threshold. */
  readonly end: number
  readonly step: number
}

/** Which levels to measure. */
interface SearchSettings {
  readonly range: LevelRange
  /** Whether to search between start and end for the level at which latency exceeds the threshold. */
  readonly binarySearch: boolean
}

/** A measured level and its verdict. */
interface JudgedLevel {
  readonly result: LevelResult
  /** Whether its latency is below the threshold; true without one. */
  readonly meetsThreshold: boolean
}

/**
 * Measures levels one after the other, as perf_analyzer does: from start to end until one is unstable or
 * exceeds the threshold; or by bisection between a level that meets the threshold and one that does not.
 *
 * @param signal when aborted, no further level is begun.
 */
export async function searchLevels(
  { range, binarySearch }: SearchSettings,
  measure: (level: number) => Promise<JudgedLevel>,
  signal?: AbortSignal,
): Promise<LevelResult[]> {
  const results: LevelResult[] = []
  const meets = async (level: number) => {
    const { result, meetsThreshold } = await measure(level)
    results.push(result)
    return meetsThreshold && result.stable && signal?.aborted !== true
  }
  const { start, end, step } = range
  if (!binarySearch) {
    // Counted in steps, as a sum of many fractions would miss the end.
    for (
      let index = 0, level = start;
      end === 0 || level <= end + step * 1e-6;
      level = start + ++index * step
    ) {
      if (!(await meets(level)) || level === end) break
    }
    return results
  }
  if (!(await meets(start)) || end === start || (await meets(end))) return results
  for (let [low, high] = [start, end]; high - low > step && signal?.aborted !== true;) {
    const middle =
      Number.isInteger(start) && Number.isInteger(end) && Number.isInteger(step)
        ? Math.floor((low + high) / 2)
        : (low + high) / 2
    if (await meets(middle)) low = middle
    else high = middle
  }
  return results
}
