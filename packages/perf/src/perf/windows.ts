import type { ModelStatistics } from 'zerohop'
import { LateTimers } from 'zerohop/internals'
import { type Load, pause } from './load/load.ts'
import { notSentCode } from './load/open-loop.ts'
import { DurationHistogram, Recorder } from './load/recorder.ts'
import type { PerfTarget } from './open-target.ts'
import type { MeasureSettings } from './perf-settings.ts'
import type { MeasuredWindow } from './result.ts'

/** A window lasts slightly longer than requested, as in perf_analyzer. */
const intervalFactor = 1.2
/** How often a window by count is checked for being full, as in perf_analyzer. */
const countIntervalMs = 1000

/** A running load, and how to cut its windows. */
export interface WindowRun {
  readonly recorder: Recorder
  readonly watch: WindowWatch
  readonly load: Load
  readonly settings: MeasureSettings
  readonly signal: AbortSignal | undefined
  readonly onWindow: ((window: MeasuredWindow, trial: number) => void) | undefined
}

/** The last windows, at most three, and whether they agree. */
interface Windows {
  readonly windows: readonly MeasuredWindow[]
  readonly stable: boolean
}

/**
 * Measures windows until the last three agree or exceed the threshold, there have been `maxTrials`, or the
 * load has ended.
 */
export async function windowsUntilStable(run: WindowRun): Promise<Windows> {
  const { recorder, watch, load, settings, signal, onWindow } = run
  const windows: MeasuredWindow[] = []
  const ended = endOf(load, signal)
  for (let trial = 1; trial <= settings.maxTrials; trial++) {
    await windowEnd(recorder, settings, ended)
    const window = watch.cut()
    // A window cut short by the end counts only if it has answers.
    if (!ended.aborted || window.load.requestCount > 0 || windows.length === 0) windows.push(window)
    // Earlier windows do not count any more, and take some hundred kilobytes each.
    if (windows.length > stableWindows) windows.shift()
    onWindow?.(window, trial)
    if (ended.aborted) break
    if (isStable(windows, settings, load.isOpen) && !(load.isOpen && fallsBehind(windows)))
      return { windows, stable: true }
    if (isTooSlow(windows, settings)) break
  }
  return { windows, stable: false }
}

/** The whole load as one window, from its first request to its last answer. */
export async function countedWindow(run: WindowRun): Promise<Windows> {
  const { watch, recorder, load, signal, onWindow } = run
  await untilAborted(endOf(load, signal))
  const window = watch.cut()
  const { firstSentMs, lastEndedMs } = recorder.span
  // After warm-up requests: from the beginning of the window.
  if (firstSentMs > window.load.startMs) window.load.startMs = firstSentMs
  if (lastEndedMs > window.load.startMs) window.load.endMs = lastEndedMs
  onWindow?.(window, 1)
  return { windows: [window], stable: signal?.aborted !== true && window.load.requestCount > 0 }
}

/**
 * Waits for the warm-up requests. The first window begins when the last of them ends; everything that ends
 * later is measured.
 */
