import type { LevelResult } from '../result.ts'
import { binsOf } from './histogram-bins.ts'
import { levelPhrase, plotted } from './levels.ts'
import { comparedColour, type NamedResult } from './named-result.ts'
import type { LevelChart, Series, View } from '../../web-page/charts/chart.ts'
import { rowsOf } from '../../web-page/charts/chart-table.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Part, Section } from './section.ts'

/** A level of each result that has one of them. */
interface Choice {
  readonly name: string
  readonly levels: readonly (LevelResult | undefined)[]
}

/** How latencies and batch sizes of results are distributed, as shares, since the one has more requests than the other. */
export function comparedDistributionsSection(
  compared: readonly NamedResult[],
  areLevelsAlike: boolean,
): Section {
  const choices = [
    { name: 'each at its own peak', levels: compared.map(peakOf) },
    ...(areLevelsAlike ? commonLevels(compared) : []),
  ]
  const latencies: LevelChart = {
    id: 'latencies',
    shape: 'lines',
    x: { label: 'Latency up to' },
    y: { label: 'Share of the requests', unit: 'share', isLogarithmic: false },
    views: choices.map((choice) => latencyView(choice, compared)),
  }
  const batches: LevelChart = {
    id: 'batches',
    shape: 'lines',
    x: { label: 'Rows in the batch' },
    y: { label: 'Share of the batches', unit: 'share', isLogarithmic: false },
    views: choices.map((choice) => batchView(choice, compared)),
  }
  return {
    id: 'distributions',
    title: 'One level from close by',
    lead: 'How latencies are distributed (bins grow by the same factor), and how large the batches were.',
    parts: [
      { title: 'Latencies', chart: latencies, table: tableOf(latencies, compared, 'Requests by latency') },
      { title: 'Batch sizes', chart: batches, table: tableOf(batches, compared, 'Batches by size') },
    ],
    choices: choices.map(({ name }) => name),
  }
}

function peakOf({ result: { levels } }: NamedResult): LevelResult | undefined {
  return levels.reduce<LevelResult | undefined>(
    (best, level) => (level.inferencesPerSecond > (best?.inferencesPerSecond ?? -Infinity) ? level : best),
    undefined,
  )
}

/** The levels that at least two have, as choices. */
function commonLevels(compared: readonly NamedResult[]): Choice[] {
  const [
    {
      result: { mode },
    },
  ] = compared as [NamedResult]
  const places = [...new Set(compared.flatMap(({ result }) => result.levels.map(({ level }) => level)))].sort(
    (a, b) => a - b,
  )
  return places.flatMap((place) => {
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

function tableOf(chart: LevelChart, compared: readonly NamedResult[], caption: string): Part['table'] {
  return {
    caption,
    columns: [chart.x.label, ...compared.map(({ name }) => name)],
    rows: rowsOf(chart, chart.views[0]!),
  }
}
