import type { SampleSource } from './input/sample-source.ts'
import { ClosedLoop } from './load/closed-loop.ts'
import { type Load, loadClock, type LoadClock } from './load/load.ts'
import {
  constantSchedule,
  firstOf,
  intervalSchedule,
  metronome,
  OpenLoop,
  poissonSchedule,
  type Schedule,
} from './load/open-loop.ts'
import { Recorder, type RequestLog } from './load/recorder.ts'
import { type PerfTarget, sender } from './open-target.ts'
import type { MeasureSettings, PerfSettings } from './perf-settings.ts'
import type { LevelResult } from './result-schema.ts'
import { levelResult, type MeasuredWindow } from './result.ts'
import { countedWindow, warmedUp, type WindowRun, windowsUntilStable, WindowWatch } from './windows.ts'

/** One level of load: its name, and its load. A load is used once. */
interface LoadLevel {
  readonly level: number
  readonly load: Load
}

/** Optional inputs of a measurement. */
export interface MeasureHooks {
  readonly clock?: LoadClock
  /** Ends the measurement early. Its result covers what was measured so far, and is not stable. */
  readonly signal?: AbortSignal
  /** Called for each window. */
  readonly onWindow?: (window: MeasuredWindow, trial: number) => void
  /** Called with the recorder before anything is sent, to show progress. */
  readonly onStart?: (recorder: Recorder) => void
  /** Collects each request. */
  readonly log?: RequestLog
}

/**
 * Measures a model at one level of load, as perf_analyzer does: windows follow each other until three agree,
 * or there are too many. The result covers the last three.
 *
 * @throws errors of the model's statistics. Failed requests are counted.
 */
export async function measure(
  target: PerfTarget,
  { level, load }: LoadLevel,
  settings: MeasureSettings,
  hooks: MeasureHooks = {},
): Promise<LevelResult> {
  const { clock = loadClock, signal, log } = hooks
  const { model, source } = target
  const recorder = new Recorder(clock, log ?? null)
  const ending = new AbortController()
  let windows: readonly MeasuredWindow[]
  let stable: boolean
  let pendingCount = 0
  const watch = new WindowWatch(recorder, target)
  try {
    hooks.onStart?.(recorder)
    load.start(sender(model, load.isOpen ? ending.signal : null), recorder)
    const run: WindowRun = { recorder, watch, load, settings, signal, onWindow: hooks.onWindow }
    await warmedUp(run)
    ;({ windows, stable } = await (settings.requestCount > 0 ? countedWindow : windowsUntilStable)(run))
  } finally {
    watch.stop()
    pendingCount = recorder.pending
    const stopped = load.stop()
    // Requests of a schedule that the model cannot keep up with would take long to be answered, and are not
    // needed.
    ending.abort()
    // After an abort, answers are not awaited.
    if (signal?.aborted !== true) {
      await stopped
      await endSequences(model, source)
    }
  }
  return levelResult(windows, target, settings, { level, stable, isScheduled: load.isOpen, pendingCount })
}

/** Open sequences would disturb the next level's. */
async function endSequences(model: PerfTarget['model'], source: PerfTarget['source']): Promise<void> {
  const endings = source.endings?.() ?? []
  await Promise.allSettled(endings.map(({ feeds, options }) => model.infer(feeds, options)))
}

/** Makes the load of a level. */
export function loadOf(
  source: SampleSource,
  settings: Pick<PerfSettings, 'load' | 'seed' | 'sequences' | 'requestCount' | 'warmupRequestCount'>,
  level: number,
): Load {
  const { load, seed, sequences, requestCount, warmupRequestCount } = settings
  const count = requestCount > 0 ? warmupRequestCount + requestCount : Infinity
  const open = (schedule: Schedule) =>
    new OpenLoop(source, count === Infinity ? schedule : firstOf(schedule, count), {
      pacer: metronome,
      ...(sequences === null ? {} : { callers: sequences.count, serial: sequences.serial }),
    })
  switch (load.mode) {
    case 'concurrency':
      return new ClosedLoop(source, level, count)
    case 'periodic-concurrency':
      return new ClosedLoop(source, load.steps.start, Infinity, load.steps)
    case 'request-intervals':
      return open(intervalSchedule(load.intervalsUs))
    case 'request-rate':
      return open(load.distribution === 'constant' ? constantSchedule(level) : poissonSchedule(level, seed))
  }
}
