import Table from 'cli-table3'
import type { AccuracyResult } from './accuracy-result.ts'

/** What comparing answers has found, for a terminal. */
export function accuracyText(result: AccuracyResult): string {
  const { answers, samples, concurrency, tolerance, within, outputs, failures, batchSizes, cacheHits } =
    result
  const table = new Table({
    head: [
      'Output',
      'Type',
      'Largest difference',
      'Relative to its answer',
      'Between requests',
      'Above tolerance',
      'Of request',
    ],
    style: { head: [], border: [] },
  })
  for (const { output, type, absolute, relative, spread, above, sample } of outputs)
    table.push([
      output,
      type,
      shown(absolute),
      shown(relative),
      shown(spread),
      `${above} of ${answers}`,
      sample === null ? '-' : `${sample}`,
    ])
  const failed = Object.entries(failures).map(([code, count]) => `${count} ${code}`)
  const joined = batchSizes.filter(({ batchSize }) => batchSize > 1)
  return [
    `${answers} answers to ${samples} different requests, ${concurrency} at once, each beside the one that it gets alone`,
    `Batches: ${batchSizes.map(({ batchSize, count }) => `${count} of ${batchSize}`).join(', ') || 'none'}`,
    table.toString(),
    ...(failed.length === 0 ? [] : [`Requests failed: ${failed.join(', ')}`]),
    ...(cacheHits === 0
      ? []
      : [`${cacheHits} answers came out of the response cache: they are no runs of their own`]),
    ...(joined.length > 0 || batchSizes.length === 0
      ? []
      : ['No batch had more than one row: nothing was joined that could have been mixed up']),
    ...(outputs.length > 0 && outputs.every(({ spread }) => spread <= tolerance)
      ? ['Answers to different requests are the same: one for another would not show']
      : []),
    ...(answers > 0 ? [] : ['There was no answer to compare']),
    `Answers are ${within ? 'within' : 'NOT within'} the tolerance of ${tolerance}`,
    '',
  ].join('\n')
}

const shown = (difference: number) =>
  difference === 0 ? '0' : Number.isFinite(difference) ? difference.toPrecision(3) : 'different'
