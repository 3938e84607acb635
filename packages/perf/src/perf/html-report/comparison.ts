import type { PerfResult } from '../result.ts'
import { comparedDistributionsSection } from './compared-distributions.ts'
import { comparedLevelsSection } from './compared-levels.ts'
import { comparedScenariosSection } from './compared-scenarios.ts'
import { differencesSection } from './compared-settings.ts'
import { headlineOf, type HeadlineFigure } from './headline.ts'
import { latencyCurve } from './latency-sections.ts'
import { levelAxis, spansDecades } from './levels.ts'
import { comparedColour, type NamedResult } from './named-result.ts'
import type { Curve } from '../../web-page/charts/chart.ts'
import { dateOf, headlineFor } from './report.ts'
import { renderPage } from './report-page.ts'
import type { Section } from './section.ts'

/** Results beside each other, as one page of HTML like that of one result; the first is what the others are measured by. */
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
        chart: {
          id: 'curves',
          shape: 'curve',
          x: { label: 'Inferences/s', unit: 'count' },
          y: {
            label: 'Latency',
            unit: 'microseconds',
            isLogarithmic: spansDecades(
              curves.flatMap(({ series }) => series.flatMap(({ values }) => values)),
            ),
          },
          curves,
        },
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
