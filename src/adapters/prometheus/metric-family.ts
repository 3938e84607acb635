import type { EngineStatistics } from '../../engine/engine-resources.ts'
import type { LatencyDistribution, BatchStatistics, ModelStatistics } from '../../observe/model-statistics.ts'

export type Labels = Readonly<Record<string, string>>

/** One value of a metric. */
export interface Sample {
  /** If it differs from the metric's name: `..._bucket`, `..._sum` and `..._count` of a histogram. */
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** The statistics of an engine, and how to present them. */
export interface Scraped {
  readonly statistics: EngineStatistics
  /** Labels of the engine. */
  readonly labels: Labels
  /** All versions that are not released. Their labels include the engine's. */
  readonly versions: readonly { readonly labels: Labels; readonly statistics: ModelStatistics }[]
  /** Upper bounds of the histograms, in seconds and in rows. */
  readonly durationBuckets: readonly number[]
  readonly batchSizeBuckets: readonly number[]
}

/** A metric: its name, help text and values. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How to combine the values of a cluster's processes. Default: the sum. */
  readonly aggregator?: 'average' | 'max'
  samples(scraped: Scraped): Sample[]
}

/** One value per version; none if `read` returns `null`. */
export function perVersion(read: (statistics: ModelStatistics) => number | null): MetricFamily['samples'] {
  return ({ versions }) =>
    versions.flatMap(({ labels, statistics }) => {
      const value = read(statistics)
      return value === null ? [] : [{ labels, value }]
    })
}

/** Several values per version, told apart by the label `label`. */
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

/** A count between one bound and the next, ascending. */
interface Counted {
  readonly upTo: number
  readonly count: number
}

/**
 * How far an engine bucket of durations may reach beyond a bound inside it, as a factor: half of the bucket's
 * width.
 */
const half = 1.008

/**
 * The samples of a histogram. A count belongs to the first bound that is not below it.
 *
 * @param reach how far an engine bucket may reach beyond a bound, as a factor.
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

/**
 * Samples of durations, in seconds. A bound inside an engine bucket is off by at most half of its width, 0.8
 * %.
 */
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

/** Samples of the rows in a batch. */
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
