import type { Curve, Series, View } from '../../web-page/charts/chart.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { LevelResult, PerfResult, ScenarioResult } from '../result-schema.ts'
import { comparedLevelsSection, placesOf } from './compared-levels.ts'
import {
  binsOf,
  closeUpSection,
  curveChart,
  latencyCurve,
  levelAxis,
  levelPhrase,
  plotted,
} from './level-sections.ts'
import {
  comparedColour,
  type HeadlineFigure,
  type NamedResult,
  type Part,
  renderPage,
  type Section,
  tablePart,
} from './report-page.ts'
import { dateOf, headlineFor, headlineOf } from './report.ts'
import { settingText } from './run-sections.ts'

/**
 * Several results side by side, as one HTML page like that of one result. The first is the reference for the
 * others.
 */
export function comparisonOf(compared: readonly NamedResult[]): string {
  const modes = new Set(compared.map(({ result }) => levelAxis(result.mode)))
  const notices =
    modes.size > 1
      ? ['They were measured under different kinds of load: levels are not compared, only what came of them.']
      : []
  const unstable = compared.flatMap(({ name, result }) =>
    result.levels.some(({ stable }) => !stable) ? [name] : [],
  )
  return renderPage({
    title: compared.map(({ name }) => name).join(' against '),
    about: compared
      .map(
        ({ name, result }) => `${name}: ${result.model}, version ${result.version}, ${dateOf(result.date)}`,
      )
      .join(' · '),
    notices:
      unstable.length === 0
        ? notices
        : [...notices, `Some levels did not become stable: of ${unstable.join(', ')}.`],
    headline: compared.flatMap(({ name, result }) =>
      headlineFor(result)
        .slice(0, 2)
        .map((figure) => ({ ...figure, label: `${name}: ${figure.label}` })),
    ),
    sections: [
      ...comparedScenariosSection(compared),
      ...(compared.every(({ result }) => result.levels.length === 0 && result.scenario !== undefined)
        ? []
        : levelSections(compared, modes.size === 1)),
      differencesSection(compared),
    ],
  })
}

function levelSections(compared: readonly NamedResult[], areLevelsAlike: boolean): Section[] {
  return [
    curvesSection(compared),
    ...(areLevelsAlike ? [comparedLevelsSection(compared)] : []),
    comparedDistributionsSection(compared, areLevelsAlike),
  ]
}

/** Each result's p50 and p99 over its throughput. */
function curvesSection(compared: readonly NamedResult[]): Section {
  const curves = compared.map(({ name, result }, index): Curve => {
    const curve = latencyCurve(result, ['p50', 'p99'])
    return {
      ...curve,
      series: curve.series.map((series) => ({
        ...series,
        name: `${name} ${series.name}`,
        colour: comparedColour(index),
        isDashed: series.name === 'p50',
      })),
    }
  })
  return {
    id: 'curves',
    title: 'Latency against throughput',
    lead: 'Each point is a level of load. Lower and further to the right is better.',
    parts: [
      {
        chart: curveChart('curves', curves),
        table: {
          caption: 'The best of each',
          columns: ['Result', 'Peak throughput', 'Lowest p99 latency'],
          rows: compared.map(({ name, result }) => [name, ...bestOf(result)]),
        },
      },
    ],
  }
}

function bestOf(result: PerfResult): [throughput: string, latency: string] {
  const [throughput, latency] = headlineOf(result)
  const inWords = ({ figure, unit = '', detail }: HeadlineFigure) => `${figure} ${unit} ${detail}`
  return latency === undefined ? ['–', '–'] : [inWords(throughput!), inWords(latency)]
}

/** How results differ apart from their figures. */
function differencesSection(compared: readonly NamedResult[]): Section {
  const parts = [
    differencePart('Settings that differ', compared, ({ settings }) => settings),
    differencePart('Machines, where they differ', compared, ({ machine }) => machine),
  ].filter(({ table }) => table.rows.length > 0)
  return {
    id: 'configuration',
    title: 'Configuration',
    lead:
      parts.length === 0
        ? 'The settings and the machines are the same.'
        : 'The settings and machines, as far as they differ.',
    parts,
  }
}

function differencePart(
  caption: string,
  compared: readonly NamedResult[],
  factsOf: (result: PerfResult) => Readonly<Record<string, unknown>>,
): Part {
  const facts = compared.map(({ result }) => factsOf(result))
  const rows = [...new Set(facts.flatMap(Object.keys))].map((name) => [
    name,
    ...facts.map((own) => (own[name] === undefined ? '–' : settingText(own[name]))),
  ])
  return tablePart(
    caption,
    ['', ...compared.map(({ name }) => name)],
    rows.filter(([, ...values]) => new Set(values).size > 1),
  )
}

