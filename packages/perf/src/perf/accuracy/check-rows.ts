import type { ModelStatistics, Outputs } from 'zerohop'
import { codeOf } from '../load/recorder.ts'
import type { Sample } from '../input/sample.ts'
import type { AccuracyResult, OutputDifference } from './accuracy-result.ts'
import { answerDifference, typeOf } from './answer-difference.ts'

/** What answers; `Model` does. */
export interface AnsweringModel {
  infer(feeds: Sample['feeds'], options?: Sample['options']): Promise<Outputs>
  stats(): ModelStatistics
}

/** How answers are checked. */
export interface RowCheckSettings {
  /** Requests at once, under load. */
  readonly concurrency: number
  /** How often each request is sent under load. */
  readonly rounds: number
  /** By how much floats may differ, relative to the largest of their answer. */
  readonly tolerance: number
  /** Ends it; what was compared until then counts. */
  readonly signal?: AbortSignal | undefined
}

/**
 * The largest relative difference of floats that is no fault: kernels are chosen by the size of a batch and sum in another
 * order. A row that others reach differs by far more.
 */
export const defaultTolerance = 1e-3

/** Sends each request alone, then all of them together, and compares each answer with the one that it got alone. */
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
