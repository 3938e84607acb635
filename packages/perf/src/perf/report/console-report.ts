import Table from 'cli-table3'
import type { ServerFigures } from 'zerohop/internals'
import { delayedAfterUs } from '../load/recorder.ts'
import type { MeasureSettings } from '../perf-settings.ts'
import type { InputLevels, LevelResult, LoadMode } from '../result-schema.ts'

/** Share of delayed requests that causes a warning, as in perf_analyzer. */
const warnedDelays = 0.01

/** Settings shown before the first level. */
interface ShownSettings extends MeasureSettings {
  readonly batchSize: number
  readonly mode: LoadMode
  readonly distribution: 'constant' | 'poisson' | null
}

/** The settings, as perf_analyzer prints them first. */
export function settingsText(settings: ShownSettings): string {
  const { percentile, requestCount, mode, distribution } = settings
  const measuring =
    mode === 'periodic-concurrency'
      ? ['  Sending until the last callers that are added have had their answers']
      : requestCount > 0
        ? [`  Sending a total of ${requestCount} requests`]
        : [
            `  Using "${settings.measurementMode}" mode for stabilization`,
            `  Stabilizing using ${percentile === null ? 'average' : `p${percentile}`} latency and throughput`,
            settings.measurementMode === 'time_windows'
              ? `  Measurement window: ${settings.measurementIntervalMs} msec`
              : `  Minimum number of samples in each window: ${settings.measurementRequestCount}`,
          ]
  const isScheduled = mode === 'request-rate' || mode === 'request-intervals'
  return `${linesOf(
    '*** Measurement Settings ***',
    `  Batch size: ${settings.batchSize}`,
    '  Service Kind: zerohop, in this process',
    ...measuring,
    settings.latencyThresholdMs > 0 && `  Latency limit: ${settings.latencyThresholdMs} msec`,
    distribution !== null &&
      `  Using ${distribution === 'constant' ? 'uniform' : 'poisson'} distribution on request generation`,
    `  Using ${isScheduled ? 'asynchronous calls, sent when they are due' : 'one call at a time of each caller'}`,
  ).join('\n')}\n\n`
}

/** The lines that are to be shown. */
function linesOf(...lines: readonly (string | false)[]): string[] {
  return lines.filter((line) => line !== false)
}

/** The result of one level. */
export function levelText(mode: LoadMode, result: LevelResult): string {
  return `${levelNames(mode).heading}: ${shownLevel(result.level)}\n${clientText(mode, result)}${processText(result)}${serverText(result)}${composingText(result)}\n`
}

/** The last lines: each level in one line. */
export function summaryText(mode: LoadMode, levels: readonly LevelResult[]): string {
  const stabilising = levels[0]?.percentile
  const lines = levels.map((level) => {
    const us = Math.round(level.percentile?.us ?? level.latency.averageUs)
    return `${levelNames(mode).summary}: ${shownLevel(level.level)}, throughput: ${decimals(level.inferencesPerSecond)} infer/sec, latency ${us} usec${level.stable ? '' : ' (not stable)'}`
  })
  return `Inferences/Second vs. Client ${stabilising == null ? 'Average' : `p${stabilising.percentile}`} Batch Latency\n${lines.join('\n')}\n`
}

/** One window, for --verbose. */
export function windowText(
  trial: number,
  throughput: number,
  latency: { averageUs: number; standardDeviationUs: number },
): string {
  return `  Pass [${trial}] throughput: ${decimals(throughput)} infer/sec. Avg latency: ${Math.round(latency.averageUs)} usec (std ${Math.round(latency.standardDeviationUs)} usec). \n`
}

