import type { LevelResult, PerfResult } from '../result.ts'
import { endedCount, failureCount, levelPhrase } from './levels.ts'
import { countOf, roundTimeOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'

/** One figure that is read before all others. */
export interface HeadlineFigure {
  readonly label: string
  readonly figure: string
  readonly unit?: string
  readonly detail: string
}

/** What a reader wants to know first: how much, how fast, and whether it can be believed. */
export function headlineOf({ mode, levels, machine }: PerfResult): HeadlineFigure[] {
  const answered = levels.filter(({ requestCount }) => requestCount > 0)
  if (answered.length === 0)
    return [
      {
        label: 'Answered requests',
        figure: '0',
        detail: `of ${countOf(sum(levels, endedCount))} at ${levels.length} level${levels.length === 1 ? '' : 's'}`,
      },
    ]
  const stable = answered.filter((level) => level.stable)
  const from = stable.length > 0 ? stable : answered
  const fastest = best(from, ({ inferencesPerSecond }) => inferencesPerSecond)
  const quickest = best(from, ({ latency }) => -latency.p99Us)
  const at = (level: LevelResult) => `at ${levelPhrase(mode, level)}`
  const { server } = fastest
  const cores = machine['cores'] === undefined ? '' : ` of ${machine['cores']}`
  return [
    {
      label: stable.length > 0 ? 'Peak throughput' : 'Peak throughput, unstable',
      figure: countOf(fastest.inferencesPerSecond),
      unit: 'inferences/s',
      detail: `${at(fastest)}, p99 ${timeOf(fastest.latency.p99Us)}`,
    },
    {
      label: levels.length > 1 ? 'Lowest p99 latency' : 'p99 latency',
      figure: timeOf(quickest.latency.p99Us),
      detail: `${at(quickest)}, p50 ${timeOf(quickest.latency.p50Us)}`,
    },
    ...goodputFigure(from, at),
    {
      label: 'Mean batch at the peak',
      figure: countOf(server.executionCount > 0 ? server.inferenceCount / server.executionCount : NaN),
      unit: 'rows',
      detail: `${countOf(server.executionCount)} executions`,
    },
    { label: 'CPU at the peak', figure: countOf(fastest.cpuCores), unit: 'cores', detail: `busy${cores}` },
    failureFigure(levels),
  ]
}

function goodputFigure(levels: readonly LevelResult[], at: (level: LevelResult) => string): HeadlineFigure[] {
  const bounded = levels.filter(({ goodput }) => goodput !== null)
  if (bounded.length === 0) return []
  const level = best(bounded, ({ goodput }) => goodput!.perSecond)
  const { withinMs, perSecond } = level.goodput!
  return [
    {
      label: `Best goodput within ${roundTimeOf(withinMs * 1000)}`,
      figure: countOf(perSecond),
      unit: 'requests/s',
      detail: at(level),
    },
  ]
}

function failureFigure(levels: readonly LevelResult[]): HeadlineFigure {
  const failed = sum(levels, ({ failures }) => failureCount(failures))
  const ended = sum(levels, endedCount)
  return {
    label: 'Failed requests',
    figure: countOf(failed),
    detail: `${shareOf(ended > 0 ? failed / ended : 0)} of ${countOf(ended)}`,
  }
}

function best(levels: readonly LevelResult[], score: (level: LevelResult) => number): LevelResult {
  const scoreOf = (level: LevelResult) => (Number.isFinite(score(level)) ? score(level) : -Infinity)
  return levels.reduce((a, b) => (scoreOf(b) > scoreOf(a) ? b : a))
}

function sum(levels: readonly LevelResult[], count: (level: LevelResult) => number): number {
  return levels.reduce((before, level) => before + count(level), 0)
}
