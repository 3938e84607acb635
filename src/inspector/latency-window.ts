import type { LatencyDistribution } from '../observability/latency-histogram.ts'
import type { LatencyWindow } from './page/frame.ts'

/** The same distribution at two moments. */
export interface DistributionSpan {
  readonly before: Pick<LatencyDistribution, 'buckets'>
  readonly after: Pick<LatencyDistribution, 'buckets'>
}

/** What came between two looks at distributions, all of them together; `null` for nothing. */
export function latencyWindow(spans: readonly DistributionSpan[]): LatencyWindow | null {
  const counts = new Map<number, number>() // by bound, which all distributions share
  const add = (upToMs: number, count: number) => counts.set(upToMs, (counts.get(upToMs) ?? 0) + count)
  for (const { before, after } of spans) {
    for (const { upToMs, count } of after.buckets) add(upToMs, count)
    for (const { upToMs, count } of before.buckets) add(upToMs, -count)
  }
  const counted = [...counts].filter(([, count]) => count > 0).sort(([a], [b]) => a - b)
  if (counted.length === 0) return null
  const total = counted.reduce((sum, [, count]) => sum + count, 0)
  const quantileUs = (share: number) => {
    let seen = 0
    return 1000 * counted.find(([, count]) => (seen += count) >= total * share)![0]
  }
  return { p50Us: quantileUs(0.5), p90Us: quantileUs(0.9), p99Us: quantileUs(0.99), maxUs: quantileUs(1) }
}
