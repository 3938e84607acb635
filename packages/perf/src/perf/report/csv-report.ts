import type { LevelResult, PerfResult } from '../result-schema.ts'
import { levelNames, percentilesOf, percentileUs, shownLevel } from './console-report.ts'

interface Column {
  readonly name: string
  readonly value: (result: LevelResult) => number | string
}

/**
 * In-process calls take single microseconds. Below 100, rounding to whole numbers would be an error of some
 * percent.
 */
const us = (value: number) => (value < 100 ? Math.round(value * 10) / 10 : Math.round(value))

/**
 * The result as a table, one line per level, by rising throughput; times in microseconds. Columns and their
 * order are perf_analyzer's: `Client Send` is how late requests were sent, and the network columns are the
 * time between caller and engine.
 *
 * @param verbose whether to add further columns.
 */
export function csvReport({ mode, levels }: Pick<PerfResult, 'mode' | 'levels'>, verbose: boolean): string {
  return table(columnsOf(levelNames(mode).column, levels, verbose), levels)
}

/**
 * The table for one model of an ensemble, without the callers' view: its own overhead replaces the network.
 * `index` is its position among the composing models.
 */
export function composingCsvReport(
  { mode, levels }: Pick<PerfResult, 'mode' | 'levels'>,
  index: number,
): string {
  const asLevels = levels.map((level): LevelResult => {
    const { server } = level.composingModels![index]!
    return {
      ...level,
      server,
      sendLag: null,
      latency: { ...level.latency, averageUs: server.requestUs },
      inferencesPerSecond: server.inferenceCount / Math.max(level.windowSeconds, Number.EPSILON),
    }
  })
  const columns = serverColumns(levelNames(mode).column, asLevels)
  return table(columns, asLevels)
}

function table(columns: readonly Column[], levels: readonly LevelResult[]): string {
  const rows = levels.toSorted((a, b) => a.inferencesPerSecond - b.inferencesPerSecond)
  const lines = [
    columns.map(({ name }) => name),
    ...rows.map((result) => columns.map(({ value }) => value(result))),
  ]
  return `${lines.map((line) => line.join(',')).join('\n')}\n`
}

function serverColumns(level: string, levels: readonly LevelResult[]): Column[] {
  const usesCache = levels.some(({ server }) => server.cacheHitCount + server.cacheMissCount > 0)
  return [
    { name: level, value: ({ level }) => shownLevel(level) },
    { name: 'Inferences/Second', value: ({ inferencesPerSecond }) => Number(inferencesPerSecond.toFixed(2)) },
    { name: 'Client Send', value: (result) => us(clientSendUs(result)) },
    {
      name: 'Network+Server Send/Recv',
      value: (result) =>
        us(
          Math.max(
            0,
            result.latency.averageUs - clientSendUs(result) - result.server.queueUs - computeUs(result),
          ),
        ),
    },
    { name: 'Server Queue', value: ({ server }) => us(server.queueUs) },
    { name: 'Server Compute Input', value: ({ server }) => us(server.computeInputUs) },
    { name: 'Server Compute Infer', value: ({ server }) => us(server.computeInferUs) },
    { name: 'Server Compute Output', value: ({ server }) => us(server.computeOutputUs) },
    ...(usesCache
      ? [
          { name: 'Server Cache Hit', value: ({ server }: LevelResult) => us(server.cacheHitUs) },
          { name: 'Server Cache Miss', value: ({ server }: LevelResult) => us(server.cacheMissUs) },
        ]
      : []),
    { name: 'Client Recv', value: () => 0 },
  ]
}

function columnsOf(level: string, levels: readonly LevelResult[], verbose: boolean): Column[] {
  const own = levels[0]?.percentile?.percentile
  return [
    ...serverColumns(level, levels),
    ...percentilesOf(own).map((number): Column => ({
      name: `p${number} latency`,
      value: (result) => us(percentileUs(result, number)),
    })),
    ...(verbose && own === undefined ? [averageColumn] : []), // as in perf_analyzer, if the average has to be stable
    ...(verbose ? verboseColumns : []),
  ]
}

const averageColumn: Column = { name: 'Avg latency', value: ({ latency }) => us(latency.averageUs) }
const verboseColumns: readonly Column[] = [
  { name: 'request/response', value: (result) => us(clientSendUs(result)) },
  {
    name: 'response wait',
    value: (result) => us(Math.max(0, result.latency.averageUs - clientSendUs(result))),
  },
]

function clientSendUs({ sendLag }: LevelResult): number {
  return sendLag?.averageUs ?? 0
}

function computeUs({ server }: Pick<LevelResult, 'server'>): number {
  return server.computeInputUs + server.computeInferUs + server.computeOutputUs
}
