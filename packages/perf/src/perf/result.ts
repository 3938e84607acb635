import { availableParallelism, cpus } from 'node:os'
import type { Capabilities } from 'zerohop'
import {
  availableMemory,
  batchReasonsOf,
  batchSizesOf,
  libraryVersion,
  paddingOf,
  type ServerFigures,
  serverFigures,
  spanOf,
} from 'zerohop/internals'
import type { AccuracyResult } from './accuracy/check-rows.ts'
import { DurationHistogram, LoadWindow } from './load/recorder.ts'
import type { ComposedModel, PerfTarget } from './open-target.ts'
import type { ScenarioResult } from './scenarios/judge-run.ts'

/**
 * The result of `zerohop perf`, for its reports, the tuner and the benchmarks. Times are in microseconds
 * unless the name says otherwise.
 */
export interface PerfResult {
  readonly model: string
  readonly version: number
  /** Every setting that a repetition needs, under the names of the command line. */
  readonly settings: Readonly<Record<string, unknown>>
  /** The settings that were given; the others have their defaults. Left out if unknown. */
  readonly given?: readonly string[]
  /** Cores, processor, versions of Node, ONNX Runtime and zerohop. */
  readonly machine: Readonly<Record<string, string | number>>
  /** ISO 8601. */
  readonly date: string
  readonly mode: LoadMode
  /** In the order of measurement. */
  readonly levels: readonly LevelResult[]
  /** The result of a LoadGen scenario (`--scenario`), which has no levels. */
  readonly scenario?: ScenarioResult
  /** The comparison of answers with those alone (`--check-rows`), which has no levels. */
  readonly accuracy?: AccuracyResult
  /** The levels by kind of requests (`--inputs`): one repeated request, or requests that never repeat. */
  readonly inputs?: readonly InputLevels[]
}

/** A result of now. */
export function resultOf(
  { model: { name, version }, machine = {} }: Pick<PerfTarget, 'model' | 'machine'>,
  settings: PerfResult['settings'],
  found: Omit<PerfResult, 'model' | 'version' | 'settings' | 'machine' | 'date'>,
): PerfResult {
  return { model: name, version, settings, machine, date: new Date().toISOString(), ...found }
}

/** The levels of a run with one kind of requests. */
export interface InputLevels {
  readonly inputs: 'same' | 'unique'
  /** Number of different requests; `null` if they never repeat. */
  readonly distinct: number | null
  readonly levels: readonly LevelResult[]
}

/** How requests are sent: so many at once, or so many per second without waiting. */
export type LoadMode =
  | 'concurrency'
  | 'request-rate'
  | 'request-intervals'
  | 'periodic-concurrency'
  | 'replay'
  | 'scenario'

/** One level of load: the merged windows that it was judged by. */
export interface LevelResult {
  /** Concurrent requests, or requests per second; the speed of a replay. */
  readonly level: number
  /** Whether the last windows agreed within `--stability-percentage`. */
  readonly stable: boolean
  readonly windowSeconds: number
  /** Requests answered within the windows. */
  readonly requestCount: number
  /** Rows of these requests. */
  readonly inferenceCount: number
  /** Rows per second. */
  readonly inferencesPerSecond: number
  /** From the intended moment of sending, if there is one, to the answer. */
  readonly latency: LatencyFigures
  /** Histogram of the latencies: ascending bounds, each with the count up to it and above the one before. */
  readonly latencyHistogram: readonly { readonly upToUs: number; readonly count: number }[]
  /** The engine's statistics of the same windows, as means per request. */
  readonly server: ServerFigures
  readonly batchSizes: readonly { readonly batchSize: number; readonly count: number }[]
  /** Why batches were closed, with counts. */
  readonly batchReasons: Readonly<Record<string, number>>
  /** Share of padding in padded inputs; left out if nothing was padded. */
  readonly paddingShare?: number
  /** Failed requests by error code. */
  readonly failures: Readonly<Record<string, number>>
  /** How late requests were sent after the intended moment; `null` without intended moments. */
  readonly sendLag: LatencyFigures | null
  /** Requests sent more than 1 ms late. */
  readonly delayedCount: number
  /** How late the timers of the application's thread were. */
  readonly eventLoopDelay: LatencyFigures
  /** Cores that the process kept busy. */
  readonly cpuCores: number
  /** Answers within the bound, if one was given. */
  readonly goodput: { readonly withinMs: number; readonly perSecond: number; readonly share: number } | null
  /** The models of an ensemble's steps; left out for other models. */
  readonly composingModels?: readonly ComposingModel[]
  /** Sequences begun; `null` for a model without sequences. */
  readonly sequences: number | null
  /**
   * Scheduled requests that were not answered when the measurement ended. They are in no other count. Left
   * out for other loads.
   */
  readonly unansweredCount?: number
  /** Requests sent per second. */
  readonly sentPerSecond: number
  /** The user's own percentile of the latencies (`--percentile`); `null` without one. */
  readonly percentile: { readonly percentile: number; readonly us: number } | null
}

/** The engine's statistics of one model of an ensemble, in the same windows. */
interface ComposingModel {
  readonly model: string
  readonly version: number
  readonly server: ServerFigures
  readonly batchSizes: LevelResult['batchSizes']
}

/** Figures of many durations, in microseconds; zeros without durations. */
export interface LatencyFigures {
  readonly averageUs: number
  readonly standardDeviationUs: number
  readonly p50Us: number
  readonly p90Us: number
  readonly p95Us: number
  readonly p99Us: number
  readonly p999Us: number
  readonly maxUs: number
}

/** Bars of the histogram per doubling of the latency. */
const barsPerOctave = 8

/** Facts about a level besides its windows. */
interface LevelOutcome {
  readonly level: number
  readonly stable: boolean
  /** Whether requests had intended moments of sending. */
  readonly isScheduled: boolean
  /** Requests in flight at the end. */
  readonly pendingCount: number
  /** The user's own percentile; `null` for none. */
  readonly percentile: number | null
  /** Answers within this time count as good; `null` for no bound. */
  readonly goodputMs: number | null
}

/** Joins consecutive windows to the result of their level. */
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

function composingModel({ name, version }: ComposedModel, span: ReturnType<typeof spanOf>): ComposingModel {
  return { model: name, version, server: serverFigures(span), batchSizes: batchSizesOf(span) }
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