export async function warmedUp(run: WindowRun): Promise<void> {
  const { recorder, watch, load, settings, signal } = run
  const { warmupRequestCount } = settings
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

/** Aborted when the load has ended, or the user aborts. */
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

/** Windows that have to agree. */
const stableWindows = 3

/**
 * How fast latency may grow, as a share of elapsed time. Faster growth means that the model cannot keep up
 * with the load.
 */
const laterShare = 0.01

/** How to judge a measurement. */
export interface StabilityRule {
  /** Allowed difference of windows: 0.1 for 10 %. */
  readonly stability: number
  /** The latency that has to be stable and below the threshold: a percentile, or `null` for the average. */
  readonly percentile: number | null
  /** The threshold of that latency, in milliseconds; 0 for none. */
  readonly latencyThresholdMs: number
}

/** The latency by which a window is judged. */
function stabilisingUs({ load: { latency } }: MeasuredWindow, { percentile }: StabilityRule): number {
  return percentile === null ? latency.averageUs : latency.quantileUs(percentile / 100)
}

/** Whether a latency is below the threshold; true without one. */
export function meetsThreshold(us: number, { latencyThresholdMs }: StabilityRule): boolean {
  return latencyThresholdMs === 0 || us < latencyThresholdMs * 1000
}

/** Rows per second of a window. */
export function throughputOf({ load }: MeasuredWindow): number {
  return load.seconds > 0 ? load.inferenceCount / load.seconds : 0
}

/**
 * Whether the last three windows agree in throughput and latency. They do not if one of them has no answers.
 *
 * @param isScheduled whether requests are sent by a schedule. Whether a request due at the edge of a window
 * falls inside is then chance, and is ignored.
 */
function isStable(windows: readonly MeasuredWindow[], rule: StabilityRule, isScheduled: boolean): boolean {
  if (windows.length < stableWindows) return false
  const throughputs = windows.map(throughputOf)
  if (throughputs.some((throughput) => throughput === 0)) return false
  const counts = windows.map(({ load }) => load.requestCount + load.failureCount)
  const isSameSchedule = isScheduled && Math.max(...counts) - Math.min(...counts) <= 2
  return (
    (isSameSchedule || areClose(throughputs, rule.stability)) &&
    areClose(
      windows.map((window) => stabilisingUs(window, rule)),
      rule.stability,
    )
  )
}

/**
 * Whether the last three windows exceed the threshold, so that the verdict is clear. perf_analyzer stops
 * after a single one, which a pause of the machine can cause.
 */
function isTooSlow(windows: readonly MeasuredWindow[], rule: StabilityRule): boolean {
  return (
    windows.length >= stableWindows &&
    windows.every((window) => !meetsThreshold(stabilisingUs(window, rule), rule))
  )
}

/**
 * Whether scheduled requests wait longer and longer in each of the last three windows. After many windows the
 * growth is small compared with the accumulated wait, so that they would seem to agree.
 */
function fallsBehind(windows: readonly MeasuredWindow[]): boolean {
  const last = windows.map(({ load }) => load)
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

/** Cuts time into consecutive windows. */
export class WindowWatch {
  readonly #recorder: Recorder
  readonly #target: PerfTarget
  readonly #timers: LateTimers
  #delays = new DurationHistogram()
  /** Statistics of the model, and of the models of its steps. */
  #before: readonly ModelStatistics[]
  #sequencesBefore: number
  #cpu = process.cpuUsage()

  constructor(recorder: Recorder, target: PerfTarget) {
    this.#recorder = recorder
    this.#target = target
    this.#timers = new LateTimers(recorder.clock, (lateMs) => this.#delays.record(lateMs * 1000))
    this.#before = this.#statistics()
    this.#sequencesBefore = target.source.sequenceCount ?? 0
    this.#timers.start()
  }

  /** Ends a window and begins the next. */
  cut(): MeasuredWindow {
    const load = this.#recorder.cut()
    const after = this.#statistics()
    const [server, ...composing] = this.#before.map((before, index) => ({ before, after: after[index]! }))
    this.#before = after
    const eventLoopDelay = this.#delays
    this.#delays = new DurationHistogram()
    const spent = process.cpuUsage(this.#cpu)
    this.#cpu = process.cpuUsage()
    return {
      load,
      server: server!,
      composing,
      sequences: this.#sequences(),
      eventLoopDelay,
      cpuSeconds: (spent.user + spent.system) / 1e6,
    }
  }

  stop(): void {
    this.#timers.stop()
  }

  #statistics(): ModelStatistics[] {
    const { model, composingModels = [] } = this.#target
    return [model, ...composingModels].map((each) => each.stats())
  }

  #sequences(): number | null {
    const { sequenceCount } = this.#target.source
    if (sequenceCount === undefined) return null
    const begun = sequenceCount - this.#sequencesBefore
    this.#sequencesBefore = sequenceCount
    return begun
  }
}
