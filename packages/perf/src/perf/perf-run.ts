import { loadOf, measure, type MeasureHooks } from './measure.ts'
import type { PerfSettings } from './perf-settings.ts'
import type { PerfTarget } from './open-target.ts'
import type { LevelResult, PerfResult } from './result-schema.ts'
import { resultOf } from './result.ts'
import { meetsThreshold } from './windows.ts'

/** Optional inputs of a run. */
interface RunHooks extends Omit<MeasureHooks, 'log' | 'onStart'> {
  /** Called before a level is measured; returns hooks for that level. */
  readonly onLevel?: (level: number) => Pick<MeasureHooks, 'log' | 'onStart'>
  readonly onResult?: (result: LevelResult, meetsThreshold: boolean) => void
}

/**
 * Measures a model at all levels of the settings.
 *
 * @param shown the settings as shown in the result.
 */
export async function runLevels(
  target: PerfTarget,
  settings: PerfSettings,
  shown: PerfResult['settings'],
  hooks: RunHooks = {},
): Promise<PerfResult> {
  const measureLevel = async (level: number) => {
    const { onLevel, onResult, ...rest } = hooks
    const load = loadOf(target.source, settings, level)
    // A load that ends by itself is a single window.
    const isWhole = settings.load.mode === 'periodic-concurrency'
    const result = await measure(
      target,
      { level, load },
      isWhole ? { ...settings, requestCount: 1 } : settings,
      { ...rest, ...onLevel?.(level) },
    )
    const meets = meetsThreshold(result.percentile?.us ?? result.latency.averageUs, settings)
    onResult?.(result, meets)
    return { result, meetsThreshold: meets }
  }
  const levels = await searchLevels(searchOf(settings), measureLevel, hooks.signal)
  return resultOf(target, shown, { mode: settings.load.mode, levels })
}

function searchOf({ load, binarySearch }: PerfSettings): SearchSettings {
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
