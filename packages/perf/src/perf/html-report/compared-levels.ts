import type { Series } from '../../web-page/charts/chart.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { LevelResult } from '../result-schema.ts'
import { levelAxis, plotted, spansDecades } from './level-sections.ts'
import { type Cell, comparedColour, type NamedResult, type Part, type Section } from './report-page.ts'

interface Measure {
  readonly id: string
  readonly title: string
  readonly unit: 'count' | 'microseconds'
  readonly of: (level: LevelResult) => number
}

const measures: readonly Measure[] = [
  {
    id: 'throughputs',
    title: 'Inferences/s',
    unit: 'count',
    of: ({ inferencesPerSecond }) => inferencesPerSecond,
  },
  { id: 'p50s', title: 'p50 latency', unit: 'microseconds', of: ({ latency }) => latency.p50Us },
  { id: 'p99s', title: 'p99 latency', unit: 'microseconds', of: ({ latency }) => latency.p99Us },
  { id: 'cores', title: 'Cores kept busy', unit: 'count', of: ({ cpuCores }) => cpuCores },
]

/** The same levels of several results, side by side. */
export function comparedLevelsSection(compared: readonly NamedResult[]): Section {
  const levels = placesOf(compared)
  return {
    id: 'levels',
    title: 'Level by level',
    lead: `What each gave at the same ${levelAxis(compared[0]!.result.mode).toLowerCase()}; in the tables beside what ${compared[0]!.name} gave.`,
    parts: measures.map((measure) => measurePart(measure, compared, levels)),
  }
}

/** All levels, ascending. */
export function placesOf(compared: readonly NamedResult[]): number[] {
  const places = compared.flatMap(({ result }) => result.levels.map(({ level }) => level))
  return [...new Set(places)].sort((a, b) => a - b)
}

function measurePart(
  { id, title, unit, of }: Measure,
  compared: readonly NamedResult[],
  levels: readonly number[],
): Part {
  const found = compared.map(({ result }) =>
    levels.map((at) => result.levels.find(({ level }) => level === at)),
  )
  const values = found.map((own) =>
    own.map((level) => (level !== undefined && level.requestCount > 0 ? of(level) : NaN)),
  )
  const series = compared.map(({ name }, index): Series => ({
    name,
    colour: comparedColour(index),
    values: values[index]!.map(plotted),
    unstable: levels.flatMap((_, at) => (found[index]![at]?.stable === false ? [at] : [])),
  }))
  const unstable = levels.flatMap((_, at) => (found.some((own) => own[at]?.stable === false) ? [at] : []))
  const axis = levelAxis(compared[0]!.result.mode)
  const shown = unit === 'count' ? countOf : timeOf
  const against = (index: number, at: number) =>
    index === 0 ? '' : ` (${ratioOf(values[index]![at]! / values[0]![at]!)})`
  return {
    title,
    chart: {
      id,
      shape: 'lines',
      x: { label: axis },
      y: { label: title, unit, isLogarithmic: spansDecades(series.flatMap((each) => each.values)) },
      views: [{ name: '', names: levels.map(countOf), unstable, series }],
    },
    table: {
      caption: `${title} at each level`,
      columns: [axis, ...compared.map(({ name }) => name)],
      rows: levels.map((level, at) => [
        countOf(level),
        ...found.map((own, index): Cell => {
          const text = `${shown(values[index]![at]!)}${against(index, at)}`
          return own[at]?.stable === false ? { text, warning: 'unstable' } : text
        }),
      ]),
    },
  }
}

function ratioOf(ratio: number): string {
  return Number.isFinite(ratio) ? `${ratio.toFixed(2)} x` : '–'
}
