import type { LatencyDistribution } from '../../observe/latency-histogram.ts'
import type { BatchStatistics } from '../../observe/model-statistics.ts'
import type { Labels, Sample } from './metric-family.ts'

/** What was counted between one bound and the next, ascending. */
interface Counted {
  readonly upTo: number
  readonly count: number
}

/** How far a bucket of durations may reach beyond a bound that lies in it, as a share of that: half of its width. */
const half = 1.008

/**
 * The samples of a histogram. What was counted belongs to the first bound that is not below it.
 *
 * @param reach how far a bucket of ours may reach beyond a bound, as a share of that.
 */
function histogramSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  counted: readonly Counted[],
  sum: number,
  reach = 1,
): Sample[] {
  const samples: Sample[] = []
  let at = 0
  let count = 0
  for (const bound of bounds) {
    for (; at < counted.length && counted[at]!.upTo <= bound * reach; at++) count += counted[at]!.count
    samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le: bound }, value: count })
  }
  const total = counted.reduce((all, each) => all + each.count, 0)
  samples.push({ metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total })
  samples.push(
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  )
  return samples
}

/** Of durations, in seconds; bounds within a bucket of ours are off by at most half of its width, 0.8 %. */
export function durationSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  { buckets }: LatencyDistribution,
  sumSeconds: number,
): Sample[] {
  return histogramSamples(
    name,
    labels,
    bounds,
    buckets.map(({ upToMs, count }) => ({ upTo: upToMs / 1000, count })),
    sumSeconds,
    half,
  )
}

/** Of rows in a batch. */
export function batchSizeSamples(
  name: string,
  labels: Labels,
  bounds: readonly number[],
  batches: readonly BatchStatistics[],
): Sample[] {
  const counted = batches.map(({ batchSize, computeInfer: { count } }) => ({ upTo: batchSize, count }))
  return histogramSamples(
    name,
    labels,
    bounds,
    counted,
    counted.reduce((rows, { upTo, count }) => rows + upTo * count, 0),
  )
}