function clientText(mode: LoadMode, result: LevelResult): string {
  const { windowSeconds, sentPerSecond, latency, sendLag, delayedCount, sequences, goodput } = result
  const failed = Object.entries(result.failures)
  const failedCount = failed.reduce((sum, [, count]) => sum + count, 0)
  const unansweredCount = result.unansweredCount ?? 0
  const delayedShare = delayedCount / Math.max(1, sentPerSecond * windowSeconds)
  const lines = linesOf(
    `Request count: ${result.requestCount}`,
    sendLag !== null && `Avg send request rate: ${decimals(sentPerSecond)} infer/sec`,
    sequences !== null &&
      `Sequence count: ${sequences} (${decimals(windowSeconds > 0 ? sequences / windowSeconds : 0)} seq/sec)`,
    failed.length > 0 &&
      `Failed Request Count: ${failedCount} (${failed.map(([code, count]) => `${code} ${count}`).join(', ')})`,
    unansweredCount > 0 && `Unanswered request count: ${unansweredCount}, at the end of the measurement`,
    `Throughput: ${decimals(result.inferencesPerSecond)} infer/sec`,
    goodput !== null &&
      `Goodput within ${goodput.withinMs} msec: ${decimals(goodput.perSecond)} requests/sec (${decimals(goodput.share * 100)} %)`,
    mode === 'concurrency' &&
      failed.length === 0 &&
      `Avg client overhead: ${decimals(clientOverhead(result) * 100)}%`,
    `Avg latency: ${Math.round(latency.averageUs)} usec (standard deviation ${Math.round(latency.standardDeviationUs)} usec)`,
    ...percentilesOf(result.percentile?.percentile).map(
      (number) => `p${number} latency: ${Math.round(percentileUs(result, number))} usec`,
    ),
    sendLag !== null &&
      `Avg send lag: ${Math.round(sendLag.averageUs)} usec (p99 ${Math.round(sendLag.p99Us)} usec), ${delayedCount} delayed by more than ${delayedAfterUs / 1000} msec`,
    sendLag !== null &&
      delayedShare > warnedDelays &&
      `[WARNING] ${decimals(delayedShare * 100)} % of the requests were sent more than ${delayedAfterUs / 1000} msec late: the thread that sends them was busy or paused, and their latency counts from when they were meant to be sent`,
  )
  return `  Client: \n${indented(lines)}`
}

/** Share of the callers' time in which they did not wait for an answer. */
function clientOverhead({ level, windowSeconds, requestCount, latency }: LevelResult): number {
  const waitedSeconds = (latency.averageUs * requestCount) / 1e6
  return windowSeconds > 0 ? Math.max(0, 1 - waitedSeconds / (windowSeconds * level)) : 0
}

function processText({ cpuCores, eventLoopDelay }: LevelResult): string {
  return `  Process: \n${indented([`CPU: ${decimals(cpuCores)} cores`, `Event loop delay: p50 ${Math.round(eventLoopDelay.p50Us)} usec, p99 ${Math.round(eventLoopDelay.p99Us)} usec, max ${Math.round(eventLoopDelay.maxUs)} usec`])}`
}

function serverText({ server, paddingShare }: LevelResult): string {
  const padding = paddingShare !== undefined && `Padding: ${decimals(paddingShare * 100)} % of what was run`
  return `  Server: \n${indented(linesOf(...serverLines(server), padding))}`
}

function composingText({ composingModels = [] }: LevelResult): string {
  if (composingModels.length === 0) return ''
  return `\n  Composing models: \n${composingModels.map(({ model, version, server }) => `  ${model}, version: ${version}\n${indented(serverLines(server))}`).join('')}`
}

function serverLines(server: ServerFigures): string[] {
  const us = (value: number) => `${Math.round(value)} usec`
  const compute = `compute input ${us(server.computeInputUs)} + compute infer ${us(server.computeInferUs)} + compute output ${us(server.computeOutputUs)}`
  const usesCache = server.cacheHitCount + server.cacheMissCount > 0
  return [
    `Inference count: ${server.inferenceCount}`,
    `Execution count: ${server.executionCount}`,
    ...(usesCache
      ? [`Cache hit count: ${server.cacheHitCount}`, `Cache miss count: ${server.cacheMissCount}`]
      : []),
    `Successful request count: ${server.successCount}`,
    `Avg request latency: ${us(server.requestUs)} (overhead ${us(server.overheadUs)} + queue ${us(server.queueUs)} + ${compute})`,
  ]
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `    ${line}\n`).join('')
}

