import Table from 'cli-table3'
import type { ModelStatistics, Outputs } from 'zerohop'
import { batchSizesOf } from 'zerohop/internals'
import type { Sample } from '../input/sample-source.ts'
import { codeOf } from '../load/recorder.ts'
import type { AccuracyResult } from '../result-schema.ts'
import { answerDifference, typeOf } from './answer-difference.ts'

/** The part of a `Model` that answers. */
export interface AnsweringModel {
  infer(feeds: Sample['feeds'], options?: Sample['options']): Promise<Outputs>
  stats(): ModelStatistics
}

/** How to check answers. */
export interface RowCheckSettings {
  /** Concurrent requests under load. */
  readonly concurrency: number
  /** How often each request is sent under load. */
  readonly rounds: number
  /** Allowed difference of floats, relative to the largest of their answer. */
  readonly tolerance: number
  /** Ends the check. The comparisons made so far count. */
  readonly signal?: AbortSignal | undefined
}

/**
 * The largest relative difference of floats that is no error: kernels depend on the batch size and sum in
 * another order. A row affected by others differs by far more.
 */
export const defaultTolerance = 1e-3

/** Sends each request alone, then all of them together, and compares each answer with the one alone. */
export async function checkRows(
  model: AnsweringModel,
  samples: readonly Sample[],
  settings: RowCheckSettings,
): Promise<AccuracyResult> {
  const { concurrency, rounds, tolerance, signal } = settings
  const failures: Record<string, number> = {}
  const ask = async ({ feeds, options }: Sample) => {
    try {
      return await model.infer(feeds, options)
    } catch (error) {
      const code = codeOf(error)
      failures[code] = (failures[code] ?? 0) + 1
      return null
    }
  }
  const alone: (Outputs | null)[] = []
  for (const sample of samples) {
    if (signal?.aborted === true) break
    alone.push(await ask(sample))
  }
  const before = model.stats()
  const outputs = new Map<string, AccuracyResult['outputs'][number]>()
  let answers = 0
  const compare = (index: number, together: Outputs) => {
    const own = alone[index]!
    answers++
    for (const name of new Set([...Object.keys(own), ...Object.keys(together)])) {
      const difference = answerDifference(own[name], together[name])
      const known = outputs.get(name) ?? {
        output: name,
        type: typeOf(own[name]),
        absolute: 0,
        relative: 0,
        spread: spreadOf(alone, name),
        above: 0,
        sample: null,
      }
      outputs.set(name, {
        ...known,
        absolute: Math.max(known.absolute, difference.absolute),
        relative: Math.max(known.relative, difference.relative),
        above: known.above + (difference.relative > tolerance ? 1 : 0),
        sample: difference.relative > known.relative ? index : known.sample,
      })
    }
  }
  let next = 0
  const caller = async () => {
    while (next < rounds * alone.length && signal?.aborted !== true) {
      const index = next++ % alone.length
      if (alone[index] === null) continue
      const together = await ask(samples[index]!)
      if (together !== null) compare(index, together)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, caller))
  const after = model.stats()
  const found = [...outputs.values()]
  const within = answers > 0 && Object.keys(failures).length === 0 && found.every(({ above }) => above === 0)
  return {
    answers,
    samples: alone.length,
    concurrency,
    tolerance,
    within,
    outputs: found,
    failures,
    batchSizes: batchSizesOf({ before, after }),
    cacheHits: after.inferenceStats.cacheHit.count - before.inferenceStats.cacheHit.count,
  }
}

/** The largest difference of the first answer from the others. */
function spreadOf(alone: readonly (Outputs | null)[], name: string): number {
  const [first, ...others] = alone.filter((answer) => answer !== null)
  return others.reduce(
    (most, other) => Math.max(most, answerDifference(first?.[name], other[name]).relative),
    0,
  )
}

/** The comparison as text for a terminal. */
export function accuracyText(result: AccuracyResult): string {
  const { answers, tolerance, outputs, batchSizes, cacheHits } = result
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
  const failed = Object.entries(result.failures).map(([code, count]) => `${count} ${code}`)
  const sizes = batchSizes.map(({ batchSize, count }) => `${count} of ${batchSize}`)
  const isNoneJoined = batchSizes.length > 0 && batchSizes.every(({ batchSize }) => batchSize <= 1)
  const areAllSame = outputs.length > 0 && outputs.every(({ spread }) => spread <= tolerance)
  const lines = [
    `${answers} answers to ${result.samples} different requests, ${result.concurrency} at once, each beside the one that it gets alone`,
    `Batches: ${sizes.join(', ') || 'none'}`,
    table.toString(),
    failed.length > 0 && `Requests failed: ${failed.join(', ')}`,
    cacheHits > 0 && `${cacheHits} answers came from the response cache and were not run`,
    isNoneJoined && 'No batch had more than one row: nothing was joined that could have been mixed up',
    areAllSame && 'Answers to different requests are the same: one for another would not show',
    answers === 0 && 'There was no answer to compare',
    `Answers are ${result.within ? 'within' : 'NOT within'} the tolerance of ${tolerance}`,
  ]
  return `${lines.filter((line) => line !== false).join('\n')}\n`
}

const shown = (difference: number) =>
  difference === 0 ? '0' : Number.isFinite(difference) ? difference.toPrecision(3) : 'different'