/** A level of each result, as one choice. */
interface Choice {
  readonly name: string
  readonly levels: readonly (LevelResult | undefined)[]
}

/**
 * Distributions of latencies and batch sizes, as shares, since results have different numbers of requests.
 */
function comparedDistributionsSection(compared: readonly NamedResult[], areLevelsAlike: boolean): Section {
  const choices = [
    { name: 'each at its own peak', levels: compared.map(peakOf) },
    ...(areLevelsAlike ? commonLevels(compared) : []),
  ]
  return closeUpSection('distributions', {
    shape: 'lines',
    unit: 'share',
    labels: ['Share of the requests', 'Share of the batches'],
    latencies: choices.map((choice) => latencyView(choice, compared)),
    batches: choices.map((choice) => batchView(choice, compared)),
    columns: compared.map(({ name }) => name),
  })
}

function peakOf({ result: { levels } }: NamedResult): LevelResult | undefined {
  return levels.reduce<LevelResult | undefined>(
    (best, level) => (level.inferencesPerSecond > (best?.inferencesPerSecond ?? -Infinity) ? level : best),
    undefined,
  )
}

/** The levels that at least two results have, as choices. */
function commonLevels(compared: readonly NamedResult[]): Choice[] {
  const { mode } = compared[0]!.result
  return placesOf(compared).flatMap((place) => {
    const levels = compared.map(({ result }) => result.levels.find(({ level }) => level === place))
    const present = levels.filter((level) => level !== undefined)
    return present.length < 2 ? [] : [{ name: levelPhrase(mode, present[0]!), levels }]
  })
}

function latencyView({ name, levels }: Choice, compared: readonly NamedResult[]): View {
  const together = levels
    .flatMap((level) => level?.latencyHistogram ?? [])
    .sort((a, b) => a.upToUs - b.upToUs)
  const { bounds, countsOf } = binsOf(together)
  return {
    name,
    names: bounds.map(timeOf),
    unstable: [],
    series: seriesOf(compared, levels, ({ latencyHistogram }) => countsOf(latencyHistogram)),
  }
}

function batchView({ name, levels }: Choice, compared: readonly NamedResult[]): View {
  const sizes = [
    ...new Set(levels.flatMap((level) => level?.batchSizes.map(({ batchSize }) => batchSize) ?? [])),
  ].sort((a, b) => a - b)
  const countsOf = ({ batchSizes }: LevelResult) =>
    sizes.map((size) => batchSizes.find(({ batchSize }) => batchSize === size)?.count ?? 0)
  return { name, names: sizes.map(countOf), unstable: [], series: seriesOf(compared, levels, countsOf) }
}

function seriesOf(
  compared: readonly NamedResult[],
  levels: Choice['levels'],
  countsOf: (level: LevelResult) => number[],
): Series[] {
  return compared.map(({ name }, index) => {
    const counts = levels[index] === undefined ? [] : countsOf(levels[index])
    const total = counts.reduce((a, b) => a + b, 0)
    return { name, colour: comparedColour(index), values: counts.map((count) => plotted(count / total)) }
  })
}

const facts: readonly [name: string, of: (scenario: ScenarioResult) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['valid', ({ valid }) => (valid ? 'yes' : 'no')],
  ['metric', ({ metric }) => metric.name],
  [
    'its value',
    ({ metric: { value, unit } }) => (unit === 'us' ? timeOf(value) : `${countOf(value)} ${unit}`),
  ],
  ['peak', ({ peak }) => (peak?.targetQps == null ? '–' : `${countOf(peak.targetQps)} queries/s`)],
  ['queries', ({ queryCount }) => countOf(queryCount)],
  ['completed samples/s', ({ completedPerSecond }) => countOf(completedPerSecond)],
  ['p50', ({ latency }) => timeOf(latency.p50Us)],
  ['p90', ({ latency }) => timeOf(latency.p90Us)],
  ['p99', ({ latency }) => timeOf(latency.p99Us)],
  ['longest', ({ latency }) => timeOf(latency.maxUs)],
]

/** Scenarios of LoadGen side by side; empty if none was run. */
function comparedScenariosSection(compared: readonly NamedResult[]): Section[] {
  if (compared.every(({ result }) => result.scenario === undefined)) return []
  const rows = facts.map(([name, of]) => [
    name,
    ...compared.map(({ result: { scenario } }) => (scenario === undefined ? '–' : of(scenario))),
  ])
  const columns = ['', ...compared.map(({ name }) => name)]
  return [
    {
      id: 'scenarios',
      title: 'Scenarios',
      lead: "By the rules of MLPerf's LoadGen.",
      parts: [tablePart('What each came to', columns, rows)],
    },
  ]
}
