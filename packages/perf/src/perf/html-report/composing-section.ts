import type { PerfResult } from '../result.ts'
import { levelAxis, levelCell } from './levels.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import type { Section } from './section.ts'

/** What the models of an ensemble's steps take; nothing for any other model. */
export function composingSection({ mode, levels }: PerfResult): Section | null {
  if (levels.every(({ composingModels = [] }) => composingModels.length === 0)) return null
  return {
    id: 'composing',
    title: 'The steps of the ensemble',
    lead: 'What each of its models takes for a request, on average.',
    parts: [
      {
        table: {
          caption: 'Mean of a successful request in the models of the steps',
          columns: [
            levelAxis(mode),
            'model',
            'request',
            'overhead',
            'queue',
            'compute input',
            'compute infer',
            'compute output',
            'executions',
            'mean rows',
          ],
          rows: levels.flatMap((level) =>
            (level.composingModels ?? []).map(({ model, version, server }) => {
              const {
                requestUs,
                overheadUs,
                queueUs,
                computeInputUs,
                computeInferUs,
                computeOutputUs,
                successCount,
                executionCount,
                inferenceCount,
              } = server
              const times = [
                requestUs,
                overheadUs,
                queueUs,
                computeInputUs,
                computeInferUs,
                computeOutputUs,
              ].map((us) => (successCount > 0 ? timeOf(us) : '–'))
              return [
                levelCell(level),
                `${model}, version ${version}`,
                ...times,
                countOf(executionCount),
                countOf(executionCount > 0 ? inferenceCount / executionCount : NaN),
              ]
            }),
          ),
          isOpen: true,
        },
      },
    ],
  }
}
