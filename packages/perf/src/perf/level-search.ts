import type { LevelResult } from './result.ts'

/** Levels of load to be measured. */
export interface LevelRange {
  readonly start: number
  /** 0: there is no end but the threshold. */
  readonly end: number
  readonly step: number
}

/** Which levels are measured. */
export interface SearchSettings {
  readonly range: LevelRange
  /** Whether the level at which latency goes over the threshold is looked for between start and end. */
  readonly binarySearch: boolean
}

/** A level that was measured, and how it is judged. */
export interface JudgedLevel {
  readonly result: LevelResult
  /** Whether its latency is below the threshold, if there is one. */
  readonly meetsThreshold: boolean
}

/**
 * Measures levels one after the other, as perf_analyzer does: from start to end until one is unstable or goes over the threshold, or
 * by halves between one that keeps it and one that does not.
 *
 * @param signal after which no further level is begun.
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
    // Counted in steps: a sum of many fractions would miss the end.
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
