import type { LatencyFigures, PerfResult } from '../result.ts'
import { levelAxis, levelCell, levelPoints, plotted, spansDecades } from './levels.ts'
import type { Colour, Curve, Series } from '../../web-page/charts/chart.ts'
import { countOf, roundTimeOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Section, Table } from './section.ts'

const percentiles: readonly [name: string, colour: Colour, of: keyof LatencyFigures][] = [
  ['p50', 'p50', 'p50Us'],
  ['p90', 'p90', 'p90Us'],
  ['p95', 'p95', 'p95Us'],
  ['p99', 'p99', 'p99Us'],
  ['p99.9', 'p999', 'p999Us'],
  ['max', 'max', 'maxUs'],
]

/** How latency grows with throughput, and each level in one line. */
export function curveSection(result: PerfResult): Section {
  const curve = latencyCurve(result, ['p50', 'p95', 'p99'])
  return {
    id: 'curve',
    title: 'Latency against throughput',
    lead: `Each point is a level of load, named by its ${levelAxis(result.mode).toLowerCase()}; the line goes through them in the order in which they were measured.`,
    parts: [
      {
        chart: {
          id: 'curve',
          shape: 'curve',
          x: { label: 'Inferences/s', unit: 'count' },
          y: {
            label: 'Latency',
            unit: 'microseconds',
            isLogarithmic: spansDecades(curve.series.flatMap(({ values }) => values)),
          },
          curves: [curve],
        },
        table: summaryTable(result),
      },
    ],
  }
}

/** Some percentiles of a result over its throughput. */
export function latencyCurve(result: PerfResult, names: readonly string[]): Curve {
  return {
    ...levelPoints(result),
    xs: result.levels.map(({ inferencesPerSecond, requestCount }) =>
      requestCount > 0 ? plotted(inferencesPerSecond) : null,
    ),
    series: percentileSeries(result).filter(({ name }) => names.includes(name)),
  }
}

/** All percentiles of each level. */
export function percentileSection(result: PerfResult): Section {
  const series = percentileSeries(result)
  const axis = levelAxis(result.mode)
  const asked = result.levels.find(({ percentile }) => percentile !== null)?.percentile?.percentile
  const own = asked === undefined || percentiles.some(([name]) => name === `p${asked}`) ? [] : [`p${asked}`]
  return {
    id: 'percentiles',
    title: 'Latency percentiles',
    lead: result.levels.some(({ sendLag }) => sendLag !== null)
      ? 'From the moment a request was meant to be sent to its answer, so that a stall counts for all that should have been sent meanwhile.'
      : 'From the sending of a request to its answer.',
    parts: [
      {
        chart: {
          id: 'percentiles',
          shape: 'lines',
          x: { label: axis },
          y: {
            label: 'Latency',
            unit: 'microseconds',
            isLogarithmic: spansDecades(series.flatMap(({ values }) => values)),
          },
          views: [{ name: '', ...levelPoints(result), series }],
        },
        table: {
          caption: 'Latency of each level',
          columns: [axis, 'average', 'standard deviation', ...percentiles.map(([name]) => name), ...own],
          rows: result.levels.map((level) => [
            levelCell(level),
            ...[
              level.latency.averageUs,
              level.latency.standardDeviationUs,
              ...percentiles.map(([, , of]) => level.latency[of]),
            ].map((us) => (level.requestCount > 0 ? timeOf(us) : '–')),
            ...own.map(() => timeOf(level.percentile?.us ?? null)),
          ]),
        },
      },
    ],
  }
}

function percentileSeries({ levels }: PerfResult): Series[] {
  return percentiles.map(([name, colour, of]) => ({
    name,
    colour,
    values: levels.map(({ latency, requestCount }) => (requestCount > 0 ? plotted(latency[of]) : null)),
  }))
}

function summaryTable({ mode, levels }: PerfResult): Table {
  const withGoodput = levels.some(({ goodput }) => goodput !== null)
  return {
    caption: 'Levels of load, in the order in which they were measured',
    columns: [
      levelAxis(mode),
      'inferences/s',
      'requests',
      'average',
      'p50',
      'p95',
      'p99',
      ...(withGoodput ? ['within bound'] : []),
      'window',
    ],
    rows: levels.map((level) => {
      const { averageUs, p50Us, p95Us, p99Us } = level.latency
      const times = [averageUs, p50Us, p95Us, p99Us].map((us) => (level.requestCount > 0 ? timeOf(us) : '–'))
      const goodput = withGoodput ? [shareOf(level.goodput?.share ?? null)] : []
      return [
        levelCell(level),
        countOf(level.inferencesPerSecond),
        countOf(level.requestCount),
        ...times,
        ...goodput,
        roundTimeOf(level.windowSeconds * 1e6),
      ]
    }),
    isOpen: true,
  }
}
