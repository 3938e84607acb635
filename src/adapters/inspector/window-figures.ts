import type { ModelStatistics } from '../../observe/model-statistics.ts'
import {
  batchReasonsOf,
  batchSizesOf,
  serverFigures,
  type ServerFigures,
  type StatisticsSpan,
} from '../../observe/statistics-difference.ts'
import { latencyWindow } from './latency-window.ts'
import type { WindowFigures } from './frame.ts'

/** What models did between two looks at their statistics, together. */
export function windowFigures(spans: readonly StatisticsSpan[]): WindowFigures {
  const figures = spans.map(serverFigures)
  const sum = (of: (each: ServerFigures) => number) => figures.reduce((total, each) => total + of(each), 0)
  const answered = sum(({ successCount }) => successCount)
  const mean = (of: (each: ServerFigures) => number) =>
    answered === 0 ? null : sum((each) => of(each) * each.successCount) / answered
  const failures = summed(spans.map(failuresBetween))
  const sizes = summed(
    spans.map((span) =>
      Object.fromEntries(batchSizesOf(span).map(({ batchSize, count }) => [batchSize, count])),
    ),
  )
  return {
    answered,
    failed: Object.values(failures).reduce((total, count) => total + count, 0),
    rows: sum(({ inferenceCount }) => inferenceCount),
    runs: sum(({ executionCount }) => executionCount),
    latency: latencyWindow(
      spans.map(({ before, after }) => ({ before: before.latency.total, after: after.latency.total })),
    ),
    overheadUs: mean(({ overheadUs }) => overheadUs),
    queueUs: mean(({ queueUs }) => queueUs),
    inputUs: mean(({ computeInputUs }) => computeInputUs),
    inferUs: mean(({ computeInferUs }) => computeInferUs),
    outputUs: mean(({ computeOutputUs }) => computeOutputUs),
    batchSizes: Object.entries(sizes).map(([batchSize, count]) => ({ batchSize: Number(batchSize), count })), // numbers come in their order
    batchReasons: summed(spans.map(batchReasonsOf)),
    failures,
  }
}

/** Requests that were rejected or refused since it was loaded, by reason. */
export function failuresOf({
  rejections,
  refusals,
}: Pick<ModelStatistics, 'rejections' | 'refusals'>): Record<string, number> {
  return summed([rejections, refusals])
}

function failuresBetween({ before, after }: StatisticsSpan): Record<string, number> {
  const earlier = failuresOf(before)
  return Object.fromEntries(
    Object.entries(failuresOf(after)).map(([reason, count]) => [reason, count - (earlier[reason] ?? 0)]),
  )
}

/** Counts by their names, without those that are 0. */
function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums = new Map<string, number>()
  for (const each of counts)
    for (const [name, count] of Object.entries(each)) sums.set(name, (sums.get(name) ?? 0) + count)
  return Object.fromEntries([...sums].filter(([, count]) => count > 0))
}
