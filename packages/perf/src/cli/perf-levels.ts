import { loadOf, measure } from '../perf/measure.ts'
import { searchLevels, searchOf } from '../perf/perf-run.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import {
  levelNames,
  levelText,
  settingsText,
  shownLevel,
  summaryText,
  windowText,
} from '../perf/report/console-report.ts'
import { resultOf } from '../perf/result.ts'
import { meetsThreshold, throughputOf } from '../perf/windows.ts'
import type { PerfResult } from '../perf/result-schema.ts'
import { tellLine } from 'zerohop/internals'
import type { PerfContext } from './perf-extension.ts'
import { perfExitCodes } from './perf-left-out.ts'
import { PerfProgress } from './progress-line.ts'

/** Measures the levels of the settings, and prints each when it is done. */
export async function measureLevels(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { options, target, settings, shown, signal, print, profile } = context
  const { load, latencyThresholdMs } = settings
  const { mode } = load
  const progress = new PerfProgress(options.json === true)
  const distribution = mode === 'request-rate' ? load.distribution : null
  print(settingsText({ ...settings, batchSize: options.batchSize, mode, distribution }))
  const measureLevel = async (at: number) => {
    const level = await measure(
      target,
      { level: at, load: loadOf(target.source, settings, at) },
      mode === 'periodic-concurrency' ? { ...settings, requestCount: 1 } : settings, // it ends by itself: one window
      {
        signal,
        ...(profile === null ? {} : { log: profile.begin(mode, at) }),
        onStart: (recorder) =>
          progress.begin(mode, at, settings.requestCount > 0 ? 1 : settings.maxTrials, recorder),
        onWindow: (window, trial) => {
          profile?.window(window)
          progress.window(trial)
          if (options.verbose)
            progress.without(() => print(windowText(trial, throughputOf(window), window.load.latency)))
        },
      },
    )
    const isWithin = meetsThreshold(level.percentile?.us ?? level.latency.averageUs, settings)
    progress.end()
    print(levelText(mode, level))
    if (!isWithin) print(`Measured latency went over the set limit of ${latencyThresholdMs} msec. \n`)
    else if (signal.aborted) tellLine('interrupted: these are the results up to then')
    else if (!level.stable)
      tellLine(level.requestCount === 0 ? nothingAnswered(mode, at) : unstable(settings, at))
    return { result: level, meetsThreshold: isWithin }
  }
  try {
    const levels = await searchLevels(searchOf(settings), measureLevel, signal)
    print(summaryText(mode, levels))
    // As in perf_analyzer: a single unstable level is a failure. An unstable level after others ends the
    // search, and the earlier ones are valid.
    const failed = levels.length === 1 && !levels[0]!.stable && !signal.aborted
    return {
      result: resultOf(target, shown, { mode, levels }),
      exitCode: failed ? perfExitCodes.unstable : 0,
    }
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
