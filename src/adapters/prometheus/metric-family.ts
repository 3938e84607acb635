import type { EngineStatistics } from '../../engine/engine-statistics.ts'
import type { LatencyDistribution } from '../../observe/latency-histogram.ts'
import type { BatchStatistics, ModelStatistics } from '../../observe/model-statistics.ts'

export type Labels = Readonly<Record<string, string>>

/** One value of a metric. */
export interface Sample {
  /** Where it is not the metric's own: `..._bucket`, `..._sum` and `..._count` of a histogram. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** What an engine said of itself, and how it is to be shown. */
export interface Scraped {
  readonly statistics: EngineStatistics
  /** Of the engine. */
  readonly labels: Labels
  /** Of each version that is not released, with the labels of the engine. */
  readonly versions: readonly { readonly labels: Labels; readonly statistics: ModelStatistics }[]
  /** Upper bounds of the histograms: in seconds, and in rows. */
  readonly durationBuckets: readonly number[]
  readonly batchSizeBuckets: readonly number[]
}

/** A metric: its name, what it means, and its values. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** What the processes of a cluster have together. Default: the sum. */
  readonly aggregator?: 'average' | 'max'
  samples(scraped: Scraped): Sample[]
}

/** One value of each version; none where that is `null`. */
export function perVersion(read: (statistics: ModelStatistics) => number | null): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics }) => {
      const value = read(statistics)
      return value === null ? [] : [{ labels, value }]
    })
}

/** Several values of each version, that differ in the label `label`. */
export function perVersionBy(
  label: string,
  read: (statistics: ModelStatistics) => Readonly<Record<string, number>>,
): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics }) =>
      Object.entries(read(statistics)).map(([key, value]) => ({
        labels: { ...labels, [label]: key },
        value,
      })),
    )
}

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
