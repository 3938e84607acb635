import Table from 'cli-table3'
import type { ModelStatistics, Outputs } from 'zerohop'
import type { Sample } from '../input/sample-source.ts'
import { codeOf } from '../load/recorder.ts'
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
  const outputs = new Map<string, OutputDifference>()
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
    batchSizes: batchSizesBetween(before, after),
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

function batchSizesBetween(before: ModelStatistics, after: ModelStatistics): AccuracyResult['batchSizes'] {
  const earlier = new Map(
    before.batchStats.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count]),
  )
  return after.batchStats
    .map(({ batchSize, computeInfer }) => ({
      batchSize,
      count: computeInfer.count - (earlier.get(batchSize) ?? 0),
    }))
    .filter(({ count }) => count > 0)
}

/** The comparison of answers under load with answers alone. */
export interface AccuracyResult {
  /** Answers compared. */
  readonly answers: number
  /** Different requests among them. */
  readonly samples: number
  /** Concurrent requests under load. */
  readonly concurrency: number
  /** The largest relative difference that is no error. */
  readonly tolerance: number
  /** Whether all answers are within it. */
  readonly within: boolean
  readonly outputs: readonly OutputDifference[]
  /** Requests that failed, alone or under load, by error code. */
  readonly failures: Readonly<Record<string, number>>
  /** Sizes of the batches under load. If all have one row, nothing was joined, and the check shows little. */
  readonly batchSizes: readonly { readonly batchSize: number; readonly count: number }[]
  /** Answers under load from the response cache, which had no run. */
  readonly cacheHits: number
}

/** How much the answers of one output differ. */
interface OutputDifference {
  readonly output: string
  /** From the model's metadata, or from the first answer. */
  readonly type: string
  /** The largest difference of two numbers; `Infinity` if one is not a number, or shapes or texts differ. */
  readonly absolute: number
  /** The largest difference relative to the largest number of its answer. */
  readonly relative: number
  /**
   * How much answers to different requests differ, as {@link relative}. If it is 0, swapped answers would not
   * be noticed.
   */
  readonly spread: number
  /** Answers beyond the tolerance. */
  readonly above: number
  /** The request with the largest relative difference, counted from 0; `null` if there is no difference. */
  readonly sample: number | null
}

/** The comparison as text for a terminal. */
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
    ...(cacheHits === 0 ? [] : [`${cacheHits} answers came from the response cache and were not run`]),
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
