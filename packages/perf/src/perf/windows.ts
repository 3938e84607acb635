import { pause } from './load/load-clock.ts'
import type { Load } from './load/load.ts'
import type { Recorder } from './load/recorder.ts'
import type { MeasureSettings } from './measure-settings.ts'
import type { MeasuredWindow } from './measured-window.ts'
import { fallsBehind, isStable, isTooSlow, stableWindows } from './stability.ts'
import type { WindowWatch } from './window-watch.ts'

/** A window lasts a little longer than was asked for, as perf_analyzer's. */
const intervalFactor = 1.2
/** How often it is looked whether a window by count is full, as in perf_analyzer. */
const countIntervalMs = 1000

/** A load that goes on, and how its windows are cut. */
export interface WindowRun {
  readonly recorder: Recorder
  readonly watch: WindowWatch
  readonly load: Load
  readonly settings: MeasureSettings
  readonly signal: AbortSignal | undefined
  readonly onWindow: ((window: MeasuredWindow, trial: number) => void) | undefined
}

/** The last windows, at most three, and whether they agree. */
export interface Windows {
  readonly windows: readonly MeasuredWindow[]
  readonly stable: boolean
}

/** Windows one after the other until the last three agree or went over the threshold, there have been `maxTrials`, or the load has come to its end. */
export async function windowsUntilStable({
  recorder,
  watch,
  load,
  settings,
  signal,
  onWindow,
}: WindowRun): Promise<Windows> {
  const windows: MeasuredWindow[] = []
  const ended = endOf(load, signal)
  for (let trial = 1; trial <= settings.maxTrials; trial++) {
    await windowEnd(recorder, settings, ended)
    const window = watch.cut()
    // What an end has cut short is worth something only where something was answered in it.
    if (!ended.aborted || window.load.requestCount > 0 || windows.length === 0) windows.push(window)
    // Those before count no more, and hold some hundred kilobytes each.
    if (windows.length > stableWindows) windows.shift()
    onWindow?.(window, trial)
    if (ended.aborted) break
    if (isStable(windows, settings, load.isOpen) && !(load.isOpen && fallsBehind(windows)))
      return { windows, stable: true }
    if (isTooSlow(windows, settings)) break
  }
  return { windows, stable: false }
}

/** All that a load sends, as one window: from its first request to its last answer. */
export async function countedWindow({
  watch,
  recorder,
  load,
  signal,
  onWindow,
}: WindowRun): Promise<Windows> {
  await untilAborted(endOf(load, signal))
  const window = watch.cut()
  const { firstSentMs, lastEndedMs } = recorder.span
  // After requests of warming up, from when the window began.
  if (firstSentMs > window.load.startMs) window.load.startMs = firstSentMs
  if (lastEndedMs > window.load.startMs) window.load.endMs = lastEndedMs
  onWindow?.(window, 1)
  return { windows: [window], stable: signal?.aborted !== true && window.load.requestCount > 0 }
}

/** Lets the requests of warming up go by. The first window begins in the moment in which the last of them ends: what ends after it, however soon, is measured. */
export async function warmedUp({
  recorder,
  watch,
  load,
  settings: { warmupRequestCount },
  signal,
}: WindowRun): Promise<void> {
  if (warmupRequestCount === 0) return
  const controller = new AbortController()
  recorder.onceEnded(warmupRequestCount, () => {
    watch.cut()
    controller.abort()
  })
  await untilAborted(AbortSignal.any([controller.signal, endOf(load, signal)]))
  if (!controller.signal.aborted) watch.cut()
}

async function windowEnd(
  recorder: Recorder,
  { measurementMode, measurementIntervalMs, measurementRequestCount }: MeasureSettings,
  ended: AbortSignal,
): Promise<void> {
  if (measurementMode === 'time_windows')
    return pause(recorder.clock, intervalFactor * measurementIntervalMs, ended)
  do await pause(recorder.clock, countIntervalMs, ended)
  while (
    recorder.current.requestCount + recorder.current.failureCount < measurementRequestCount &&
    !ended.aborted
  )
}

/** Aborted when the load has come to its end, or the user wants no more. */
function endOf(load: Load, signal: AbortSignal | undefined): AbortSignal {
  const controller = new AbortController()
  void load.finished.then(() => controller.abort())
  return signal === undefined ? controller.signal : AbortSignal.any([signal, controller.signal])
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })
}