function decimals(value: number): string {
  return String(Number(value.toFixed(2)))
}

/** Levels with one repeated request next to levels with requests that never repeat: the effect of caches. */
export function inputsText(mode: LoadMode, runs: readonly InputLevels[]): string {
  const table = new Table({
    head: [
      levelNames(mode).summary,
      'Inputs',
      'Different requests',
      'Infer/sec',
      'p50 us',
      'p99 us',
      'Compute us',
      'Cache hits',
      'Against unique',
    ],
    style: { head: [], border: [] },
  })
  const unique = runs.find(({ inputs }) => inputs === 'unique')
  const shown = new Set(runs.flatMap(({ levels }) => levels.map(({ level }) => level)))
  for (const level of shown) {
    for (const { inputs, distinct, levels } of runs) {
      const own = levels.find((each) => each.level === level)
      if (own === undefined) continue
      const { inferencesPerSecond, latency, server } = own
      const other = unique?.levels.find((each) => each.level === level)?.inferencesPerSecond ?? 0
      const looked = server.cacheHitCount + server.cacheMissCount
      table.push([
        shownLevel(level), inputs, distinct === null ? 'all' : `${distinct}`, `${Number(inferencesPerSecond.toFixed(2))}${own.stable ? '' : ' (not stable)'}`, `${Math.round(latency.p50Us)}`, `${Math.round(latency.p99Us)}`,
        `${Math.round(server.computeInputUs + server.computeInferUs + server.computeOutputUs)}`, looked === 0 ? '-' : `${Number(((100 * server.cacheHitCount) / looked).toFixed(1))} %`,
        unique === undefined || other === 0 ? '-' : `${(inferencesPerSecond / other).toFixed(3)} x`,
      ]) // prettier-ignore
    }
  }
  return `${table.toString()}\n`
}

/** perf_analyzer's names for levels: in a level's heading, in the last lines, and in a column heading. */
interface LevelNames {
  readonly heading: string
  readonly summary: string
  readonly column: string
}

const concurrency = { heading: 'Request concurrency', summary: 'Concurrency', column: 'Concurrency' }
const rate = { heading: 'Request Rate', summary: 'Request Rate', column: 'Request Rate' }
const names: Readonly<Record<LoadMode, LevelNames>> = {
  concurrency,
  'periodic-concurrency': concurrency,
  'request-rate': rate,
  'request-intervals': rate,
  replay: { heading: 'Replay speed', summary: 'Replay speed', column: 'Replay Speed' },
  scenario: { heading: 'Scenario level', summary: 'Scenario level', column: 'Scenario Level' },
}

/** The names of levels of a mode. */
export const levelNames = (mode: LoadMode): LevelNames => names[mode]

/** A level as text, without rounding errors: 0.1 + 0.2 is 0.3. */
export function shownLevel(level: number): string {
  return String(Number(level.toPrecision(10)))
}

const always = { 50: 'p50Us', 90: 'p90Us', 95: 'p95Us', 99: 'p99Us' } as const

/** The percentiles to report, ascending, including the user's own. */
export function percentilesOf(own: number | undefined): number[] {
  const numbers = new Set(Object.keys(always).map(Number))
  if (own !== undefined) numbers.add(own)
  return [...numbers].toSorted((a, b) => a - b)
}

/** One of them. */
export function percentileUs({ latency, percentile }: LevelResult, number: number): number {
  return percentile?.percentile === number ? percentile.us : latency[always[number as keyof typeof always]]
}
