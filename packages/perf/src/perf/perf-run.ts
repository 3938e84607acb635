import { loadOf } from './level-load.ts'
import { searchLevels, type SearchSettings } from './level-search.ts'
import { measure, type MeasureHooks } from './measure.ts'
import type { PerfSettings } from './perf-settings.ts'
import type { PerfTarget } from './perf-target.ts'
import type { LevelResult, PerfResult } from './result.ts'
import { meetsThreshold } from './stability.ts'

/** What a run may be given beside its settings. */
export interface RunHooks extends Omit<MeasureHooks, 'log' | 'onStart'> {
  /** Told of a level before it is measured; what it returns is told of what goes on. */
  readonly onLevel?: (level: number) => Pick<MeasureHooks, 'log' | 'onStart'>
  readonly onResult?: (result: LevelResult, meetsThreshold: boolean) => void
}

/**
 * Measures a model at all levels that the settings say.
 *
 * @param shown the settings as they are told in the result.
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
    // One window holds all of a load that comes to its end by itself.
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
  const { name, version } = target.model
  return {
    model: name,
    version,
    settings: shown,
    machine: target.machine ?? {},
    date: new Date().toISOString(),
    mode: settings.load.mode,
    levels,
  }
}

function searchOf({ load, binarySearch }: PerfSettings): SearchSettings {
  if ('range' in load) return { range: load.range, binarySearch }
  const level =
    load.mode === 'periodic-concurrency'
      ? load.steps.end
      : 1e6 / (load.intervalsUs.reduce((sum, us) => sum + us, 0) / load.intervalsUs.length)
  return { range: { start: level, end: level, step: 1 }, binarySearch: false }
}
