import type { LatencyDistribution } from '../../observe/latency-histogram.ts'
import type { LatencyWindow } from './frame.ts'

/** The same distribution at two moments. */
export interface DistributionSpan {
  readonly before: Pick<LatencyDistribution, 'buckets'>
  readonly after: Pick<LatencyDistribution, 'buckets'>
}

/** What came between two looks at distributions, all of them together; `null` for nothing. */
export function latencyWindow(spans: readonly DistributionSpan[]): LatencyWindow | null {
  const counts = new Map<number, number>() // by bound, which all distributions share
  for (const { before, after } of spans) {
    let at = 0 // what had come before is there afterwards, too, and both ascend
    for (const { upToMs, count } of after.buckets) {
      const earlier = before.buckets[at]?.upToMs === upToMs ? before.buckets[at++]!.count : 0
      if (count > earlier) counts.set(upToMs, (counts.get(upToMs) ?? 0) + count - earlier)
    }
  }
  const counted = [...counts].sort(([a], [b]) => a - b)
  if (counted.length === 0) return null
  const total = counted.reduce((sum, [, count]) => sum + count, 0)
  const quantileUs = (share: number) => {
    let seen = 0
    return 1000 * counted.find(([, count]) => (seen += count) >= total * share)![0]
  }
  return { p50Us: quantileUs(0.5), p90Us: quantileUs(0.9), p99Us: quantileUs(0.99), maxUs: quantileUs(1) }
}
