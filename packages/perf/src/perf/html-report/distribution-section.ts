import type { LevelResult, PerfResult } from '../result.ts'
import { binsOf } from './histogram-bins.ts'
import { levelPhrase, plotted } from './levels.ts'
import type { LevelChart, View } from '../../web-page/charts/chart.ts'
import { rowsOf } from '../../web-page/charts/chart-table.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Part, Section } from './section.ts'

/** One level from close by: how its latencies and its batches are distributed. */
export function distributionSection(result: PerfResult): Section {
  const { mode, levels } = result
  const choices = levels.map((level) => `${levelPhrase(mode, level)}${level.stable ? '' : ' (unstable)'}`)
  const chosen = levels.reduce(
    (best, { inferencesPerSecond }, index) =>
      inferencesPerSecond > (levels[best]?.inferencesPerSecond ?? -Infinity) ? index : best,
    0,
  )
  const latencies: LevelChart = {
    id: 'latencies',
    shape: 'bars',
    x: { label: 'Latency up to' },
    y: { label: 'Requests', unit: 'count', isLogarithmic: false },
    views: levels.map((level, index) => latencyView(level, choices[index]!)),
  }
  const batches: LevelChart = {
    id: 'batches',
    shape: 'bars',
    x: { label: 'Rows in the batch' },
    y: { label: 'Batches', unit: 'count', isLogarithmic: false },
    views: levels.map((level, index) => batchView(level, choices[index]!)),
  }
  return {
    id: 'distribution',
    title: 'One level from close by',
    lead: 'How latencies are distributed (bins grow by the same factor), and how large the batches were.',
    parts: [
      { title: 'Latencies', chart: latencies, table: tableOf(latencies, chosen, 'Requests by latency') },
      { title: 'Batch sizes', chart: batches, table: tableOf(batches, chosen, 'Batches by size') },
    ],
    choices,
    chosen,
  }
}

function latencyView({ latencyHistogram, latency }: LevelResult, name: string): View {
  const { bounds, counts, placeOf } = binsOf(latencyHistogram)
  const marks = [
    ['p50', latency.p50Us],
    ['p90', latency.p90Us],
    ['p99', latency.p99Us],
  ] as const
  return {
    name,
    names: bounds.map(timeOf),
    unstable: [],
    series: [{ name: 'requests', colour: 'first', values: counts.map(plotted) }],
    marks:
      bounds.length === 0
        ? []
        : marks.flatMap(([name, us]) =>
            us > 0 && Number.isFinite(us) ? [{ at: Number(placeOf(us).toFixed(2)), name }] : [],
          ),
  }
}

function batchView({ batchSizes }: LevelResult, name: string): View {
  const ascending = batchSizes.toSorted((a, b) => a.batchSize - b.batchSize)
  return {
    name,
    names: ascending.map(({ batchSize }) => countOf(batchSize)),
    unstable: [],
    series: [{ name: 'batches', colour: 'third', values: ascending.map(({ count }) => plotted(count)) }],
  }
}

function tableOf(chart: LevelChart, chosen: number, caption: string): Part['table'] {
  const view = chart.views[chosen]
  return {
    caption,
    columns: [chart.x.label, chart.y.label],
    rows: view === undefined ? [] : rowsOf(chart, view),
  }
}
