import type { PerfResult } from '../result.ts'
import { failureCount } from './levels.ts'
import { countOf } from '../../web-page/charts/figures.ts'
import type { Section } from './section.ts'

/** How far answers under load lie from those alone; nothing where they were not compared. */
export function accuracySection({ accuracy }: PerfResult): Section | null {
  if (accuracy === undefined) return null
  const { within, answers, samples, concurrency, tolerance, outputs, failures, cacheHits } = accuracy
  const failed = failureCount(failures)
  return {
    id: 'accuracy',
    title: `Answers under load, beside those alone: ${within ? 'the same' : 'NOT the same'}`,
    lead: `${countOf(answers)} answers to ${countOf(samples)} different requests, ${concurrency} at once, within ${tolerance} of the largest number of each${failed === 0 ? '' : `; ${countOf(failed)} failed`}${cacheHits === 0 ? '' : `; ${countOf(cacheHits)} came out of the response cache`}.`,
    parts: [
      {
        table: {
          caption: 'Largest differences',
          columns: [
            'output',
            'type',
            'absolute',
            'relative',
            'between requests',
            'above the tolerance',
            'sample',
          ],
          rows: outputs.map(({ output, type, absolute, relative, spread, above, sample }) => [
            output,
            type,
            ...[absolute, relative, spread, above].map(countOf),
            sample === null ? '–' : countOf(sample),
          ]),
          isOpen: true,
        },
      },
    ],
  }
}
