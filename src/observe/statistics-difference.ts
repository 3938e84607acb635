import type { ModelStatistics, StatisticDuration } from './model-statistics.ts'

/** Counts, and means per successful request: they add up to `requestUs`. */
export interface ServerFigures {
  readonly inferenceCount: number
  readonly executionCount: number
  readonly successCount: number
  readonly cacheHitCount: number
  readonly cacheMissCount: number
  /** What a look into the response cache took: that found an answer, and that found none and kept one later. */
  readonly cacheHitUs: number
  readonly cacheMissUs: number
  readonly requestUs: number
  readonly overheadUs: number
  readonly queueUs: number
  readonly computeInputUs: number
  readonly computeInferUs: number
  readonly computeOutputUs: number
}

/** The same statistics at two moments. */
export interface StatisticsSpan {
  readonly before: ModelStatistics
  readonly after: ModelStatistics
}

/** From the beginning of the first to the end of the last; they follow each other. */
export function spanOf(spans: readonly StatisticsSpan[]): StatisticsSpan {
  return { before: spans[0]!.before, after: spans.at(-1)!.after }
}

/** What the engine says of the time between two looks at its statistics. */
export function serverFigures({ before, after }: StatisticsSpan): ServerFigures {
  const [first, last] = [before.inferenceStats, after.inferenceStats]
  const spent = (name: keyof typeof first) => difference(first[name], last[name])
  const successCount = spent('success').count
  const mean = (name: keyof typeof first) => (successCount === 0 ? 0 : spent(name).ns / 1000 / successCount)
  const [requestUs, queueUs] = [mean('success'), mean('queue')]
  const [computeInputUs, computeInferUs] = [mean('computeInput'), mean('computeInfer')]
  const computeOutputUs = mean('computeOutput')
  return {
    inferenceCount: after.inferenceCount - before.inferenceCount,
    executionCount: after.executionCount - before.executionCount,
    successCount,
    cacheHitCount: spent('cacheHit').count,
    cacheMissCount: spent('cacheMiss').count,
    cacheHitUs: meanUs(spent('cacheHit')),
    cacheMissUs: meanUs(spent('cacheMiss')),
    requestUs,
    // What is left, as in Triton's client. Rounding of the sums may make it a little less than nothing.
    overheadUs: Math.max(0, requestUs - queueUs - computeInputUs - computeInferUs - computeOutputUs),
    queueUs,
    computeInputUs,
    computeInferUs,
    computeOutputUs,
  }
}

/** How many batches of which size there were. */
export function batchSizesOf({ before, after }: StatisticsSpan): { batchSize: number; count: number }[] {
  const earlier = new Map(
    before.batchStats.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count]),
  )
  const sizes = after.batchStats.map(({ batchSize, computeInfer }) => ({
    batchSize,
    count: computeInfer.count - (earlier.get(batchSize) ?? 0),
  }))
  return sizes.filter(({ count }) => count > 0)
}

/** Why batches were closed, and how often. */
export function batchReasonsOf({ before, after }: StatisticsSpan): Record<string, number> {
  const reasons = Object.entries(after.batchReasons).map(
    ([reason, count]) =>
      [reason, count - before.batchReasons[reason as keyof typeof before.batchReasons]] as const,
  )
  return Object.fromEntries(reasons.filter(([, count]) => count > 0))
}

/** Which part of what was run is padding; nothing where nothing was padded. */
export function paddingOf({ before, after }: StatisticsSpan): { paddingShare?: number } {
  const padded = after.padding.paddedElements - before.padding.paddedElements
  return padded === 0
    ? {}
    : { paddingShare: 1 - (after.padding.ownElements - before.padding.ownElements) / padded }
}

function meanUs({ count, ns }: StatisticDuration): number {
  return count === 0 ? 0 : ns / 1000 / count
}

function difference(before: StatisticDuration, after: StatisticDuration): StatisticDuration {
  return { count: after.count - before.count, ns: after.ns - before.ns }
}
