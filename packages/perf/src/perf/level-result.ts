import { figuresOf } from './latency-figures.ts'
import { DurationHistogram } from './load/duration-histogram.ts'
import { LoadWindow } from './load/load-window.ts'
import type { MeasuredWindow } from './measured-window.ts'
import type { ComposedModel, PerfTarget } from './perf-target.ts'
import type { ComposingModel, LevelResult } from './result.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  paddingOf,
  serverFigures,
  spanOf,
  type StatisticsSpan,
} from 'zerohop/internals'

/** Bars of the histogram between a latency and twice as much. */
const barsPerOctave = 8

/** What is said of a level beside its windows. */
export interface LevelOutcome {
  readonly level: number
  readonly stable: boolean
  /** Whether requests were meant to be sent at certain moments. */
  readonly isScheduled: boolean
  /** Requests under way at the end. */
  readonly pendingCount: number
  /** The user's own percentile; `null` for none. */
  readonly percentile: number | null
  /** Answers within so long count as good; `null` for no such bound. */
  readonly goodputMs: number | null
}

/** Joins windows that follow each other to the result of their level. */
export function levelResult(
  windows: readonly MeasuredWindow[],
  { composingModels = [] }: Pick<PerfTarget, 'composingModels'>,
  { level, stable, isScheduled, pendingCount, percentile, goodputMs }: LevelOutcome,
): LevelResult {
  const load = new LoadWindow(0)
  const eventLoopDelay = new DurationHistogram()
  for (const window of windows) {
    load.add(window.load)
    eventLoopDelay.add(window.eventLoopDelay)
  }
  const { seconds, latency } = load
  const span = spanOf(windows.map(({ server }) => server))
  const perSecond = (count: number) => (seconds > 0 ? count / seconds : 0)
  const good = goodputMs === null ? 0 : latency.countUpTo(goodputMs * 1000)
  return {
    level,
    stable,
    windowSeconds: seconds,
    requestCount: load.requestCount,
    inferenceCount: load.inferenceCount,
    inferencesPerSecond: perSecond(load.inferenceCount),
    latency: figuresOf(latency),
    latencyHistogram: latency.bars(barsPerOctave),
    server: serverFigures(span),
    batchSizes: batchSizesOf(span),
    batchReasons: batchReasonsOf(span),
    ...paddingOf(span),
    failures: load.failures,
    sendLag: isScheduled ? figuresOf(load.sendLag) : null,
    delayedCount: load.delayedCount,
    eventLoopDelay: figuresOf(eventLoopDelay),
    cpuCores: perSecond(windows.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)),
    goodput:
      goodputMs === null
        ? null
        : {
            withinMs: goodputMs,
            perSecond: perSecond(good),
            share: load.requestCount === 0 ? 0 : good / (load.requestCount + load.failureCount),
          },
    ...(composingModels.length === 0
      ? {}
      : {
          composingModels: composingModels.map((model, index) =>
            composingModel(model, spanOf(windows.map(({ composing }) => composing[index]!))),
          ),
        }),
    sequences:
      windows[0]!.sequences === null
        ? null
        : windows.reduce((sum, { sequences }) => sum + (sequences ?? 0), 0),
    ...(isScheduled ? { unansweredCount: pendingCount } : {}),
    sentPerSecond: perSecond(load.sentCount),
    percentile: percentile === null ? null : { percentile, us: latency.quantileUs(percentile / 100) },
  }
}

function composingModel({ name, version }: ComposedModel, span: StatisticsSpan): ComposingModel {
  return { model: name, version, server: serverFigures(span), batchSizes: batchSizesOf(span) }
}
