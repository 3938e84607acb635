import { availableParallelism, cpus } from 'node:os'
import type { Capabilities } from 'zerohop'
import {
  availableMemory,
  batchReasonsOf,
  batchSizesOf,
  libraryVersion,
  paddingOf,
  serverFigures,
  spanOf,
} from 'zerohop/internals'
import { DurationHistogram, LoadWindow } from './load/recorder.ts'
import type { PerfTarget } from './open-target.ts'
import type { MeasureSettings } from './perf-settings.ts'
import type { LatencyFigures, LevelResult, PerfResult } from './result-schema.ts'

/** A result of now. */
export function resultOf(
  { model: { name, version }, machine = {} }: Pick<PerfTarget, 'model' | 'machine'>,
  settings: PerfResult['settings'],
  found: Omit<PerfResult, 'model' | 'version' | 'settings' | 'machine' | 'date'>,
): PerfResult {
  return { model: name, version, settings, machine, date: new Date().toISOString(), ...found }
}

/** Bars of the histogram per doubling of the latency. */
const barsPerOctave = 8

/**
 * Joins consecutive windows to the result of their level.
 *
 * @param isScheduled whether requests had intended moments of sending.
 * @param pendingCount requests in flight at the end.
 */
export function levelResult(
  windows: readonly MeasuredWindow[],
  { composingModels = [] }: Pick<PerfTarget, 'composingModels'>,
  { percentile, goodputMs }: Pick<MeasureSettings, 'percentile' | 'goodputMs'>,
  {
    isScheduled,
    pendingCount,
    ...level
  }: Pick<LevelResult, 'level' | 'stable'> & { isScheduled: boolean; pendingCount: number },
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
    ...level,
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
    ...(composingModels.length > 0 && {
      composingModels: composingModels.map(({ name: model, version }, index) => {
        const own = spanOf(windows.map(({ composing }) => composing[index]!))
        return { model, version, server: serverFigures(own), batchSizes: batchSizesOf(own) }
      }),
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

/** The figures of many durations. */
function figuresOf(durations: DurationHistogram): LatencyFigures {
  return {
    averageUs: durations.averageUs,
    standardDeviationUs: durations.standardDeviationUs,
    p50Us: durations.quantileUs(0.5),
    p90Us: durations.quantileUs(0.9),
    p95Us: durations.quantileUs(0.95),
    p99Us: durations.quantileUs(0.99),
    p999Us: durations.quantileUs(0.999),
    maxUs: durations.maxUs,
  }
}

/** What was seen between two moments: by the callers, in the engine, and of the process. */
export interface MeasuredWindow {
  readonly load: LoadWindow
  /** The model's statistics. */
  readonly server: ReturnType<typeof spanOf>
  /** The statistics of the models of an ensemble's steps, in order. */
  readonly composing: readonly ReturnType<typeof spanOf>[]
  readonly eventLoopDelay: DurationHistogram
  /** Sequences begun; `null` without sequences. */
  readonly sequences: number | null
  /** Processor time of the process. */
  readonly cpuSeconds: number
}

/** Facts about the machine that figures depend on. */
export function machineFacts({ cpu, node, onnxruntime, executor }: Capabilities): PerfResult['machine'] {
  return {
    cores: availableParallelism(),
    coresInUse: cpu.cores,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Number((availableMemory().usableBytes / 2 ** 30).toFixed(1)),
    system: `${process.platform}-${process.arch}`,
    node,
    zerohop: libraryVersion,
    onnxruntime: onnxruntime ?? executor.ortVersion ?? 'unknown',
    executor: executor.kind ?? 'none',
  }
}
