import type { EngineStatistics } from '../../engine/engine-statistics.ts'
import type { ModelStatistics } from '../../observe/model-statistics.ts'

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
