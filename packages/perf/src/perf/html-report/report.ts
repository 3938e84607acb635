import { countOf, roundTimeOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type { LevelResult, LoadMode, PerfResult } from '../result-schema.ts'
import {
  breakdownSection,
  curveSection,
  distributionSection,
  endedCount,
  failureCount,
  levelPhrase,
  meanRowsOf,
  percentileSection,
} from './level-sections.ts'
import { type HeadlineFigure, renderPage, type Section } from './report-page.ts'
import {
  accuracySection,
  composingSection,
  configurationSection,
  inputsSection,
  processSection,
} from './run-sections.ts'
import {
  failureSection,
  goodputSection,
  reasonSection,
  scenarioHeadline,
  scenarioSection,
} from './scenario-sections.ts'

const loads: Readonly<Record<LoadMode, string>> = {
  concurrency: 'a fixed number of requests at once',
  'periodic-concurrency': 'requests at once, more by and by',
  'request-rate': 'a fixed number of requests a second',
  'request-intervals': 'requests at given intervals',
  replay: 'a recording of arrivals, replayed',
  scenario: 'a scenario of MLPerf LoadGen',
}

/**
 * A result as one self-contained HTML page, which also works on phones, in dark mode, on paper and with
 * screen readers.
 *
 * @param more sections before the configuration.
 */
export function reportOf(result: PerfResult, more: readonly Section[] = []): string {
  const measured = [
    curveSection,
    percentileSection,
    breakdownSection,
    composingSection,
    distributionSection,
    reasonSection,
    goodputSection,
    failureSection,
    processSection,
  ]
  const sections = result.levels.length === 0 ? [] : measured.flatMap((section) => section(result) ?? [])
  const others = [scenarioSection, accuracySection, inputsSection].flatMap((section) => section(result) ?? [])
  return renderPage({
    title: `Performance of ${result.model}`,
    about: `Version ${result.version} · ${dateOf(result.date)} · ${loads[result.mode] ?? result.mode}${inputsOf(result)}`,
    notices: noticesOf(result),
    headline: headlineFor(result),
    sections: [...others, ...sections, ...more, configurationSection(result)],
  })
}

/** The inputs of the levels, if given. */
function inputsOf({ inputs }: PerfResult): string {
  return inputs === undefined ? '' : ` · ${inputs.at(-1)!.inputs} inputs`
}

/** The headline of a result of any kind. */
export function headlineFor(result: PerfResult): HeadlineFigure[] {
  const { scenario, levels } = result
  return [
    ...(scenario === undefined ? [] : scenarioHeadline(scenario)),
    ...(levels.length === 0 && hasOthers(result) ? [] : headlineOf(result)),
  ]
}

/** Whether there is a result other than levels. */
function hasOthers({ scenario, accuracy }: PerfResult): boolean {
  return scenario !== undefined || accuracy !== undefined
}

function noticesOf(result: PerfResult): string[] {
  const { mode, levels } = result
  if (levels.length === 0) return hasOthers(result) ? [] : ['No level was measured to its end.']
  const unstable = levels.filter(({ stable }) => !stable)
  const phrase = (level: LevelResult) => levelPhrase(mode, level)
  const shown =
    unstable.length > 5 ? `${unstable.length} of ${levels.length} levels` : unstable.map(phrase).join(', ')
  return unstable.length === 0
    ? []
    : [
        `Not stable: ${shown}. The last windows differed by more than was allowed; read these figures as a hint.`,
      ]
}

/** A date in readable form, in UTC; other text unchanged. */
export function dateOf(iso: string): string {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return iso
  return `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(date)} UTC`
}

/** The headline of levels: throughput, latency and reliability. */
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
      figure: meanRowsOf(server),
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
