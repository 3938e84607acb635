import { runLevels } from '../perf/perf-run.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import {
  levelNames,
  levelText,
  settingsText,
  shownLevel,
  summaryText,
  windowText,
} from '../perf/report/console-report.ts'
import { throughputOf } from '../perf/windows.ts'
import type { LevelResult, PerfResult } from '../perf/result-schema.ts'
import { tellLine } from 'zerohop/internals'
import type { PerfContext } from './perf-extension.ts'
import { perfExitCodes } from './perf-left-out.ts'
import { PerfProgress } from './progress-line.ts'

/** Measures the levels of the settings, and prints each when it is done. */
export async function measureLevels({
  options,
  target,
  settings,
  shown,
  signal,
  print,
  profile,
}: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { load } = settings
  const progress = new PerfProgress(options.json === true)
  const distribution = load.mode === 'request-rate' ? load.distribution : null
  print(settingsText({ ...settings, batchSize: options.batchSize, mode: load.mode, distribution }))
  const tellLevel = (level: LevelResult, meetsThreshold: boolean) => {
    progress.end()
    print(levelText(load.mode, level))
    if (!meetsThreshold)
      print(`Measured latency went over the set limit of ${settings.latencyThresholdMs} msec. \n`)
    else if (signal.aborted) tellLine('interrupted: these are the results up to then')
    else if (!level.stable)
      tellLine(
        level.requestCount === 0 ? nothingAnswered(load.mode, level.level) : unstable(settings, level.level),
      )
  }
  try {
    const result = await runLevels(target, settings, shown, {
      signal,
      onLevel: (level) => ({
        ...(profile === null ? {} : { log: profile.begin(load.mode, level) }),
        onStart: (recorder) =>
          progress.begin(load.mode, level, settings.requestCount > 0 ? 1 : settings.maxTrials, recorder),
      }),
      onWindow: (window, trial) => {
        profile?.window(window)
        progress.window(trial)
        if (options.verbose)
          progress.without(() => print(windowText(trial, throughputOf(window), window.load.latency)))
      },
      onResult: tellLevel,
    })
    print(summaryText(load.mode, result.levels))
    // As in perf_analyzer: a single unstable level is a failure. An unstable level after others ends the
    // search, and the earlier ones are valid.
    const failed = result.levels.length === 1 && !result.levels[0]!.stable && !signal.aborted
    return { result, exitCode: failed ? perfExitCodes.unstable : 0 }
  } finally {
    progress.end()
  }
}

export function nothingAnswered(mode: PerfResult['mode'], level: number): string {
  return `No request was answered correctly at ${levelNames(mode).summary.toLowerCase()} ${shownLevel(level)}: there is nothing to report.`
}

function unstable({ maxTrials, measurementMode, load: { mode } }: PerfSettings, level: number): string {
  const option = measurementMode === 'time_windows' ? '--measurement-interval' : '--measurement-request-count'
  return `Failed to obtain stable measurement within ${maxTrials} measurement windows for ${levelNames(mode).summary.toLowerCase()} ${shownLevel(level)}. Please try to increase the ${option}${mode === 'concurrency' ? '' : ', or to lower the rate if latencies grow'}.`
}
