import type { ServerFigures } from 'zerohop/internals'
import type { Colour } from '../../web-page/colours.ts'
import {
  type Curve,
  type CurveChart,
  type LevelChart,
  rowsOf,
  type Series,
  type View,
} from '../../web-page/charts/chart.ts'
import { countOf, roundTimeOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import type { LatencyFigures, LevelResult, LoadMode, PerfResult } from '../result-schema.ts'
import type { Cell, Part, Section, Table } from './report-page.ts'

const percentiles: readonly [name: string, colour: Colour, of: keyof LatencyFigures][] = [
  ['p50', 'p50', 'p50Us'],
  ['p90', 'p90', 'p90Us'],
  ['p95', 'p95', 'p95Us'],
  ['p99', 'p99', 'p99Us'],
  ['p99.9', 'p999', 'p999Us'],
  ['max', 'max', 'maxUs'],
]

/** Latency over throughput, and each level in one line. */
export function curveSection(result: PerfResult): Section {
  return {
    id: 'curve',
    title: 'Latency against throughput',
    lead: `Each point is a level of load, named by its ${levelAxis(result.mode).toLowerCase()}; the line goes through them in the order in which they were measured.`,
    parts: [
      {
        chart: curveChart('curve', [latencyCurve(result, ['p50', 'p95', 'p99'])]),
        table: summaryTable(result),
      },
    ],
  }
}

/** Latencies over throughput. */
export function curveChart(id: string, curves: readonly Curve[]): CurveChart {
  const values = curves.flatMap(({ series }) => series.flatMap((each) => each.values))
  return {
    id,
    shape: 'curve',
    x: { label: 'Inferences/s', unit: 'count' },
    y: { label: 'Latency', unit: 'microseconds', isLogarithmic: spansDecades(values) },
    curves,
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
  const asked = result.levels.find(({ percentile }) => percentile !== null)?.percentile?.percentile
  const own = asked === undefined || percentiles.some(([name]) => name === `p${asked}`) ? [] : [`p${asked}`]
  return {
    id: 'percentiles',
    title: 'Latency percentiles',
    lead: result.levels.some(({ sendLag }) => sendLag !== null)
      ? 'From the moment a request was meant to be sent to its answer, so that a stall counts for all that should have been sent meanwhile.'
      : 'From the sending of a request to its answer.',
    parts: [
      levelsPart(result, {
        id: 'percentiles',
        shape: 'lines',
        label: 'Latency',
        unit: 'microseconds',
        series: percentileSeries(result),
        caption: 'Latency of each level',
        columns: ['average', 'standard deviation', ...percentiles.map(([name]) => name), ...own],
        cells: ({ latency, requestCount, percentile }) => [
          ...[
            latency.averageUs,
            latency.standardDeviationUs,
            ...percentiles.map(([, , of]) => latency[of]),
          ].map((us) => (requestCount > 0 ? timeOf(us) : '–')),
          ...own.map(() => timeOf(percentile?.us ?? null)),
        ],
      }),
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

const axisNames: Readonly<Record<LoadMode, string>> = {
  concurrency: 'Concurrency',
  'periodic-concurrency': 'Concurrency',
  'request-rate': 'Requests/s',
  'request-intervals': 'Requests/s',
  replay: 'Speed of the replay',
  scenario: 'Level',
}

/** The unit of a mode's levels, as a column heading or axis label. */
export function levelAxis(mode: LoadMode): string {
  return axisNames[mode] ?? 'Level'
}

/** A level within a sentence. */
export function levelPhrase(mode: LoadMode, { level }: LevelResult): string {
  if (levelAxis(mode) === 'Requests/s') return `${countOf(level)} requests/s`
  return `${levelAxis(mode).toLowerCase()} ${countOf(level)}`
}

/** A level as a row heading, marked if it was not stable. */
export function levelCell({ level, stable }: LevelResult): Cell {
  return stable ? countOf(level) : { text: countOf(level), warning: 'unstable' }
}

/** What charts over levels share. */
function levelPoints({ levels }: PerfResult): { names: string[]; unstable: number[] } {
  return {
    names: levels.map(({ level }) => countOf(level)),
    unstable: levels.flatMap(({ stable }, index) => (stable ? [] : [index])),
  }
}

/** A chart over the levels of a result, and a table with a row for each. */
export function levelsPart(
  result: PerfResult,
  chart: {
    readonly id: string
    readonly shape: 'bars' | 'lines'
    readonly label: string
    readonly unit: 'count' | 'share' | 'microseconds'
    readonly series: readonly Series[]
    readonly caption: string
    /** Those after the level itself. */
    readonly columns: readonly string[]
    readonly cells: (level: LevelResult) => readonly Cell[]
  },
): Required<Pick<Part, 'chart' | 'table'>> {
  const { id, shape, label, unit, series, caption, columns, cells } = chart
  const axis = levelAxis(result.mode)
  return {
    chart: {
      id,
      shape,
      x: { label: axis },
      y: {
        label,
        unit,
        isLogarithmic: shape === 'lines' && spansDecades(series.flatMap(({ values }) => values)),
      },
      views: [{ name: '', ...levelPoints(result), series }],
    },
    table: {
      caption,
      columns: [axis, ...columns],
      rows: result.levels.map((level) => [levelCell(level), ...cells(level)]),
    },
  }
}

/** A number for a chart, rounded to visible digits; `null` if it is no number. */
export function plotted(value: number): number | null {
  return Number.isFinite(value) ? Number(value.toPrecision(5)) : null
}

/** Whether the values need a logarithmic axis. */
export function spansDecades(values: readonly (number | null)[]): boolean {
  const shown = values.filter((value) => value !== null && value > 0) as number[]
  return shown.reduce((a, b) => Math.max(a, b), 0) > 20 * shown.reduce((a, b) => Math.min(a, b), Infinity)
}

/** Requests answered or failed. */
export function endedCount({ requestCount, failures }: LevelResult): number {
  return requestCount + failureCount(failures)
}

export function failureCount(failures: LevelResult['failures']): number {
  return Object.values(failures).reduce((a, b) => a + b, 0)
}

/** One level in detail: the distributions of its latencies and batches. */
export function distributionSection(result: PerfResult): Section {
  const { mode, levels } = result
  const nameOf = (level: LevelResult) => `${levelPhrase(mode, level)}${level.stable ? '' : ' (unstable)'}`
  return closeUpSection('distribution', {
    shape: 'bars',
    unit: 'count',
    labels: ['Requests', 'Batches'],
    latencies: levels.map((level) => latencyView(level, nameOf(level))),
    batches: levels.map((level) => batchView(level, nameOf(level))),
    chosen: levels.reduce(
      (best, { inferencesPerSecond }, index) =>
        inferencesPerSecond > (levels[best]?.inferencesPerSecond ?? -Infinity) ? index : best,
      0,
    ),
  })
}

/** Distributions of latencies and of batch sizes, one view at a time. */
export function closeUpSection(
  id: string,
  charts: {
    readonly shape: LevelChart['shape']
    readonly unit: 'count' | 'share'
    readonly labels: readonly [latencies: string, batches: string]
    readonly latencies: readonly View[]
    readonly batches: readonly View[]
    /** Of the figures in the tables. Default: the label. */
    readonly columns?: readonly string[]
    readonly chosen?: number
  },
): Section {
  const { shape, unit, labels, latencies, batches, columns, chosen = 0 } = charts
  const partOf = (own: string, place: string, label: string, views: readonly View[], caption: string) => {
    const chart: LevelChart = {
      id: own,
      shape,
      x: { label: place },
      y: { label, unit, isLogarithmic: false },
      views,
    }
    const rows = views[chosen] === undefined ? [] : rowsOf(chart, views[chosen])
    return { chart, table: { caption, columns: [place, ...(columns ?? [label])], rows } }
  }
  return {
    id,
    title: 'One level from close by',
    lead: 'How latencies are distributed (bins grow by the same factor), and how large the batches were.',
    parts: [
      {
        title: 'Latencies',
        ...partOf('latencies', 'Latency up to', labels[0], latencies, 'Requests by latency'),
      },
      {
        title: 'Batch sizes',
        ...partOf('batches', 'Rows in the batch', labels[1], batches, 'Batches by size'),
      },
    ],
    choices: latencies.map(({ name }) => name),
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

/** A histogram of latencies. */
interface Bins {
  /** Upper bounds, each by the same factor above the one before. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  /** The counts of another histogram in these bins. */
  countsOf(histogram: LevelResult['latencyHistogram']): number[]
  /** The position of a value among the bins, counted from the centre of the first. */
  placeOf(us: number): number
}

const mostBins = 40
/** Narrower bins would show the rounding of the latencies. */
const leastFactor = 2 ** (1 / 4)

/**
 * Measured latencies in at most 40 bins of equal width on a logarithmic axis, without gaps; no bins if
 * nothing was measured.
 */
export function binsOf(histogram: LevelResult['latencyHistogram']): Bins {
  const counted = countedIn(histogram)
  if (counted.length === 0) return { bounds: [], counts: [], countsOf: () => [], placeOf: () => NaN }
  const smallest = counted[0]!.upToUs
  const largest = counted.at(-1)!.upToUs
  const factor = Math.max(leastFactor, (largest / smallest) ** (1 / (mostBins - 1)))
  const binOf = (us: number) => Math.max(0, Math.ceil(Math.log(us / smallest) / Math.log(factor) - 1e-9))
  const bounds = Array.from({ length: binOf(largest) + 1 }, (_, index) => smallest * factor ** index)
  const countsOf = (other: LevelResult['latencyHistogram']) => {
    const counts = bounds.map(() => 0)
    for (const { upToUs, count } of countedIn(other))
      counts[Math.min(bounds.length - 1, binOf(upToUs))]! += count
    return counts
  }
  return {
    bounds,
    counts: countsOf(histogram),
    countsOf,
    placeOf: (us) =>
      Math.min(bounds.length - 0.5, Math.max(-0.5, Math.log(us / smallest) / Math.log(factor) + 0.5)),
  }
}

function countedIn(histogram: LevelResult['latencyHistogram']): { upToUs: number; count: number }[] {
  return histogram
    .filter(({ upToUs, count }) => count > 0 && Number.isFinite(upToUs))
    .map(({ upToUs, count }) => ({ upToUs: Math.max(upToUs, 0.001), count }))
}

const stages: readonly [name: string, colour: Colour, of: keyof ServerFigures][] = [
  ['compute infer', 'infer', 'computeInferUs'],
  ['compute input', 'input', 'computeInputUs'],
  ['compute output', 'output', 'computeOutputUs'],
  ['queue', 'queue', 'queueUs'],
  ['overhead', 'overhead', 'overheadUs'],
]

/** How a request's time in the engine divides. */
export function breakdownSection(result: PerfResult): Section {
  return {
    id: 'breakdown',
    title: 'Where time goes',
    lead: 'What a successful request spends in the engine, on average: waiting in the queue, having its batch put together, run and taken apart, and everything else.',
    parts: [
      levelsPart(result, {
        id: 'breakdown',
        shape: 'bars',
        label: 'Mean per request',
        unit: 'microseconds',
        series: stages.map(([name, colour, of]) => ({
          name,
          colour,
          values: result.levels.map(({ server }) => (server.successCount > 0 ? plotted(server[of]) : null)),
        })),
        caption: 'Mean of a successful request in the engine',
        columns: [...serverTimes.map(([name]) => name), 'cache hits', 'cache misses'],
        cells: ({ server }) => [
          ...serverTimesOf(server),
          countOf(server.cacheHitCount),
          countOf(server.cacheMissCount),
        ],
      }),
    ],
  }
}

/** The mean rows of an execution. */
export function meanRowsOf({ inferenceCount, executionCount }: ServerFigures): string {
  return countOf(executionCount > 0 ? inferenceCount / executionCount : NaN)
}

/** The mean times of a request in the engine, as columns of a table. */
export const serverTimes: readonly [name: string, of: keyof ServerFigures][] = [
  ['request', 'requestUs'],
  ['overhead', 'overheadUs'],
  ['queue', 'queueUs'],
  ['compute input', 'computeInputUs'],
  ['compute infer', 'computeInferUs'],
  ['compute output', 'computeOutputUs'],
]

export function serverTimesOf(server: ServerFigures): string[] {
  return serverTimes.map(([, of]) => (server.successCount > 0 ? timeOf(server[of]) : '–'))
}
