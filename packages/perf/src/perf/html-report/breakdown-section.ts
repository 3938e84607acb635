import type { ServerFigures } from 'zerohop/internals'
import type { PerfResult } from '../result.ts'
import { levelAxis, levelCell, levelPoints, plotted } from './levels.ts'
import type { Colour } from '../../web-page/charts/chart.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Section } from './section.ts'

const stages: readonly [name: string, colour: Colour, of: keyof ServerFigures][] = [
  ['compute infer', 'infer', 'computeInferUs'],
  ['compute input', 'input', 'computeInputUs'],
  ['compute output', 'output', 'computeOutputUs'],
  ['queue', 'queue', 'queueUs'],
  ['overhead', 'overhead', 'overheadUs'],
]

/** What the engine does with the time of a request. */
export function breakdownSection(result: PerfResult): Section {
  const axis = levelAxis(result.mode)
  const { levels } = result
  return {
    id: 'breakdown',
    title: 'Where time goes',
    lead: 'What a successful request spends in the engine, on average: waiting in the queue, having its batch put together, run and taken apart, and everything else.',
    parts: [
      {
        chart: {
          id: 'breakdown',
          shape: 'bars',
          x: { label: axis },
          y: { label: 'Mean per request', unit: 'microseconds', isLogarithmic: false },
          views: [
            {
              name: '',
              ...levelPoints(result),
              series: stages.map(([name, colour, of]) => ({
                name,
                colour,
                values: levels.map(({ server }) => (server.successCount > 0 ? plotted(server[of]) : null)),
              })),
            },
          ],
        },
        table: {
          caption: 'Mean of a successful request in the engine',
          columns: [
            axis,
            'request',
            'overhead',
            'queue',
            'compute input',
            'compute infer',
            'compute output',
            'cache hits',
            'cache misses',
          ],
          rows: levels.map((level) => {
            const {
              requestUs,
              overheadUs,
              queueUs,
              computeInputUs,
              computeInferUs,
              computeOutputUs,
              cacheHitCount,
              cacheMissCount,
              successCount,
            } = level.server
            const times = [
              requestUs,
              overheadUs,
              queueUs,
              computeInputUs,
              computeInferUs,
              computeOutputUs,
            ].map((us) => (successCount > 0 ? timeOf(us) : '–'))
            return [levelCell(level), ...times, countOf(cacheHitCount), countOf(cacheMissCount)]
          }),
        },
      },
    ],
  }
}
